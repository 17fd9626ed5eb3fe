"""Cosine of mean word vectors: whether two hypotheses are about the same, whatever their words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bidibeam.errors import SettingsError
from bidibeam.scores import Signature
from bidibeam.similarities.compiling import compiled
from bidibeam.similarities.transport import squared_distances
from bidibeam.work import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Matrix
    from bidibeam.similarities.word_vectors import Bags, WordVectors

    Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True)
class EmbeddingCosine:
    """(1 + cos) / 2 of the means of two hypotheses' word vectors, from 0 to 1.

    Words without a vector do not count. A hypothesis without any is like those with the same tokens, 1, and
    unlike all others, 0. A mean of no length is at a right angle to all others.

    Args:
        space: The vectors.
        remove_stop_words: Whether English stop words are left out, where that leaves anything.
    """

    space: WordVectors
    remove_stop_words: bool = False

    is_parallel: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.remove_stop_words, bool):
            raise SettingsError(f"remove_stop_words must be true or false, not {self.remove_stop_words!r}.")

    @property
    def signature(self) -> Signature:
        """Its name and settings."""
        return Signature.of_settings(self, similarity="embedding_cosine")

    def pairwise(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        """Compares each hypothesis with each reference, from 0 to 1; exactly 1 for equal bags of words."""
        count(compared_pairs=len(hypotheses) * len(references))
        one, other = self.space.bags(hypotheses, references, remove_stop_words=self.remove_stop_words)
        directions, other_directions = _normalise_means(one), _normalise_means(other)
        has_length, other_has_length = np.any(directions, axis=1), np.any(other_directions, axis=1)
        squares = squared_distances(directions, other_directions)  # (hypotheses, references)
        return _to_similarities(one, other, has_length, other_has_length, squares)


def _normalise_means(bags: Bags) -> Matrix:
    """Returns each bag's mean vector at length 1, (bags, dimension); zeros if it has no length."""
    means = _average(bags)  # (bags, dimension)
    lengths = np.sqrt(squared_distances(means, np.zeros((1, means.shape[1]))))  # (bags, 1)
    means *= np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    return means


@compiled
def _average(bags: Bags) -> Matrix:
    words, masses, vectors = bags.words, bags.masses, bags.vectors
    means = np.zeros((len(bags.totals), vectors.shape[1]))  # (bags, dimension)
    for bag in range(means.shape[0]):
        for place in range(bags.starts[bag], bags.starts[bag + 1]):
            share = masses[place] / bags.totals[bag]
            for axis in range(means.shape[1]):
                means[bag, axis] += share * vectors[words[place], axis]
    return means


@compiled
def _to_similarities(
    one: Bags, other: Bags, has_length: Flags, other_has_length: Flags, squares: Matrix
) -> Matrix:
    totals, twins, other_totals, other_twins = one.totals, one.twins, other.totals, other.twins
    similarities = np.empty(squares.shape)
    for row in range(similarities.shape[0]):
        for column in range(similarities.shape[1]):
            if totals[row] == 0.0 or other_totals[column] == 0.0:
                are_equal = totals[row] == other_totals[column] and twins[row] == other_twins[column]
                similarities[row, column] = 1.0 if are_equal else 0.0
            elif has_length[row] != other_has_length[column]:
                similarities[row, column] = 0.5
            else:  # |u - v|^2 = 2 - 2 cos, with no rounding where u = v
                similarities[row, column] = max(0.0, 1.0 - squares[row, column] / 4.0)
    return similarities
