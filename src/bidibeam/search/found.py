"""What a search found: the steps it took, and the sequences read back from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise, repeat
from typing import TYPE_CHECKING, NamedTuple

import torch

from bidibeam.interpreter import uncollected
from bidibeam.search.reports import sent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


@dataclass(frozen=True, slots=True)
class _Traced:
    """Entries with their tokens, on the host.

    Attributes:
        tokens: (sources, entries, steps), those past an entry's own are of no meaning.
        log_probs: (sources, entries).
        scores: (sources, entries), -inf where there is no entry.
        steps: (sources, entries), how many tokens each has.
        finished: Whether they are those that ended.
    """

    tokens: Tensor
    log_probs: Tensor
    scores: Tensor
    steps: Tensor
    finished: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, still as tensors: to make objects of them takes the interpreter a while.

    Attributes:
        traced: The entries, the finished ones first.
        settings: Those of the search.
    """

    traced: Sequence[_Traced]
    settings: SearchSettings

    def sequences(self) -> list[list[FoundSequence]]:
        """The up to B best sequences of each source, best first; those cut off come after the finished."""
        if not self.traced:
            return []
        results: list[list[FoundSequence]] = [[] for _ in self.traced[0].tokens]
        room = torch.full((len(results), 1), self.settings.beam_size)  # (sources, 1), how many more may come
        with uncollected():
            for traced in self.traced:
                places = torch.arange(traced.scores.shape[1])  # (entries,)
                is_kept = (traced.scores > -torch.inf) & (places < room)  # (sources, entries)
                kept = is_kept.sum(1, keepdim=True)  # (sources, 1)
                room -= kept
                found = self._sequences(traced, is_kept)
                for line, count in zip(results, kept.squeeze(1).tolist(), strict=True):
                    line.extend(islice(found, count))
        return results

    def _sequences(self, traced: _Traced, is_kept: Tensor) -> Iterator[FoundSequence]:
        """Those kept, (sources, entries), one source's behind the other's."""
        steps = traced.steps[is_kept]  # (kept,)
        tokens = traced.tokens[is_kept]  # (kept, steps)
        is_written = torch.arange(tokens.shape[1]) < steps.unsqueeze(1)  # (kept, steps)
        written: list[int] = tokens[is_written].tolist()  # (tokens,), every sequence's end to end
        ends = steps.cumsum(0).tolist()
        added = self.settings.counted(1) if traced.finished else 0  # what the end token adds to |Y|
        columns = (
            (tuple(written[start:end]) for start, end in pairwise((0, *ends))),
            traced.log_probs[is_kept].tolist(),
            (steps + added).tolist(),
            traced.scores[is_kept].tolist(),
            repeat(traced.finished),
        )
        return map(FoundSequence._make, zip(*columns, strict=False))


def read_back(
    steps: Sequence[Step],
    live_log_probs: Tensor,
    vocabulary: int,
    *,
    settings: SearchSettings,
    penalty: LengthPenalty,
) -> Found:
    """The up to B best sequences of each source.

    Args:
        steps: Every step of the search; all sources took part in the first.
        live_log_probs: (sources, beams), of the hypotheses still live after the last step, -inf in empty
            slots; the sources are those of the last step.
        vocabulary: What the pointers were multiplied by.
        settings: Those of the search.
        penalty: That of the search.
    """
    kept = [(_finished(steps, vocabulary, settings, penalty), True)]
    if settings.unfinished == "keep":
        kept.append((_unfinished(steps, live_log_probs, penalty), False))
    traced = []
    for entries, is_finished in kept:
        tokens = _trace(steps, entries, vocabulary)  # (sources, entries, steps)
        log_probs, scores = entries.log_probs.cpu(), entries.scores.cpu()
        traced.append(_Traced(tokens.cpu(), log_probs, scores, entries.steps.cpu(), is_finished))
    return Found(traced, settings)


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
