"""Anybody's similarity: a function, an object, a class; by itself or by its Python name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from bidibeam.errors import SimilarityError
from bidibeam.hypotheses import Hypothesis
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.custom import FunctionSimilarity, as_similarity, per_pair
from bidibeam.work import counting
from tests.unit.similarities.made import hypotheses


def common_letters(one: Sequence[Hypothesis], other: Sequence[Hypothesis]) -> list[list[int]]:
    return [[len(set(a.text) & set(b.text)) for b in other] for a in one]


@per_pair
def same_ending(hypothesis: str, other: str) -> float:
    return float(hypothesis[-1:] == other[-1:])


class Letters:
    """Our function as an object."""

    is_parallel = True

    def pairwise(self, one: Sequence[Hypothesis], other: Sequence[Hypothesis]) -> list[list[int]]:
        return common_letters(one, other)


LETTERS, OTHERS = hypotheses("ab", "cd", "abc"), hypotheses("bc", "dd")


@pytest.mark.parametrize(
    ("given", "name"),
    [(common_letters, "common_letters"), (Letters, "Letters"), (Letters(), "Letters")],
    ids=["function", "class", "object"],
)
def test_all_of_them_answer_alike_by_their_python_name_or_another(given: Any, name: str) -> None:
    similarity: Any = as_similarity(given)
    told: Any = as_similarity(given, "mine")

    with counting() as work:
        answered = similarity.pairwise(hypotheses("ab", "cd", "abc"), hypotheses("bc", "dd"))

    assert answered == [[1, 0], [1, 1], [2, 0]]
    assert work.compared_pairs == 3 * 2
    assert str(similarity.signature) == f"similarity:{__name__}:{name}"
    assert str(told.signature) == "similarity:mine"
    assert similarity.is_parallel is (given is not common_letters)
    ours = BleuT(max_length=7)
    assert as_similarity(ours, "another name") is ours


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        (7, "mine is of type int. Give a function of two lists"),
        (None, "of type NoneType"),
        ([common_letters], "of type list"),
        (FunctionSimilarity, "mine cannot be made: "),
    ],
)
def test_what_is_no_similarity_is_refused(given: Any, fragment: str) -> None:
    with pytest.raises(SimilarityError) as caught:
        as_similarity(given, "mine")

    assert fragment in str(caught.value)


def test_per_pair_makes_a_matrix_of_two_texts_at_a_time() -> None:
    matrix = same_ending(hypotheses("so", "no", "yes"), hypotheses("to", "as"))

    assert isinstance(matrix, np.ndarray)
    assert matrix.dtype == np.float64
    assert matrix.tolist() == [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    assert same_ending([], hypotheses("a", "b")).shape == (0, 2)
    assert same_ending(hypotheses("a", "b"), []).shape == (2, 0)


def test_a_function_of_two_texts_that_fails_says_on_which() -> None:
    @per_pair
    def ratio(one: str, other: str) -> float:
        return len(one) / len(other)

    with pytest.raises(
        SimilarityError, match=r"^The similarity ratio failed with ZeroDivisionError for 'a' and"
    ):
        ratio(hypotheses("a"), hypotheses("b", ""))
