"""What a search found: the steps it took, and the sequences read back from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from bidibeam.protocols import LengthPenalty
    from bidibeam.search.settings import SearchSettings


@dataclass(frozen=True, slots=True)
class FoundSequence:
    """One sequence that a search found.

    Attributes:
        tokens: Token ids in writing order, without start or end token.
        log_prob: Its log-probability, that of the end token included where it has one.
        length: |Y|, what the score was normalised by.
        score: The length-normalised log-probability.
        finished: Whether the end token came, or the maximum length cut it off.
    """

    tokens: tuple[int, ...]
    log_prob: float
    length: int
    score: float
    finished: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a search. Only pointers: prefixes are never copied.

    Attributes:
        sources: Which sources took part, by their place in the whole batch.
        live: (sources, beams), what each live hypothesis wrote, as parent * vocabulary + token.
        candidates: (sources, candidates), the ranked continuations, as beam * vocabulary + token.
        ended_log_probs: (sources, candidates), of those that ended here; -inf for the others.
    """

    sources: Sequence[int]
    live: Tensor
    candidates: Tensor
    ended_log_probs: Tensor


@dataclass(frozen=True, slots=True)
class _Entries:
    """Sequences of every source that may come back, each named by its last slot: all (sources, entries)."""

    log_probs: Tensor
    scores: Tensor
    steps: Tensor  # how many tokens to read back
    slots: Tensor


def read_back(
    steps: Sequence[Step],
    live_log_probs: Tensor,
    vocabulary: int,
    *,
    settings: SearchSettings,
    penalty: LengthPenalty,
) -> list[list[FoundSequence]]:
    """The up to B best sequences of each source, best first; those cut off come after the finished ones.

    Args:
        steps: Every step of the search; all sources took part in the first.
        live_log_probs: (sources, beams), of the hypotheses still live after the last step, -inf in empty
            slots; the sources are those of the last step.
        vocabulary: What the pointers were multiplied by.
        settings: Those of the search.
        penalty: That of the search.
    """
    steps = _on_host(steps)
    finished = _finished(steps, vocabulary, settings, penalty)
    unfinished = _unfinished(steps, live_log_probs.cpu(), penalty)
    kept = [(finished, True)] + ([(unfinished, False)] if settings.unfinished == "keep" else [])
    results: list[list[FoundSequence]] = [[] for _ in steps[0].sources]
    for entries, is_finished in kept:
        tokens = _trace(steps, entries, vocabulary)  # (sources, entries, steps)
        columns = (tokens, entries.log_probs, entries.scores, entries.steps)
        for found, *lines in zip(results, *(column.tolist() for column in columns), strict=True):
            for written, log_prob, score, count in zip(*lines, strict=True):
                if score == -torch.inf or len(found) == settings.beam_size:
                    break
                length = settings.counted(count + 1) if is_finished else count
                found.append(FoundSequence(tuple(written[:count]), log_prob, length, score, is_finished))
    return results


def _on_host(steps: Sequence[Step]) -> list[Step]:
    """The same steps in main memory, moved by one copy for each kind of tensor."""
    pointers = _moved([tensor for step in steps for tensor in (step.live, step.candidates)])
    log_probs = _moved([step.ended_log_probs for step in steps])
    return [
        Step(step.sources, live, candidates, ended)
        for step, live, candidates, ended in zip(steps, pointers[::2], pointers[1::2], log_probs, strict=True)
    ]


def _moved(tensors: Sequence[Tensor]) -> list[Tensor]:
    if tensors[0].device.type == "cpu":
        return list(tensors)
    flat = torch.cat([tensor.flatten() for tensor in tensors]).cpu()
    parts = flat.split_with_sizes([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def _finished(
    steps: Sequence[Step], vocabulary: int, settings: SearchSettings, penalty: LengthPenalty
) -> _Entries:
    """The B best that ended, best first; of equal scores the one that ended first, then the better ranked."""
    sources = len(steps[0].sources)
    columns = []
    for number, step in enumerate(steps, start=1):
        width = step.candidates.shape[1]
        log_probs = torch.full((sources, width), -torch.inf)  # (sources, candidates)
        log_probs[step.sources] = step.ended_log_probs
        slots = torch.zeros(sources, width, dtype=torch.long)
        slots[step.sources] = step.candidates // vocabulary
        scores = penalty.score(log_probs, settings.counted(number))
        columns.append((log_probs, scores, torch.full_like(slots, number - 1), slots))
    log_probs, scores, lengths, slots = (torch.cat(parts, dim=1) for parts in zip(*columns, strict=True))
    best = scores.sort(dim=1, descending=True, stable=True).indices[:, : settings.beam_size]  # (sources, B)
    return _Entries(*(tensor.gather(1, best) for tensor in (log_probs, scores, lengths, slots)))


def _unfinished(steps: Sequence[Step], live_log_probs: Tensor, penalty: LengthPenalty) -> _Entries:
    """Those still live after the last step, best first."""
    shape = (len(steps[0].sources), live_log_probs.shape[1])
    log_probs = torch.full(shape, -torch.inf)  # (sources, beams)
    log_probs[steps[-1].sources] = live_log_probs
    lengths = torch.full(shape, len(steps))
    slots = torch.arange(shape[1]).expand(shape)
    return _Entries(log_probs, penalty.score(log_probs, len(steps)), lengths, slots)


def _trace(steps: Sequence[Step], entries: _Entries, vocabulary: int) -> Tensor:
    """Follow the pointers from each entry's last slot to the start: (sources, entries, steps)."""
    slots = entries.slots  # (sources, entries)
    tokens = torch.zeros(*slots.shape, len(steps), dtype=torch.long)
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        live = torch.zeros(slots.shape[0], step.live.shape[1], dtype=torch.long)  # (sources, beams)
        live[step.sources] = step.live
        is_written = entries.steps > index  # (sources, entries)
        pointers = live.gather(1, slots.where(is_written, 0))  # (sources, entries)
        tokens[:, :, index] = pointers % vocabulary
        slots = (pointers // vocabulary).where(is_written, slots)
    return tokens
