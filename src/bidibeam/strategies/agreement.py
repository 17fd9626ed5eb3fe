"""Asking a similarity, and not taking its answer on trust: anybody may have written it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.errors import BidibeamError, SimilarityError
from bidibeam.protocols import ClosestPair
from bidibeam.scores import Signature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import ClosestPairFinder, Comparison, Matrix, Similarity


def similarities(
    similarity: Similarity, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]
) -> Matrix:
    """The whole matrix, (judged, others); where a list is empty, nobody is asked.

    Raises:
        SimilarityError: If the similarity fails, or answers with something else, or with NaN or an infinity.
    """
    if not judged or not others:
        return np.zeros((len(judged), len(others)))
    answered = _asked(similarity, similarity.pairwise, judged, others)
    try:
        matrix = np.asarray(answered, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise SimilarityError(
            f"{_name(similarity)} answered with {type(answered).__name__}, which is no matrix of numbers "
            f"({error}). It must return one number for each pair."
        ) from error
    if matrix.shape != (len(judged), len(others)):
        raise SimilarityError(
            f"{_name(similarity)} answered with shape {matrix.shape} for {len(judged)} hypotheses against "
            f"{len(others)}. It must return one row for each of the first, one column for each of the second."
        )
    if not np.isfinite(matrix).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(matrix))[0])
        raise SimilarityError(
            f"{_name(similarity)} answered with {matrix[row, column]} for {judged[row].text!r} and "
            f"{others[column].text!r}. It must return a finite number for every pair."
        )
    return matrix


def closest_pairs(similarity: ClosestPairFinder, comparisons: Sequence[Comparison]) -> list[ClosestPair]:
    """The highest entry of each matrix, the first of equal ones, by the similarity's shortcut.

    Raises:
        SimilarityError: If the similarity fails, or an answer is no such entry.
    """
    together = getattr(similarity, "closest_pairs", None)
    if together is None or len(comparisons) == 1:
        answers = [_asked(similarity, similarity.closest, *comparison) for comparison in comparisons]
    else:
        answers = _asked(similarity, lambda many: list(together(many)), comparisons)
    if len(answers) != len(comparisons):
        raise SimilarityError(
            f"{_name(similarity)} answered with {len(answers)} closest pairs for {len(comparisons)} "
            "comparisons. It must return one for each, in their order."
        )
    return [
        _checked(similarity, answered, len(judged), len(others))
        for answered, (judged, others) in zip(answers, comparisons, strict=True)
    ]


def _checked(similarity: object, answered: Any, judged: int, others: int) -> ClosestPair:
    """The answer, if it is a pair of two lists of these lengths and a number."""
    try:
        row, column, value = int(answered[0]), int(answered[1]), float(answered[2])
    except (TypeError, ValueError, IndexError):
        row, column, value = -1, -1, math.nan
    if not (0 <= row < judged and 0 <= column < others and math.isfinite(value)):
        raise SimilarityError(
            f"{_name(similarity)} answered with {answered!r} as the closest pair of {judged} hypotheses "
            f"and {others}. It must return two places, counted from 0, and a finite number."
        )
    return ClosestPair(row, column, value)


def _asked(similarity: object, question: Callable[..., Any], *about: Any) -> Any:
    try:
        return question(*about)
    except BidibeamError:
        raise
    except Exception as error:
        lists = "two lists" if len(about) > 1 else "pairs of lists"
        raise SimilarityError(
            f"{_name(similarity)} failed with {type(error).__name__}: {error}. It is called with {lists} "
            "of hypotheses, each with .text and .tokens; the traceback shows where it failed."
        ) from error


def _name(similarity: object) -> str:
    signature = getattr(similarity, "signature", None)
    name = signature.facts[0][1] if isinstance(signature, Signature) else type(similarity).__name__
    return f"The similarity {name!r}"
