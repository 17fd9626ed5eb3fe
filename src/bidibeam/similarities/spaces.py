"""Words as points in a space, and hypotheses as bags of such words."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, count, repeat
from math import log1p
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from bidibeam.compiling import compiled
from bidibeam.data.vectors import read_words
from bidibeam.errors import InputError
from bidibeam.scores import Signature
from bidibeam.similarities import stop_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from bidibeam.hypotheses import Hypothesis

    Whole = np.ndarray[tuple[int], np.dtype[np.int64]]
    Real = np.ndarray[tuple[int], np.dtype[np.float64]]
    Truth = np.ndarray[tuple[int], np.dtype[np.bool_]]
    Points = np.ndarray[tuple[int, int], np.dtype[np.float64]]

Function = TypeVar("Function", bound="Callable[..., Any]")

FARTHEST = 1e30
"""No component may be larger: squares of distances stay finite."""


class Bags(NamedTuple):
    """Bags of words, one for each of a list of hypotheses. Equal bags are equal in every bit.

    Attributes:
        starts: (bags + 1), where each bag begins in `words`, and where the last one ends.
        words: Places in `rows`, rising within a bag.
        keys: The same as rows of the space, which two lists have in common.
        masses: As long as `words`: what each word weighs, above 0.
        totals: (bags), the sum of each bag's masses; 0 for one without words.
        twins: (bags), a number for each bag without words, the same where the tokens are the same.
        rows: (words that occur), rows of the space, rising.
        points: (words that occur, dimension), where they are.
    """

    starts: Whole
    words: Whole
    keys: Whole
    masses: Real
    totals: Real
    twins: Whole
    rows: Whole
    points: Points


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors by word, used as they are.

    Rows that are not finite are dropped; a word given twice keeps its first.

    Args:
        words: The words.
        matrix: (words, dimension), their vectors; not to be changed afterwards.
        name: What signatures call them.
        word_start: What a token that begins a word begins with, where the words are subwords: only such a one
            can be a stop word.

    Raises:
        InputError: If there is not one row for each word, or none that can be used.
    """

    words: Sequence[str] = field(repr=False)
    matrix: np.ndarray[tuple[int, int], np.dtype[Any]] = field(repr=False)
    name: str = "model"
    word_start: str = field(default="", repr=False)
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
        is_finite = (matrix.max(axis=1) < FARTHEST) & (matrix.min(axis=1) > -FARTHEST)
        places: dict[str, int] = {}
        for place in np.flatnonzero(is_finite).tolist():
            places.setdefault(self.words[place], place)
        if not places:
            raise InputError(f"Not one of the {len(matrix)} vectors in {self.name} is finite. Give others.")
        if len(places) < len(matrix):
            matrix = matrix[list(places.values())]
        object.__setattr__(self, "words", tuple(places))
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "rows", {word: row for row, word in enumerate(places)})

    @classmethod
    def from_file(cls, path: Path, wanted: Collection[str] | None = None) -> WordVectors:
        """Read a fastText `.vec` file (plain, .gz or .xz), the words wanted or all.

        Raises:
            InputError: If the file is missing, malformed or holds none of them.
        """
        words, matrix = read_words(path, wanted)
        if not words:
            raise InputError(f"{path} holds none of the words wanted. Is it for another language?")
        return cls(words, matrix, f"{path.name}@{_fingerprint(path)}")

    @property
    def signature(self) -> Signature:
        """Whose vectors they are."""
        return Signature((("vectors", self.name),))

    @cached_property
    def is_stop_word(self) -> Truth:
        """Which rows belong to English stop words, (words)."""
        found, start = stop_words.english(), self.word_start
        return np.array(
            [word.startswith(start) and word.removeprefix(start).lower() in found for word in self.words]
        )

    def bags(
        self,
        judged: Sequence[Hypothesis],
        others: Sequence[Hypothesis],
        *,
        remove_stop_words: bool,
        logarithmic: bool = False,
    ) -> tuple[Bags, Bags]:
        """The words that have vectors, of each hypothesis of two lists.

        Args:
            judged: One list.
            others: The other.
            remove_stop_words: Whether to leave out stop words, where other words are left.
            logarithmic: Whether a word weighs log(1 + its count), and not its count.
        """
        numbers: defaultdict[tuple[str, ...], int] = defaultdict(count().__next__)

        def bagged(hypotheses: Sequence[Hypothesis]) -> Bags:
            tokens = [hypothesis.tokens for hypothesis in hypotheses]
            found = self.bag(tokens, remove_stop_words=remove_stop_words, logarithmic=logarithmic)
            if not found.totals.all():
                for bag in np.flatnonzero(found.totals == 0.0):
                    found.twins[bag] = numbers[tokens[bag]]
            return found

        return bagged(judged), bagged(others)

    def bag(
        self, sequences: Sequence[tuple[str, ...]], *, remove_stop_words: bool, logarithmic: bool = False
    ) -> Bags:
        """The words that have vectors, of each of a list of token sequences, no two of which are the same.

        Args:
            sequences: The list.
            remove_stop_words: As in `bags`.
            logarithmic: As in `bags`.
        """
        cuts = np.fromiter(accumulate(map(len, sequences), initial=0), np.int64, len(sequences) + 1)
        found = np.fromiter(
            map(self.rows.get, chain.from_iterable(sequences), repeat(-1)), np.int64, cuts[-1]
        )
        starts, words, masses, totals, rows = _count_words(
            found, cuts, self.is_stop_word, remove_stop_words, logarithmic
        )
        twins = np.zeros(len(sequences), np.int64)
        if not totals.all():
            twins[totals == 0.0] = np.flatnonzero(totals == 0.0)
        points = self.matrix.take(rows, axis=0).astype(np.float64, copy=False)
        return Bags(starts, words, rows[words], masses, totals, twins, rows, points)


def _fingerprint(path: Path) -> str:
    """Tells a file from others of its name, by its size and its beginning."""
    with path.open("rb") as file:
        beginning = file.read(1 << 20)
    return hashlib.blake2b(beginning + str(path.stat().st_size).encode()).hexdigest()[:8]


@compiled
def _count_words(
    found: Whole, starts: Whole, is_stop_word: Truth, remove_stop_words: bool, logarithmic: bool
) -> tuple[Whole, Whole, Real, Real, Whole]:
    """Sort and count each bag's rows; -1 is none."""
    bags = len(starts) - 1
    words, masses = np.empty(len(found), np.int64), np.empty(len(found))
    new_starts, totals = np.zeros(bags + 1, np.int64), np.zeros(bags)
    filled = 0
    for bag in range(bags):
        begin, end = filled, filled
        for keep in (not remove_stop_words, True):
            if end == begin:
                for place in range(starts[bag], starts[bag + 1]):
                    row = found[place]
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
        new_starts[bag + 1] = filled
    rows = np.sort(words[:filled])
    different = 0
    for row in rows:
        if different == 0 or rows[different - 1] != row:
            rows[different] = row
            different += 1
    rows = rows[:different].copy()
    return new_starts, np.searchsorted(rows, words[:filled]), masses[:filled].copy(), totals, rows
