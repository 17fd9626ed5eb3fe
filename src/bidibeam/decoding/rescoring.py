"""The other direction's opinion of those hypotheses alone that can still win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, NamedTuple, overload

import numpy as np
from torch import Tensor

from bidibeam.protocols import SequenceScorer
from bidibeam.search.found import Columns

FIRST = 2
"""How many of each source's hypotheses are asked about first: those with the best scores."""
BEGINNING = 2
"""Tokens of the others that are asked about next: hypotheses share them, so they cost little."""
MARGIN = 1e-4
"""A model's opinion of the same tokens differs by rounding from one call to the next; by less than this."""

Array = np.ndarray[Any, np.dtype[Any]]
Line = Sequence[Sequence[int]]  # the sequences of one source


def contenders(
    scorer: SequenceScorer, sources: Tensor, columns: Columns, weight: float, *, end: int
) -> list[float | None]:
    """Log-probabilities of the sequences that may have the highest score + weight * (normalised) opinion.

    A log-probability only falls as a sequence goes on: the opinion of its first tokens bounds that of the
    whole from above, and so does 0. The few with the best scores are asked about whole. Those of the others
    whose bound is below the best total cannot reach it, and are left out (None), as are those cut off where
    another one finished: a strategy ranks them last.

    Args:
        scorer: The other direction.
        sources: (sources, length), padded ids.
        columns: The sources' sequences, each source's best first.
        weight: At least 0.
        end: The end token.
    """
    opinions = np.full(len(columns), np.nan)  # (sequences,)
    facts = _facts(columns, weight)
    questions = _Questions(scorer, sources, columns, facts.lines, end)
    lines, scores, weights = facts.lines, facts.scores, facts.weights
    is_first = facts.places < FIRST  # (sequences,)
    first = np.flatnonzero(facts.is_eligible & is_first)
    opinions[first] = questions.whole(first)
    best = np.full(len(columns.ends), -np.inf)  # (sources,)
    np.maximum.at(best, lines[first], scores[first] + weights[first] * opinions[first])
    bounds = scores + weights * MARGIN
    rest = np.flatnonzero(facts.is_eligible & ~is_first & (bounds >= best[lines]))
    bounds = scores[rest] + weights[rest] * (questions.beginnings(rest) + MARGIN)
    rest = rest[bounds >= best[lines[rest]]]
    opinions[rest] = questions.whole(rest)
    values: list[float | None] = [None] * len(columns)
    heard = np.flatnonzero(~np.isnan(opinions))
    for place, opinion in zip(heard.tolist(), opinions[heard].tolist(), strict=True):
        values[place] = opinion
    return values


class _Facts(NamedTuple):
    """What is to be known of the sequences besides, all (sequences).

    Attributes:
        lines: The number of each one's source; they rise.
        places: Its place among those of its source.
        scores: Its score.
        weights: What an opinion of it weighs, normalised as its score is.
        is_eligible: Whether it finished, or nothing of its source did.
    """

    lines: Array
    places: Array
    scores: Array
    weights: Array
    is_eligible: Array


def _facts(columns: Columns, weight: float) -> _Facts:
    counts = np.diff(columns.ends, prepend=0)  # (sources,)
    lines = np.repeat(np.arange(len(counts)), counts)
    scores, log_probs = columns.scores.astype(np.float64), columns.log_probs.astype(np.float64)
    has_finished = np.zeros(len(counts), dtype=bool)  # (sources,)
    has_finished[lines[columns.finished]] = True
    return _Facts(
        lines=lines,
        places=np.arange(len(lines)) - (columns.ends - counts)[lines],
        scores=scores,
        weights=weight * np.divide(scores, log_probs, out=np.ones_like(scores), where=log_probs != 0),
        is_eligible=columns.finished | ~has_finished[lines],
    )


@dataclass(frozen=True)
class TokenLines(Sequence[Line]):
    """Each source's sequences, as `SequenceScorer.log_probs` takes them, without an object for each.

    Attributes:
        tokens: (tokens), those of all sequences, end to end.
        lengths: (sequences), how many tokens each has, one source's behind the other's.
        counts: (sources), how many sequences each has.
    """

    tokens: Array
    lengths: Array
    counts: Array

    def __len__(self) -> int:
        return len(self.counts)

    @overload
    def __getitem__(self, source: int) -> Line: ...
    @overload
    def __getitem__(self, source: slice) -> Sequence[Line]: ...
    def __getitem__(self, source: int | slice) -> Line | Sequence[Line]:
        return self._nested[source]

    @cached_property
    def _nested(self) -> list[Line]:
        """For whoever asks for objects."""
        tokens = tuple(self.tokens.tolist())
        stops, ends = (np.cumsum(counts).tolist() for counts in (self.lengths, self.counts))
        flat = [tokens[start:stop] for start, stop in pairwise((0, *stops))]
        return [flat[start:end] for start, end in pairwise((0, *ends))]


def turned(columns: Columns, chosen: Array | None = None, *, end: int, most: int | None = None) -> TokenLines:
    """What the other direction would write: the tokens turned around (`Direction.rearrange`), then the end.

    Args:
        columns: Sequences.
        chosen: Which of them, rising; None for all.
        end: The end token.
        most: How many of its first tokens; None for all.
    """
    places = np.arange(len(columns)) if chosen is None else chosen
    counts, stops = (columns.stops - columns.starts)[places], columns.stops[places]  # (chosen,)
    lengths = counts + 1 if most is None else np.minimum(counts + 1, most)  # (chosen,)
    owners = np.repeat(np.arange(len(places)), lengths)  # (tokens,)
    steps = np.arange(len(owners)) - (np.cumsum(lengths) - lengths)[owners]  # (tokens,), each one's place
    written = np.append(columns.written, end)  # (tokens written + 1)
    sources = np.searchsorted(columns.ends, places, side="right")  # (chosen,)
    return TokenLines(
        written[np.where(steps < counts[owners], stops[owners] - 1 - steps, -1)],
        lengths,
        np.bincount(sources, minlength=len(columns.ends)),
    )


class _Questions(NamedTuple):
    """What can be asked about sequences: arguments of `contenders`, and the sources that they are of."""

    scorer: SequenceScorer
    sources: Tensor
    columns: Columns
    lines: Array
    end: int

    def whole(self, chosen: Array) -> Array:
        """What the scorer makes of some sequences: (chosen,)."""
        return self._ask(turned(self.columns, chosen, end=self.end))

    def beginnings(self, chosen: Array) -> Array:
        """What the scorer makes of their first tokens: (chosen,). What begins alike is asked about once."""
        asked = turned(self.columns, chosen, end=self.end, most=BEGINNING)
        table = np.zeros((len(chosen), BEGINNING), dtype=np.int64)  # (chosen, tokens), 0 where there is none
        table[np.arange(BEGINNING) < asked.lengths[:, None]] = asked.tokens + 1
        keys = self.lines[chosen]  # (chosen,), a number for each source and question
        for column in table.T:
            keys = keys * (table.max(initial=0) + 1) + column
        _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
        return self._ask(turned(self.columns, chosen[first], end=self.end, most=BEGINNING))[numbers]

    def _ask(self, questions: TokenLines) -> Array:
        if not len(questions.lengths):
            return np.zeros(0)
        answers = self.scorer.log_probs(self.sources, questions)
        return np.fromiter(chain.from_iterable(answers), np.float64, len(questions.lengths))
