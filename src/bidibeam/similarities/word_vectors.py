"""Word vectors, and hypotheses as bags of the words that have one."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from itertools import accumulate, chain, count, repeat
from math import log1p
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bidibeam.data.vectors import read_words
from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.scores import Signature
from bidibeam.similarities.compiling import compile_kernel

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Matrix

    Indices = np.ndarray[tuple[int], np.dtype[np.int64]]
    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
    Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

LARGEST_COMPONENT = 1e30
"""Squared distances of vectors with larger components might not be finite."""


@cache
def english_stop_words() -> frozenset[str]:
    """Returns NLTK's 179 English stop words, and the pieces that our tokenizer splits contractions into.

    "couldn't" is two tokens of ours, "could" and "n't": the second is in, as it is nothing but an ending;
    the first is a word, which the list does not have by itself. The list also has endings without their
    apostrophe, such as the "m" of "i'm": ours are in with it.
    """
    words = (files("bidibeam.similarities") / "stopwords_english.txt").read_text(encoding="utf-8").split()
    contractions = [word for word in words if "'" in word]
    endings = [f"i'{word}" for word in words if "'" not in word and split(f"i'{word}") == ["i", f"'{word}"]]
    pieces = [piece for word in (*contractions, *endings) for piece in split(word) if "'" in piece]
    return frozenset([*words, *pieces])


class Bags(NamedTuple):
    """Bags of words, one for each of a list of hypotheses. Equal bags are equal in every bit."""

    starts: Indices  # (bags + 1), where each bag begins in `words`, and where the last one ends
    words: Indices  # rows of `vectors`, rising within a bag
    keys: Indices  # the same as rows of the whole `WordVectors.matrix`, which two lists have in common
    masses: Floats  # as long as `words`: what each word weighs, above 0
    totals: Floats  # (bags), the sum of each bag's masses; 0 for one without words
    twins: Indices  # (bags), a number for each bag without words, the same where the tokens are the same
    vectors: Matrix  # (words that occur, dimension)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors by word, used as they are.

    Rows that are not finite are dropped; a word given twice keeps its first.

    Args:
        words: The words.
        matrix: (words, dimension), their vectors; not to be changed afterwards.
        name: What signatures call them.
        word_start: What a token that begins a word begins with, where the words are subwords: only such a one
            can be a stop word. None where no token is a word, but a character.
    """

    words: Sequence[str] = field(repr=False)
    matrix: np.ndarray[tuple[int, int], np.dtype[Any]] = field(repr=False)
    name: str = "model"
    word_start: str | None = field(default="", repr=False)
    rows: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix)
        if matrix.ndim != 2 or len(matrix) != len(self.words) or not matrix.size:
            raise InputError(
                f"A matrix of shape {matrix.shape} does not fit {len(self.words)} words. "
                "Give one row for each."
            )
        if matrix.dtype != np.float32:
            matrix = matrix.astype(np.float64, copy=False)
        is_finite = (matrix.max(axis=1) < LARGEST_COMPONENT) & (matrix.min(axis=1) > -LARGEST_COMPONENT)
        first_rows: dict[str, int] = {}
        for row in np.flatnonzero(is_finite).tolist():
            first_rows.setdefault(self.words[row], row)
        if not first_rows:
            raise InputError(f"Not one of the {len(matrix)} vectors in {self.name} is finite. Give others.")
        if len(first_rows) < len(matrix):
            matrix = matrix[list(first_rows.values())]
        object.__setattr__(self, "words", tuple(first_rows))
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "rows", {word: row for row, word in enumerate(first_rows)})

    @classmethod
    def from_file(cls, path: Path, wanted: Collection[str] | None = None) -> WordVectors:
        """Reads a fastText `.vec` file (plain, .gz or .xz), all its words or those wanted."""
        words, matrix = read_words(path, wanted)
        if not words:
            raise InputError(f"{path} holds none of the words wanted. Is it for another language?")
        with path.open("rb") as file:
            beginning = file.read(1 << 20)
        fingerprint = hashlib.blake2b(beginning + str(path.stat().st_size).encode()).hexdigest()[:8]
        return cls(words, matrix, f"{path.name}@{fingerprint}")

    @property
    def signature(self) -> Signature:
        """Whose vectors they are."""
        return Signature((("vectors", self.name),))

    @cached_property
    def is_stop_word(self) -> Flags:
        """Which rows belong to English stop words, (words)."""
        stop_words, start = english_stop_words(), self.word_start
        if start is None:
            return np.zeros(len(self.words), np.bool_)
        return np.array(
            [word.startswith(start) and word.removeprefix(start).lower() in stop_words for word in self.words]
        )

    def bags(
        self,
        hypotheses: Sequence[Hypothesis],
        references: Sequence[Hypothesis],
        *,
        remove_stop_words: bool,
        logarithmic: bool = False,
    ) -> tuple[Bags, Bags]:
        """Returns the bags of two lists: words that have a vector, without stop words where others are left.

        A word weighs its count, or log(1 + its count) if `logarithmic`.
        """
        numbers: defaultdict[tuple[str, ...], int] = defaultdict(count().__next__)
        both = []
        for sequences in ([each.tokens for each in hypotheses], [each.tokens for each in references]):
            offsets = np.fromiter(accumulate(map(len, sequences), initial=0), np.int64, len(sequences) + 1)
            rows = np.fromiter(
                map(self.rows.get, chain.from_iterable(sequences), repeat(-1)), np.int64, offsets[-1]
            )
            starts, words, masses, totals, used = _count_words(
                rows, offsets, self.is_stop_word, remove_stop_words, logarithmic
            )
            twins = np.zeros(len(sequences), np.int64)
            if not totals.all():
                for bag in np.flatnonzero(totals == 0.0):
                    twins[bag] = numbers[sequences[bag]]
            vectors = self.matrix.take(used, axis=0).astype(np.float64, copy=False)
            both.append(Bags(starts, words, used[words], masses, totals, twins, vectors))
        return both[0], both[1]


@compile_kernel
def _count_words(
    rows: Indices, offsets: Indices, is_stop_word: Flags, remove_stop_words: bool, logarithmic: bool
) -> tuple[Indices, Indices, Floats, Floats, Indices]:
    """Sorts and counts each sequence's rows, of which -1 is none.

    Returns `starts`, `words`, `masses` and `totals` of `Bags`, and which rows occur, rising.
    """
    bags = len(offsets) - 1
    words, masses = np.empty(len(rows), np.int64), np.empty(len(rows))
    starts, totals = np.zeros(bags + 1, np.int64), np.zeros(bags)
    filled = 0
    for bag in range(bags):
        begin, end = filled, filled
        for keep in (not remove_stop_words, True):
            if end == begin:
                for place in range(offsets[bag], offsets[bag + 1]):
                    row = rows[place]
                    if row >= 0 and (keep or not is_stop_word[row]):
                        words[end] = row
                        end += 1
        words[begin:end].sort()
        place = begin
        while place < end:
            row, occurrences = words[place], 0
            while place < end and words[place] == row:
                occurrences += 1
                place += 1
            words[filled] = row
            masses[filled] = log1p(occurrences) if logarithmic else occurrences
            totals[bag] += masses[filled]
            filled += 1
        starts[bag + 1] = filled
    used = np.unique(words[:filled])
    return starts, np.searchsorted(used, words[:filled]), masses[:filled].copy(), totals, used
