"""Similarities that users write: an object, or a function by its Python name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.errors import SimilarityError
from bidibeam.scores import Signature
from bidibeam.work import count

if TYPE_CHECKING:
    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Matrix, Similarity

PairwiseFunction = Callable[[Sequence["Hypothesis"], Sequence["Hypothesis"]], Any]
"""Two lists of hypotheses in, one number for each pair out: a matrix of (first, second), higher is closer."""


@dataclass(frozen=True)
class FunctionSimilarity:
    """A function of two lists of hypotheses as a similarity.

    Args:
        function: Returns the matrix.
        name: What signatures and messages call it.
        is_parallel: Whether it is safe to call from several threads at once, and gains by it.
    """

    function: PairwiseFunction = field(repr=False)
    name: str
    is_parallel: bool = False

    @property
    def signature(self) -> Signature:
        """Its name."""
        return Signature((("similarity", self.name),))

    def pairwise(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        """Returns what the function returns; the caller checks it."""
        count(compared_pairs=len(hypotheses) * len(references))
        matrix: Matrix = self.function(hypotheses, references)
        return matrix


def per_pair(function: Callable[[str, str], float]) -> PairwiseFunction:
    """Makes a function of two texts one of two lists of hypotheses: the simplest way to a similarity.

        @per_pair
        def same_ending(hypothesis: str, reference: str) -> float:
            return float(hypothesis[-1:] == reference[-1:])

    The function is called for every pair; NaN and exceptions are reported with theirs.
    """
    name = getattr(function, "__name__", "per_pair")

    def compare(hypothesis: str, reference: str) -> float:
        try:
            return function(hypothesis, reference)
        except Exception as error:
            raise SimilarityError(
                f"The similarity {name} failed with {type(error).__name__} for {hypothesis!r} and "
                f"{reference!r}: {error}. It is called with two texts; the traceback shows where it failed."
            ) from error

    def pairwise(hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        rows = [[compare(one.text, other.text) for other in references] for one in hypotheses]
        return np.array(rows, dtype=np.float64).reshape(len(hypotheses), len(references))

    pairwise.__name__ = name
    pairwise.__module__ = getattr(function, "__module__", __name__)
    return pairwise


def as_similarity(given: Any, name: str | None = None) -> Similarity:
    """Makes a similarity of an object with `pairwise`, a class of such, or a function; signed by its name."""
    called = name or f"{getattr(given, '__module__', '?')}:{getattr(given, '__name__', type(given).__name__)}"
    if isinstance(given, type):
        try:
            given = given()
        except Exception as error:  # whatever the class runs into
            raise SimilarityError(
                f"The similarity {called} cannot be made: {error}. Give a class that needs no arguments, or "
                "an object of it."
            ) from error
    if hasattr(given, "pairwise"):
        similarity: Similarity = given
        if isinstance(getattr(given, "signature", None), Signature):
            return similarity
        return FunctionSimilarity(given.pairwise, called, bool(getattr(given, "is_parallel", False)))
    if callable(given):
        return FunctionSimilarity(given, called)
    raise SimilarityError(
        f"The similarity {called} is of type {type(given).__name__}. Give a function of two lists of "
        "hypotheses, or an object with a method pairwise."
    )
