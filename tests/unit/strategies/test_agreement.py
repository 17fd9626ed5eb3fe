"""Somebody's similarity that answers with nonsense: one sentence that names it and what it must return."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from bidibeam.errors import InputError, SimilarityError
from bidibeam.hypotheses import Hypothesis
from bidibeam.protocols import ClosestPair
from bidibeam.scores import Signature
from bidibeam.similarities.custom import FunctionSimilarity
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.choosing import choose, choose_many
from tests.unit.strategies.lists import beams

if TYPE_CHECKING:
    from bidibeam.protocols import Comparison

FOUND = beams("a", "b", "c", reverse=["x", "y"])
CALLED = (
    "It is called with two lists of hypotheses, each with .text and .tokens; the traceback shows where it "
    "failed."
)


def answering(answer: Any) -> BidiA:
    """A strategy whose similarity, called odd, answers just so."""
    return BidiA(FunctionSimilarity(lambda _judged, _others: answer, "odd"))


def message_of(selection: BidiA) -> str:
    """What both the whole ranking and the reply alone complain of."""
    with pytest.raises(SimilarityError) as of_rank:
        selection.rank(FOUND)
    with pytest.raises(SimilarityError) as of_choose:
        choose(selection, FOUND)
    assert str(of_rank.value) == str(of_choose.value)
    return str(of_rank.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_a_number_that_is_not_finite(value: float) -> None:
    matrix = np.zeros((3, 2))
    matrix[1, 1] = matrix[2, 0] = value

    assert message_of(answering(matrix)) == (
        f"The similarity 'odd' answered with {value} for 'b' and 'y'. It must return a finite number "
        "for every pair."
    )


@pytest.mark.parametrize(
    ("answer", "shape"),
    [(np.zeros((2, 3)), "(2, 3)"), (np.zeros(6), "(6,)"), (0.5, "()"), (np.zeros((3, 2, 1)), "(3, 2, 1)")],
    ids=str,
)
def test_another_shape(answer: Any, shape: str) -> None:
    assert message_of(answering(answer)) == (
        f"The similarity 'odd' answered with shape {shape} for 3 hypotheses against 2. It must return one "
        "row for each of the first, one column for each of the second."
    )


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("close", "str"),
        ({"a": 1.0}, "dict"),
        ([[1.0, 2.0], [3.0]], "list"),
        (torch.zeros(3, 2, requires_grad=True), "Tensor"),
    ],
    ids=["text", "mapping", "ragged", "tensor that learns"],
)
def test_something_that_is_no_matrix(answer: Any, kind: str) -> None:
    message = message_of(answering(answer))

    assert message.startswith(f"The similarity 'odd' answered with {kind}, which is no matrix of numbers (")
    assert message.endswith("). It must return one number for each pair.")


@pytest.mark.parametrize(
    "answer", [[[0, 0], [1, 0], [0, 0]], np.array([[0, 0], [1, 0], [0, 0]]), torch.eye(3)[:, 1:]], ids=type
)
def test_lists_whole_numbers_and_tensors_are_matrices_too(answer: Any) -> None:
    assert answering(answer).rank(FOUND).text == "b"


def test_one_that_fails() -> None:
    def broken(judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Any:
        return judged[len(others)].words  # type: ignore[attr-defined]

    message = message_of(BidiA(FunctionSimilarity(broken, "mine:broken")))

    assert message == (
        "The similarity 'mine:broken' failed with AttributeError: 'Hypothesis' object has no attribute "
        f"'words'. {CALLED}"
    )


def test_one_that_says_itself_what_is_wrong_is_not_interrupted() -> None:
    def particular(judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Any:  # noqa: ARG001
        raise InputError("Not these, please.")

    with pytest.raises(InputError, match=r"^Not these, please\.$"):
        BidiA(FunctionSimilarity(particular, "particular")).rank(FOUND)


class Finder:
    """A similarity with a shortcut that answers just so."""

    signature: Any = Signature((("similarity", "finder"),))

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def pairwise(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Any:
        return np.zeros((len(judged), len(others)))

    def closest(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Any:  # noqa: ARG002
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [
        ClosestPair(3, 0, 0.5),
        ClosestPair(0, 2, 0.5),
        ClosestPair(-1, 0, 0.5),
        ClosestPair(0, 0, math.nan),
        (0, 1),
        None,
        0.5,
    ],
    ids=str,
)
def test_a_shortcut_to_no_pair(answer: Any) -> None:
    with pytest.raises(SimilarityError) as caught:
        choose(BidiA(Finder(answer)), FOUND)

    assert str(caught.value) == (
        f"The similarity 'finder' answered with {answer!r} as the closest pair of 3 hypotheses and 2. It "
        "must return two places, counted from 0, and a finite number."
    )


def test_a_shortcut_that_fails() -> None:
    with pytest.raises(SimilarityError) as caught:
        choose(BidiA(Finder(ZeroDivisionError("no words"))), FOUND)

    assert str(caught.value) == f"The similarity 'finder' failed with ZeroDivisionError: no words. {CALLED}"


class ManyFinder(Finder):
    """One that is asked about many sources at once, and answers just so."""

    def closest_pairs(self, comparisons: Sequence[Comparison]) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer[: len(comparisons)]


PAIR = ClosestPair(1, 0, 0.5)


def test_many_at_once_are_asked_at_once() -> None:
    other = beams("d", reverse=["z"])

    chosen = choose_many(BidiA(ManyFinder([PAIR, ClosestPair(0, 0, 0.25)])), [FOUND, other])

    assert [(ranking.text, ranking.entries[0].score) for ranking in chosen] == [("b", 0.5), ("d", 0.25)]


@pytest.mark.parametrize("wrong", [ClosestPair(3, 0, 0.5), (0, 1), None], ids=str)
def test_a_shortcut_for_many_with_one_wrong_pair(wrong: Any) -> None:
    with pytest.raises(SimilarityError) as caught:
        choose_many(BidiA(ManyFinder([PAIR, wrong])), [FOUND, FOUND])

    assert str(caught.value) == (
        f"The similarity 'finder' answered with {wrong!r} as the closest pair of 3 hypotheses and 2. It "
        "must return two places, counted from 0, and a finite number."
    )


def test_a_shortcut_for_many_that_leaves_some_out() -> None:
    with pytest.raises(SimilarityError) as caught:
        choose_many(BidiA(ManyFinder([PAIR])), [FOUND, FOUND])

    assert str(caught.value) == (
        "The similarity 'finder' answered with 1 closest pairs for 2 comparisons. It must return one for "
        "each, in their order."
    )


@pytest.mark.parametrize("answer", [ZeroDivisionError("no words"), None], ids=repr)
def test_a_shortcut_for_many_that_fails(answer: Any) -> None:
    with pytest.raises(SimilarityError) as caught:
        choose_many(BidiA(ManyFinder(answer)), [FOUND, FOUND])

    message = str(caught.value)
    assert message.startswith("The similarity 'finder' failed with ")
    assert message.endswith(CALLED.replace("two lists", "pairs of lists"))


def test_a_shortcut_for_one_serves_many() -> None:
    chosen = choose_many(BidiA(Finder(PAIR)), [FOUND, FOUND, FOUND])

    assert [ranking.text for ranking in chosen] == ["b"] * 3


def test_one_whose_signature_is_something_else_goes_by_its_class() -> None:
    finder = Finder(None)
    finder.signature = "v2"

    with pytest.raises(SimilarityError, match=r"^The similarity 'Finder' answered with None as the closest"):
        choose(BidiA(finder), FOUND)


def test_a_number_too_large_for_a_float() -> None:
    assert message_of(answering([[10**400, 0]] * 3)).startswith(
        "The similarity 'odd' answered with list, which is no matrix of numbers ("
    )
