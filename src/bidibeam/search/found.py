"""What a search found: the steps it took, and the sequences read back from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch

from bidibeam.search.reports import sent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from bidibeam.protocols import LengthPenalty
    from bidibeam.search.settings import SearchSettings


class FoundSequence(NamedTuple):
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


@dataclass(frozen=True)
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

    @cached_property
    def lines(self) -> Tensor:
        """The sources as a tensor, (sources,), where the others are."""
        return sent(self.sources, self.live.device)


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
    finished = _finished(steps, vocabulary, settings, penalty)
    unfinished = _unfinished(steps, live_log_probs, penalty)
    kept = [(finished, True)] + ([(unfinished, False)] if settings.unfinished == "keep" else [])
    results: list[list[FoundSequence]] = [[] for _ in steps[0].sources]
    for entries, is_finished in kept:
        tokens = _trace(steps, entries, vocabulary)  # (sources, entries, steps)
        is_written = torch.arange(len(steps), device=tokens.device) < entries.steps.unsqueeze(-1)
        all_written: list[int] = tokens[is_written].tolist()  # (tokens,), those of every entry end to end
        added = settings.counted(1) if is_finished else 0  # what the end token adds to |Y|
        columns = (entries.log_probs, entries.scores, entries.steps)
        end = 0
        for found, *lines in zip(results, *(column.tolist() for column in columns), strict=True):
            room = settings.beam_size - len(found)
            for log_prob, score, count in zip(*lines, strict=True):
                start, end = end, end + count
                if room > 0 and score > -torch.inf:
                    room -= 1
                    written = tuple(all_written[start:end])
                    found.append(FoundSequence(written, log_prob, count + added, score, is_finished))
    return results


def _spread(part: Tensor, step: Step, sources: int, fill: float) -> Tensor:
    """A step's lines, (sources of the step, width), among those of all sources: (sources, width)."""
    if len(step.sources) == sources:
        return part
    whole = part.new_full((sources, part.shape[1]), fill)
    whole[step.lines] = part
    return whole


def _finished(
    steps: Sequence[Step], vocabulary: int, settings: SearchSettings, penalty: LengthPenalty
) -> _Entries:
    """The B best that ended, best first; of equal scores the one that ended first, then the better ranked."""
    sources = len(steps[0].sources)
    columns = []
    for number, step in enumerate(steps, start=1):
        log_probs = _spread(step.ended_log_probs, step, sources, -torch.inf)  # (sources, candidates)
        slots = _spread(step.candidates // vocabulary, step, sources, 0)  # (sources, candidates)
        scores = penalty.score(log_probs, settings.counted(number))
        columns.append((log_probs, scores, torch.full_like(slots, number - 1), slots))
    log_probs, scores, lengths, slots = (torch.cat(parts, dim=1) for parts in zip(*columns, strict=True))
    best = scores.sort(dim=1, descending=True, stable=True).indices[:, : settings.beam_size]  # (sources, B)
    return _Entries(*(tensor.gather(1, best) for tensor in (log_probs, scores, lengths, slots)))


def _unfinished(steps: Sequence[Step], live_log_probs: Tensor, penalty: LengthPenalty) -> _Entries:
    """Those still live after the last step, best first."""
    log_probs = _spread(live_log_probs, steps[-1], len(steps[0].sources), -torch.inf)  # (sources, beams)
    lengths = torch.full(log_probs.shape, len(steps), device=log_probs.device)
    slots = torch.arange(log_probs.shape[1], device=log_probs.device).expand(log_probs.shape)
    return _Entries(log_probs, penalty.score(log_probs, len(steps)), lengths, slots)


def _trace(steps: Sequence[Step], entries: _Entries, vocabulary: int) -> Tensor:
    """Follow the pointers from each entry's last slot to the start: (sources, entries, steps)."""
    slots = entries.slots  # (sources, entries)
    tokens = slots.new_zeros(*slots.shape, len(steps))
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        live = _spread(step.live, step, slots.shape[0], 0)  # (sources, beams)
        is_written = entries.steps > index  # (sources, entries)
        pointers = live.gather(1, slots.where(is_written, 0))  # (sources, entries)
        tokens[:, :, index] = pointers % vocabulary
        slots = (pointers // vocabulary).where(is_written, slots)
    return tokens
