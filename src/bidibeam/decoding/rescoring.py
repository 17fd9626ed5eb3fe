"""The other direction's opinion of those hypotheses alone that can still win."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from bidibeam.protocols import SequenceScorer
from bidibeam.search.found import FoundSequence

FIRST = 2
"""How many of each source's hypotheses are asked about first: those with the best scores."""
BEGINNING = 2
"""Tokens of the others that are asked about next: hypotheses share them, so they cost little."""
MARGIN = 1e-4
"""A model's opinion of the same tokens differs by rounding from one call to the next; by less than this."""

Array = np.ndarray[Any, np.dtype[Any]]


def contenders(
    scorer: SequenceScorer,
    sources: Tensor,
    found: Sequence[Sequence[FoundSequence]],
    turned: Callable[[FoundSequence, int | None], Sequence[int]],
    weight: float,
) -> list[list[float | None]]:
    """Log-probabilities of the sequences that may have the highest score + weight * (normalised) opinion.

    A log-probability only falls as a sequence goes on: the opinion of its first tokens bounds that of the
    whole from above, and so does 0. The few with the best scores are asked about whole. Those of the others
    whose bound is below the best total cannot reach it, and are left out (None), as are those cut off where
    another one finished: a strategy ranks them last.

    Args:
        scorer: The other direction.
        sources: (sources, length), padded ids.
        found: Each source's sequences, best first, finished ones before those cut off.
        turned: The first so many tokens, or all, of what the other direction would write, end included.
        weight: At least 0.
    """
    flat = _flattened(found, weight)
    if not flat.sequences:
        return [[] for _ in found]
    questions = _Questions(scorer, sources, flat, turned)
    lines, scores, weights = flat.lines, flat.scores, flat.weights
    opinions = np.full(len(scores), np.nan)  # (sequences,)
    is_first = flat.places < FIRST  # (sequences,)
    first = np.flatnonzero(flat.is_eligible & is_first)
    opinions[first] = questions.ask(first)
    best = np.full(len(found), -np.inf)  # (sources,)
    np.maximum.at(best, lines[first], scores[first] + weights[first] * opinions[first])
    bounds = scores + weights * MARGIN
    rest = np.flatnonzero(flat.is_eligible & ~is_first & (bounds >= best[lines]))
    bounds = scores[rest] + weights[rest] * (questions.ask(rest, BEGINNING) + MARGIN)
    rest = rest[bounds >= best[lines[rest]]]
    opinions[rest] = questions.ask(rest)
    values = [None if value != value else value for value in opinions.tolist()]  # NaN is not itself
    return [values[start:end] for start, end in pairwise(flat.starts.tolist())]


class _Flat(NamedTuple):
    """The sequences of all sources, one source's behind the other's.

    Attributes:
        sequences: The sequences.
        starts: (sources + 1), where each source's begin, and where the last one's end.
        lines: (sequences), the number of each one's source; they rise.
        places: (sequences), its place among those of its source.
        scores: (sequences), its score.
        weights: (sequences), what an opinion of it weighs, normalised as its score is.
        is_eligible: (sequences), whether it finished, or nothing of its source did.
    """

    sequences: list[FoundSequence]
    starts: Array
    lines: Array
    places: Array
    scores: Array
    weights: Array
    is_eligible: Array


def _flattened(found: Sequence[Sequence[FoundSequence]], weight: float) -> _Flat:
    flat = list(chain.from_iterable(found))
    counts = [len(sequences) for sequences in found]
    starts = np.array([0, *accumulate(counts)])
    lines = np.repeat(np.arange(len(found)), counts)
    scores = np.array([sequence.score for sequence in flat])
    log_probs = np.array([sequence.log_prob for sequence in flat])
    weights = weight * np.divide(scores, log_probs, out=np.ones_like(scores), where=log_probs != 0)
    is_finished = np.array([sequence.finished for sequence in flat], dtype=bool)
    has_finished = np.zeros(len(found), dtype=bool)  # (sources,)
    has_finished[lines[is_finished]] = True
    return _Flat(
        sequences=flat,
        starts=starts,
        lines=lines,
        places=np.arange(len(flat)) - starts[lines],
        scores=scores,
        weights=weights,
        is_eligible=is_finished | ~has_finished[lines],
    )


class _Questions(NamedTuple):
    """What can be asked about sequences: the first arguments of `contenders`."""

    scorer: SequenceScorer
    sources: Tensor
    flat: _Flat
    turned: Callable[[FoundSequence, int | None], Sequence[int]]

    def ask(self, chosen: Array, tokens: int | None = None) -> Array:
        """What the scorer makes of some sequences, or of their first tokens: (chosen,).

        What begins alike is asked about once. The other direction begins with our last tokens.
        """
        if not len(chosen):
            return np.zeros(0)
        sequences, turned = self.flat.sequences, self.turned
        asked: list[list[Sequence[int]]] = [[] for _ in range(len(self.flat.starts) - 1)]
        known: dict[tuple[int, tuple[int, ...]], int] = {}  # by source and last tokens: the question's number
        numbers = []
        last = None if tokens is None else -tokens
        for index, line in zip(chosen.tolist(), self.flat.lines[chosen].tolist(), strict=True):
            sequence, new = sequences[index], len(known)
            number = known.setdefault((line, sequence.tokens[last:]), new)
            numbers.append(number)
            if number == new:  # the sources rise, so questions are numbered in the order of the answers
                asked[line].append(turned(sequence, tokens))
        return np.array(list(chain.from_iterable(self.scorer.log_probs(self.sources, asked))))[numbers]
