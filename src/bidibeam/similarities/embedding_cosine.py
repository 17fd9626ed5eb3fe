"""Cosine of mean word vectors: whether two hypotheses are about the same, whatever their words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bidibeam.errors import check_setting
from bidibeam.scores import Signed
from bidibeam.similarities.compiling import compile_kernel
from bidibeam.similarities.transport import squared_distances
from bidibeam.work import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Matrix
    from bidibeam.similarities.word_vectors import Bags, WordVectors


@dataclass(frozen=True)
class EmbeddingCosine(Signed):
    """(1 + cos) / 2 of the means of two hypotheses' word vectors, from 0 to 1.

    Words without a vector do not count. A hypothesis without any is like those with the same tokens, 1, and
    unlike all others, 0. A mean of no length is at a right angle to all others.

    Args:
        space: The vectors.
        remove_stop_words: Whether English stop words are left out, where that leaves anything.
    """

    space: WordVectors
    remove_stop_words: bool = False

    recipe: ClassVar[Mapping[str, str]] = {"similarity": "embedding_cosine"}
    is_parallel: ClassVar[bool] = True

    def __post_init__(self) -> None:
        is_flag = isinstance(self.remove_stop_words, bool)
        check_setting(is_flag, "remove_stop_words", self.remove_stop_words, "true or false")

    def pairwise(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        """Compares each hypothesis with each reference, from 0 to 1; exactly 1 for equal bags of words."""
        count(compared_pairs=len(hypotheses) * len(references))
        one, other = self.space.bags(hypotheses, references, remove_stop_words=self.remove_stop_words)
        directions, other_directions = _normalise_means(one), _normalise_means(other)
        squares = squared_distances(directions, other_directions)  # (hypotheses, references)
        similarities = np.maximum(0.0, 1.0 - squares / 4.0)  # |u - v|^2 = 2 - 2 cos, exact where u = v
        similarities[np.not_equal.outer(directions.any(axis=1), other_directions.any(axis=1))] = 0.5
        is_empty, other_is_empty = one.totals == 0.0, other.totals == 0.0
        are_twins = np.logical_and.outer(is_empty, other_is_empty) & np.equal.outer(one.twins, other.twins)
        return np.where(np.logical_or.outer(is_empty, other_is_empty), are_twins, similarities)


def _normalise_means(bags: Bags) -> Matrix:
    """Returns each bag's mean vector at length 1, (bags, dimension); zeros if it has no length."""
    means = _average(bags)  # (bags, dimension)
    lengths = np.sqrt(squared_distances(means, np.zeros((1, means.shape[1]))))  # (bags, 1)
    means *= np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    return means


@compile_kernel
def _average(bags: Bags) -> Matrix:
    words, masses, vectors = bags.words, bags.masses, bags.vectors
    means = np.zeros((len(bags.totals), vectors.shape[1]))  # (bags, dimension)
    for bag in range(means.shape[0]):
        for place in range(bags.starts[bag], bags.starts[bag + 1]):
            share = masses[place] / bags.totals[bag]
            for axis in range(means.shape[1]):
                means[bag, axis] += share * vectors[words[place], axis]
    return means
