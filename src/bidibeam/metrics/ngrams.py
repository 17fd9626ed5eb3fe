"""N-grams that replies share with their references, counted for all replies at once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count
from typing import TYPE_CHECKING

import numpy as np

from bidibeam._version import __version__
from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.scores import Signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.protocols import Array

    Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]
    Counts = np.ndarray[tuple[int, int], np.dtype[np.int64]]
    Tokens = Sequence[str]

LARGEST = 2**62
"""No key may be larger, or it would not fit its 64 bits."""
KNOWN_TEXTS = 1 << 14
"""Of so many texts the words are kept, about a kilobyte each."""
WORDS = "lower-cased, by bidibeam"
"""What signatures say of the words that are compared, where they are ours."""


@lru_cache(KNOWN_TEXTS)
def split_words(text: str) -> tuple[str, ...]:
    """Returns the words of a text; systems have references and many replies in common."""
    return tuple(split(text))


def check_paired(replies: Sequence[object], references: Sequence[Sequence[object]]) -> None:
    """Makes sure that there is something to score, and references for each reply."""
    if len(replies) != len(references):
        raise InputError(
            f"A score needs references for each reply, but there are {len(replies)} replies and references "
            f"for {len(references)}."
        )
    if not replies:
        raise InputError("There are no replies to score: give at least one reply and its reference.")
    for place, each in enumerate(references, start=1):
        if isinstance(each, str) or not len(each):
            told = (
                "is a text; give a list of texts" if isinstance(each, str) else "is empty; give at least one"
            )
            raise InputError(f"The list of references of reply {place} {told}.")


def sign(**settings: object) -> Signature:
    """Returns a signature of these settings, and behind them the version that computed the score."""
    return Signature(()).extended(**settings, bidibeam=__version__)


@dataclass(frozen=True, eq=False)
class NgramCounts:
    """What n-gram precision and recall are made of; a match counts as often as both have it.

    Of several references the one that has an n-gram most often counts, and the length is that nearest to the
    reply's, the shorter of two as near.
    """

    matches: Counts  # (items, order)
    reply_lengths: Numbers  # (items,), in tokens
    reference_lengths: Numbers  # (items,)

    @property
    def reply_ngrams(self) -> Counts:
        """All n-grams of each reply, (items, order)."""
        return self._ngrams(self.reply_lengths)

    @property
    def reference_ngrams(self) -> Counts:
        """All n-grams of each reference, (items, order)."""
        return self._ngrams(self.reference_lengths)

    @property
    def statistics(self) -> Counts:
        """BLEU's sufficient statistics, (items, 2 + 2 * order): see `bidibeam.metrics.bleu.corpus_bleu`."""
        return np.column_stack([self.reply_lengths, self.reference_lengths, self.matches, self.reply_ngrams])

    def _ngrams(self, lengths: Numbers) -> Counts:
        ngrams: Counts = np.maximum(0, lengths[:, np.newaxis] - np.arange(self.matches.shape[1]))
        return ngrams


def count_ngrams(
    replies: Sequence[Tokens], references: Sequence[Sequence[Tokens]], order: int
) -> NgramCounts:
    """Counts the n-grams of 1 to `order` tokens that each reply shares with its references.

    An n-gram is a number: that of its first n - 1 tokens, times the vocabulary, plus its last token's.
    """
    check_paired(replies, references)
    items, sequences = len(replies), [*replies, *chain.from_iterable(references)]
    sizes = np.fromiter(map(len, references), np.int64, items)
    places = np.concatenate([np.zeros(items, np.int64), place_in_group(sizes) + 1])  # 0 is the reply itself
    of_items = np.concatenate([np.arange(items), np.repeat(np.arange(items), sizes)])  # (sequences,)
    lists = int(sizes.max()) + 1
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    ids = np.fromiter(map(numbers.__getitem__, chain.from_iterable(sequences)), np.int64, lengths.sum())
    owners = np.repeat(np.arange(len(sequences)), lengths)  # (tokens,)
    left = np.repeat(lengths.cumsum(), lengths) - np.arange(len(ids))  # (tokens,), to the sequence's end
    matches = np.zeros((items, order), np.int64)
    starts, grams, size = np.arange(len(ids)), np.zeros(len(ids), np.int64), 1
    for n in range(order):
        is_whole = left[starts] > n
        starts, grams = starts[is_whole], grams[is_whole]
        grams, size = _renumber(grams, size, len(numbers))
        grams, size = grams * len(numbers) + ids[starts + n], size * len(numbers)
        grams, size = _renumber(grams, size, items * lists)
        of = owners[starts]
        keys, clipped = _intersect(of_items[of] * size + grams, places[of], lists)
        matches[:, n] = np.bincount(keys // max(1, size), clipped, items)
    nearest = lengths[items:] if lists == 2 else find_nearest(lengths[:items], lengths[items:], sizes)
    return NgramCounts(matches, lengths[:items], nearest)


def place_in_group(sizes: Numbers) -> Numbers:
    """Returns for members of groups of these sizes, one behind the other, the place in its group, from 0."""
    return np.arange(sizes.sum()) - np.repeat(sizes.cumsum() - sizes, sizes)


def find_nearest(lengths: Numbers, others: Numbers, sizes: Numbers) -> Numbers:
    """Returns of each item's other lengths, `sizes` of them, the nearest, and of two the shorter."""
    far = np.abs(others - np.repeat(lengths, sizes))
    best = first_lowest(far * (others.max(initial=0) + 1) + others, sizes)
    nearest: Numbers = others[best]
    return nearest


def first_lowest(values: Array, sizes: Numbers) -> Numbers:
    """Returns of each group of values, none of which is empty, the index of the first that is lowest."""
    starts = sizes.cumsum() - sizes
    lowest = np.flatnonzero(values == np.repeat(np.minimum.reduceat(values, starts), sizes))
    return lowest[np.searchsorted(lowest, starts)]


def _renumber(grams: Numbers, size: int, factor: int) -> tuple[Numbers, int]:
    """Gives the n-grams smaller numbers if multiplying them would be too much."""
    if size * factor <= LARGEST:
        return grams, size
    different, smaller = np.unique(grams, return_inverse=True)
    return smaller.astype(np.int64), len(different)


def _intersect(keys: Numbers, places: Numbers, lists: int) -> tuple[Numbers, Numbers]:
    """Returns the keys there are, rising, and how often both the reply, 0, and one other have each."""
    if not len(keys):
        return keys, keys
    marked = np.sort(lists * keys + places)
    runs = np.flatnonzero(np.diff(marked, prepend=-1))  # of one key in one list
    counts = np.diff(runs, append=len(marked))
    values, of = np.divmod(marked[runs], lists)
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    written = np.add.reduceat(np.where(of == 0, counts, 0), starts)
    wanted = np.maximum.reduceat(np.where(of == 0, 0, counts), starts)
    return values[starts], np.minimum(written, wanted)
