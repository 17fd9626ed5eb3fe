"""Tokens as numbers: kernels compare numbers, and only ask which tokens are equal."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate, chain, count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    Numbers = np.ndarray[tuple[int], np.dtype[np.int32]]


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
    ids = np.fromiter(map(numbers.__getitem__, chain.from_iterable(sequences)), dtype=np.int32)
    return NumberedTokens(ids, offsets, len(judged))
