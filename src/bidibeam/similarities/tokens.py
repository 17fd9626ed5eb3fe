"""Tokens as numbers: kernels compare numbers, and only ask which tokens are equal."""

from __future__ import annotations

from array import array
from collections import defaultdict
from itertools import accumulate, chain, count
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.protocols import Comparison

    Numbers = np.ndarray[tuple[int], np.dtype[np.int32]]

_TOKENS = attrgetter("tokens")


class NumberedTokens(NamedTuple):
    """Two lists of token sequences end to end, equal tokens having equal numbers.

    Attributes:
        ids: (tokens of all), each token's number, counted from 0 in the order in which tokens first occur.
        offsets: (judged + others + 1), where each sequence begins in `ids`, and where the last one ends.
        judged: How many of the sequences belong to the first list.
    """

    ids: Numbers
    offsets: Numbers
    judged: int


def number_tokens(judged: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> NumberedTokens:
    """Number the tokens of both lists; one dictionary lookup a token."""
    sequences = [*judged, *others]
    offsets = np.fromiter(
        accumulate(map(len, sequences), initial=0), dtype=np.int32, count=len(sequences) + 1
    )
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    ids = np.fromiter(
        map(numbers.__getitem__, chain.from_iterable(sequences)), dtype=np.int32, count=offsets[-1]
    )
    return NumberedTokens(ids, offsets, len(judged))


WORTHWHILE = 100_000
"""Pairs of hypotheses that are worth a thread."""


class NumberedLists(NamedTuple):
    """The lists of many comparisons, in which the same token sequences occur again and again.

    Attributes:
        sequences: The different token sequences.
        places: (sequences of all lists), where in `sequences` each one is.
        cuts: (2 * comparisons + 1), where each list begins in `places`, and where the last one ends: those
            judged in the first comparison, the others of the first, those judged in the second ...
    """

    sequences: list[tuple[str, ...]]
    places: Numbers
    cuts: Numbers


def number_lists(comparisons: Sequence[Comparison]) -> NumberedLists:
    """Write down each different token sequence once; one dictionary lookup a hypothesis.

    Searches find the same replies for many sources: of a batch's hypotheses, one in ten may be new.
    """
    numbers: defaultdict[tuple[str, ...], int] = defaultdict(count().__next__)
    places, cuts = array("i"), array("i", [0])
    for hypotheses in chain.from_iterable(comparisons):
        places.extend(map(numbers.__getitem__, map(_TOKENS, hypotheses)))
        cuts.append(len(places))
    return NumberedLists(list(numbers), np.array(places, np.int32), np.array(cuts, np.int32))


def worth_a_thread(cuts: Numbers) -> int:
    """How many of the comparisons of `NumberedLists.cuts` are worth a thread."""
    sizes = np.diff(cuts)
    pairs = int((sizes[::2] * sizes[1::2]).sum())
    return max(1, len(sizes) // 2 * WORTHWHILE // max(1, pairs))
