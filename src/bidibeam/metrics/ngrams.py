"""N-grams that replies share with their references, counted for all replies at once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING

import numpy as np

from bidibeam._version import __version__
from bidibeam.errors import InputError
from bidibeam.scores import Signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
    Counts = np.ndarray[tuple[int, int], np.dtype[np.int64]]

LARGEST = 2**62
"""No key may be larger, or it would not fit its 64 bits."""


def check_paired(replies: Sequence[object], references: Sequence[object]) -> None:
    """Makes sure that there is something to score, and one reference for each reply."""
    if len(replies) != len(references):
        raise InputError(
            f"A score needs one reference for each reply, but there are {len(replies)} replies and "
            f"{len(references)} references."
        )
    if not replies:
        raise InputError("There are no replies to score: give at least one reply and its reference.")


def sign(**settings: object) -> Signature:
    """Returns a signature of these settings, and behind them the version that computed the score."""
    return Signature(()).extended(**settings, bidibeam=__version__)


@dataclass(frozen=True, eq=False)
class NgramCounts:
    """What n-gram precision and recall are made of; matches count as often as both have them."""

    matches: Counts  # (pairs, order)
    reply_lengths: Numbers  # (pairs,), in tokens
    reference_lengths: Numbers  # (pairs,)

    @property
    def reply_ngrams(self) -> Counts:
        """All n-grams of each reply, (pairs, order)."""
        return self._ngrams(self.reply_lengths)

    @property
    def reference_ngrams(self) -> Counts:
        """All n-grams of each reference, (pairs, order)."""
        return self._ngrams(self.reference_lengths)

    @property
    def statistics(self) -> Counts:
        """BLEU's sufficient statistics, (pairs, 2 + 2 * order): see `bidibeam.metrics.bleu.corpus_bleu`."""
        return np.column_stack([self.reply_lengths, self.reference_lengths, self.matches, self.reply_ngrams])

    def _ngrams(self, lengths: Numbers) -> Counts:
        ngrams: Counts = np.maximum(0, lengths[:, np.newaxis] - np.arange(self.matches.shape[1]))
        return ngrams


def count_ngrams(
    replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]], order: int
) -> NgramCounts:
    """Counts the n-grams of 1 to `order` tokens that each reply shares with its reference.

    An n-gram is a number: that of its first n - 1 tokens, times the vocabulary, plus its last token's.
    """
    check_paired(replies, references)
    pairs, sequences = len(replies), [*replies, *references]
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    ids = np.fromiter(map(numbers.__getitem__, chain.from_iterable(sequences)), np.int64, lengths.sum())
    owners = np.repeat(np.arange(len(sequences)), lengths)  # (tokens,)
    left = np.repeat(lengths.cumsum(), lengths) - np.arange(len(ids))  # (tokens,), to the sequence's end
    matches = np.zeros((pairs, order), np.int64)
    starts, grams, size = np.arange(len(ids)), np.zeros(len(ids), np.int64), 1
    for n in range(order):
        is_whole = left[starts] > n
        starts, grams = starts[is_whole], grams[is_whole]
        grams, size = _renumber(grams, size, len(numbers))
        grams, size = grams * len(numbers) + ids[starts + n], size * len(numbers)
        grams, size = _renumber(grams, size, len(sequences))
        is_reference, owner_pairs = np.divmod(owners[starts], pairs)
        keys, clipped = _intersect(owner_pairs * size + grams, is_reference)
        matches[:, n] = np.bincount(keys // max(1, size), clipped, pairs)
    return NgramCounts(matches, lengths[:pairs], lengths[pairs:])


def _renumber(grams: Numbers, size: int, factor: int) -> tuple[Numbers, int]:
    """Gives the n-grams smaller numbers if multiplying them would be too much."""
    if size * factor <= LARGEST:
        return grams, size
    different, smaller = np.unique(grams, return_inverse=True)
    return smaller.astype(np.int64), len(different)


def _intersect(keys: Numbers, is_reference: Numbers) -> tuple[Numbers, Numbers]:
    """Returns the keys there are, rising, and how often both reply, 0, and reference, 1, have each."""
    if not len(keys):
        return keys, keys
    marked = np.sort(2 * keys + is_reference)
    values = marked >> 1
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    ones = np.add.reduceat(marked & 1, starts)
    return values[starts], np.minimum(ones, np.diff(starts, append=len(marked)) - ones)
