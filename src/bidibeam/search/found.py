"""What a search found: the steps it took, and the sequences read back from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from bidibeam.interpreter import uncollected
from bidibeam.search.reports import fetched, sent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from bidibeam.protocols import LengthPenalty
    from bidibeam.search.reports import Arriving, Numbers, Reports
    from bidibeam.search.settings import SearchSettings

    Array = np.ndarray[Any, np.dtype[Any]]


class FoundSequence(NamedTuple):
    """One sequence that a search found.

    Attributes:
        tokens: Token ids in writing order, without start or end token.
        log_prob: Its log-probability, that of the end token included where it has one.
        length: |Y|, what the score was normalised by.
        score: The length-normalised log-probability.
        finished: Whether an end token came, or the maximum length cut it off.
        end: The end token that came.
    """

    tokens: tuple[int, ...]
    log_prob: float
    length: int
    score: float
    finished: bool
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """Sequences of several sources, one source's behind the other's: what `FoundSequence` has, as columns.

    Attributes:
        written: (tokens), those of the sequences, end to end, and maybe others.
        starts: (sequences), where each one's tokens start.
        stops: (sequences), where they stop.
        log_probs: (sequences), float32.
        lengths: (sequences)
        scores: (sequences), float32.
        finished: (sequences), boolean.
        ends: (sources), where each source's sequences end.
        end_tokens: (sequences), the end token of each, and something below 0 where none came; None where it
            is not known.
    """

    written: Array
    starts: Array
    stops: Array
    log_probs: Array
    lengths: Array
    scores: Array
    finished: Array
    ends: Array
    end_tokens: Array | None = None

    def __len__(self) -> int:
        return len(self.stops)

    def of_sources(self, first: int, last: int) -> Columns:
        """The same for a range of the sources, the last one not included."""
        start, end = (int(self.ends[source - 1]) if source else 0 for source in (first, last))
        part = slice(start, end)
        tokens = slice(self.starts[start], self.stops[end - 1]) if start < end else slice(0)
        return Columns(
            self.written[tokens],
            self.starts[part] - tokens.start,
            self.stops[part] - tokens.start,
            self.log_probs[part],
            self.lengths[part],
            self.scores[part],
            self.finished[part],
            self.ends[first:last] - start,
            None if self.end_tokens is None else self.end_tokens[part],
        )

    def where(self, is_kept: Array) -> Columns:
        """The same for some of the sequences, (sequences)."""
        before = np.concatenate(([0], np.cumsum(is_kept)))  # (sequences + 1), how many are kept before each
        return Columns(
            self.written,
            self.starts[is_kept],
            self.stops[is_kept],
            self.log_probs[is_kept],
            self.lengths[is_kept],
            self.scores[is_kept],
            self.finished[is_kept],
            before[self.ends],
            None if self.end_tokens is None else self.end_tokens[is_kept],
        )

    def tokens(self, *, backwards: bool = False) -> list[tuple[int, ...]]:
        """Each sequence's, in writing order or backwards."""
        starts, stops = self.starts, self.stops
        written = tuple(self.written.tolist())
        if backwards:
            written, starts, stops = written[::-1], len(written) - stops, len(written) - starts
        return [written[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]

    def sequences(self) -> list[list[FoundSequence]]:
        """Each source's, as objects."""
        numbers = (self.log_probs, self.lengths, self.scores, self.finished)
        columns = zip(self.tokens(), *(column.tolist() for column in numbers), self._ends(), strict=True)
        flat = list(map(partial(tuple.__new__, FoundSequence), columns))
        return [flat[start:end] for start, end in pairwise((0, *self.ends.tolist()))]

    def _ends(self) -> list[int | None]:
        """Each sequence's end token."""
        if self.end_tokens is None:
            return [None] * len(self)
        return [None if token < 0 else token for token in self.end_tokens.tolist()]


@dataclass(frozen=True)
class Step:
    """One step of a search. Only pointers: prefixes are never copied.

    Attributes:
        sources: Which sources took part, by their place in the whole batch.
        live: (sources, beams), what each live hypothesis wrote, as parent * vocabulary + token.
        candidates: (sources, candidates), the ranked continuations, as beam * vocabulary + token.
        ended_log_probs: (sources, candidates), of those that ended here; -inf for the others.
    """

    sources: Numbers
    live: Tensor
    candidates: Tensor
    ended_log_probs: Tensor

    @cached_property
    def lines(self) -> Tensor:
        """The sources as a tensor, (sources,), where the others are."""
        return sent(self.sources, self.live.device)


class _Entries(NamedTuple):
    """Sequences of every source that may come back, each named by its last slot: all (sources, entries)."""

    log_probs: Tensor
    scores: Tensor  # -inf where there is no entry
    steps: Tensor  # how many tokens to read back
    slots: Tensor
    ends: Tensor  # the end token, or -1

    def gathered(self, places: Tensor) -> _Entries:
        """Some of each source's, (sources, entries)."""
        return _Entries(*(tensor.gather(1, places) for tensor in self))


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, on its way to the host: whoever reads it waits, and not the search.

    Attributes:
        arriving: The entries, best first: tokens, (sources, entries, steps), of which those past an entry's
            own are of no meaning; then, each (sources, entries), log-probabilities, scores, -inf where there
            is no entry, the number of its tokens, and its end token, or -1. None for no sources.
        settings: Those of the search.
        reports: The search's, not yet read to the end.
    """

    arriving: Arriving | None
    settings: SearchSettings
    reports: Reports | None = None

    def columns(self) -> Columns:
        """The up to B best sequences of each source, best first, as `SearchSettings.unfinished` has it.

        Raises:
            ScorerError: If the model answered with something other than numbers.
        """
        if self.reports is not None:
            self.reports.drain()
        if self.arriving is None:
            none = np.zeros(0, dtype=np.int64)
            numbers = none.astype(np.float32)
            return Columns(none, none, none, numbers, none, numbers, none > 0, none, none)
        return self._columns(*(tensor.numpy() for tensor in self.arriving.read()))

    def sequences(self) -> list[list[FoundSequence]]:
        """The same as objects.

        Raises:
            ScorerError: If the model answered with something other than numbers.
        """
        with uncollected():
            return self.columns().sequences()

    def _columns(self, tokens: Array, log_probs: Array, scores: Array, steps: Array, ends: Array) -> Columns:
        is_kept = scores > -np.inf  # (sources, entries)
        is_written = np.arange(tokens.shape[2]) < np.where(is_kept, steps, 0)[:, :, None]
        counts, end_tokens = steps[is_kept], ends[is_kept]  # (sequences,)
        is_finished = end_tokens >= 0  # (sequences,)
        stops = counts.cumsum()  # (sequences,)
        return Columns(
            written=tokens[is_written],
            starts=stops - counts,
            stops=stops,
            log_probs=log_probs[is_kept],
            lengths=counts + is_finished * self.settings.counted(1),  # |Y| may count the end token
            scores=scores[is_kept],
            finished=is_finished,
            ends=is_kept.sum(1).cumsum(),
            end_tokens=end_tokens,
        )


def read_back(
    steps: Sequence[Step],
    live_log_probs: Tensor,
    vocabulary: int,
    *,
    settings: SearchSettings,
    penalty: LengthPenalty,
    reports: Reports | None = None,
) -> Found:
    """The up to B best sequences of each source. The host does not wait for them here.

    Args:
        steps: Every step of the search; all sources took part in the first.
        live_log_probs: (sources, beams), of the hypotheses still live after the last step, -inf in empty
            slots; the sources are those of the last step.
        vocabulary: What the pointers were multiplied by.
        settings: Those of the search.
        penalty: That of the search.
        reports: Those of the search; what is found reads them to the end.
    """
    entries = best_entries(steps, live_log_probs, vocabulary, settings=settings, penalty=penalty)
    return Found(fetched(*entries), settings, reports)


def best_entries(
    steps: Sequence[Step],
    live_log_probs: Tensor,
    vocabulary: int,
    *,
    settings: SearchSettings,
    penalty: LengthPenalty,
) -> tuple[Tensor, ...]:
    """What `Found` has on its way, still on the device; the arguments are those of `read_back`."""
    entries = _finished(steps, vocabulary, settings, penalty)
    if settings.unfinished != "drop":
        cut_off = _unfinished(steps, live_log_probs, penalty)
        entries = _Entries(*(torch.cat(both, dim=1) for both in zip(entries, cut_off, strict=True)))
        entries = entries.gathered(_best(entries.scores, settings))
    tokens = _trace(steps, entries, vocabulary)  # (sources, entries, steps)
    return tokens, entries.log_probs, entries.scores, entries.steps, entries.ends


def _best(scores: Tensor, settings: SearchSettings) -> Tensor:
    """The places of the B that come back, (sources, B), among (sources, entries), the finished ones first.

    Those cut off compete by score, and rank after a finished one of the same; or they come where no finished
    one does. Either way the order of the entries decides between equals.
    """
    keys = scores if settings.unfinished == "rank" else (scores > -torch.inf).byte()  # (sources, entries)
    return keys.sort(dim=1, descending=True, stable=True).indices[:, : settings.beam_size]


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
        flat = _spread(step.candidates, step, sources, 0)  # (sources, candidates)
        scores = penalty.score(log_probs, settings.counted(number))
        columns.append((log_probs, scores, torch.full_like(flat, number - 1), flat))
    log_probs, scores, lengths, flat = (torch.cat(parts, dim=1) for parts in zip(*columns, strict=True))
    best = scores.sort(dim=1, descending=True, stable=True).indices[:, : settings.beam_size]  # (sources, B)
    log_probs, scores, lengths, flat = (part.gather(1, best) for part in (log_probs, scores, lengths, flat))
    slots = flat // vocabulary  # (sources, B)
    return _Entries(log_probs, scores, lengths, slots, ends=flat - slots * vocabulary)


def _unfinished(steps: Sequence[Step], live_log_probs: Tensor, penalty: LengthPenalty) -> _Entries:
    """Those still live after the last step, best first."""
    log_probs = _spread(live_log_probs, steps[-1], len(steps[0].sources), -torch.inf)  # (sources, beams)
    lengths = torch.full(log_probs.shape, len(steps), device=log_probs.device)
    slots = torch.arange(log_probs.shape[1], device=log_probs.device).expand(log_probs.shape)
    ends = torch.full_like(lengths, -1)
    return _Entries(log_probs, penalty.score(log_probs, len(steps)), lengths, slots, ends)


def _trace(steps: Sequence[Step], entries: _Entries, vocabulary: int) -> Tensor:
    """Follow the pointers from each entry's last slot to the start: (sources, entries, steps)."""
    slots = entries.slots  # (sources, entries)
    written: list[Tensor] = []
    for index, step in reversed(list(enumerate(steps))):
        live = _spread(step.live, step, slots.shape[0], 0)  # (sources, beams)
        is_written = entries.steps > index  # (sources, entries)
        pointers = live.gather(1, slots.where(is_written, 0))  # (sources, entries)
        written.append(pointers)
        slots = (pointers // vocabulary).where(is_written, slots)
    return (torch.stack(written[::-1], dim=2) % vocabulary).int()
