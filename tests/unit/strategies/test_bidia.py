"""BidiA: the hypothesis that both directions agree on; a similarity that returns nonsense is named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from bidibeam.errors import InputError, SettingsError, SimilarityError
from bidibeam.hypotheses import Direction, Hypothesis, Ranked
from bidibeam.protocols import ClosestPair
from bidibeam.scores import Signature
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.custom import FunctionSimilarity
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.ranking import choose
from bidibeam.work import counting
from tests.unit.strategies.lists import Table, beams, hypothesis, scores, texts

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix

AGREEING = Table({("see you", "see you then"): 0.9, ("see you", "no"): 0.2, ("i know", "no"): 0.5})


def test_agreement_overrules_beam_order() -> None:
    found = beams("i know", "see you", "what", reverse=["no", "see you then"])

    ranking = BidiA(AGREEING).rank(found)

    assert texts(ranking) == ["see you", "i know", "what"]
    for options in ({"answer": "reverse"}, {"agreement": "best"}):
        with pytest.raises(SettingsError, match=r"must be one of .*, not '(reverse|best)'\.$"):
            BidiA(AGREEING, **options)  # type: ignore[arg-type]
    assert ranking.entries[0] == Ranked(
        hypothesis("see you"), Direction.REGULAR, place=1, score=0.9, partner=1
    )
    assert [entry.partner for entry in ranking] == [1, 0, 0]


def test_the_mean_counts_every_reverse_hypothesis() -> None:
    table = Table({("peak", "x"): 0.8, ("even", "x"): 0.5, ("even", "y"): 0.5})
    found = beams("peak", "even", reverse=["x", "y"])

    ranking = BidiA(table, agreement="mean").rank(found)

    assert texts(BidiA(table).rank(found)) == ["peak", "even"]
    assert (texts(ranking), scores(ranking)) == (["even", "peak"], [0.5, 0.4])


def test_the_expected_agreement_weighs_by_the_other_beams_posterior() -> None:
    # Log-probabilities log 1/10 and log 3/10, twice the scores: the beam's posterior is 1/4 and 3/4.
    reverse = [hypothesis("x", math.log(1 / 10) / 2), hypothesis("y", math.log(3 / 10) / 2)]
    table = Table({("a", "x"): 0.8, ("b", "y"): 0.4})

    ranking = BidiA(table, agreement="expected").rank(beams("a", "b", reverse=reverse))

    assert texts(ranking) == ["b", "a"]
    assert scores(ranking) == pytest.approx([0.75 * 0.4, 0.25 * 0.8])
    hopeless = [hypothesis("x", -5000.0), hypothesis("y", -5000.0)]  # still a posterior
    assert scores(BidiA(table, agreement="expected").rank(beams("a", reverse=hopeless))) == [0.4]


def test_equal_rows_are_equally_expected_wherever_they_stand() -> None:
    generator = np.random.default_rng(0)
    for others in range(2, 24):
        row = generator.random(others).tolist()
        reverse = [hypothesis(f"{place}", -generator.random()) for place in range(others)]
        regular = [f"same {place}" for place in range(others + 5)]
        table = Table({(text, f"{place}"): row[place] for text in regular for place in range(others)})

        ranking = BidiA(table, agreement="expected").rank(beams(*regular, reverse=reverse))

        assert texts(ranking) == regular
        assert ranking.tied == len(regular)


def test_either_direction_may_answer_each_compared_with_the_other() -> None:
    table = Table({("a", "x"): 0.3, ("b", "x"): 0.2, ("x", "a"): 0.1, ("x", "b"): 0.7})
    found = beams("a", "b", reverse=["x"])

    ranking = BidiA(table, answer="either").rank(found)

    assert [(entry.direction.value, entry.place, entry.partner) for entry in ranking] == [
        ("reverse", 0, 1),
        ("regular", 0, 0),
        ("regular", 1, 0),
    ]
    assert texts(BidiA(table).rank(found)) == ["a", "b"]


@pytest.mark.parametrize("agreement", ["closest", "mean", "expected"])
def test_ties_go_to_the_regular_beam_and_then_to_the_better(agreement: Any) -> None:
    everything = Table({(one, two): 0.5 for one in "abxy" for two in "abxy"})

    ranking = BidiA(everything, answer="either", agreement=agreement).rank(
        beams("b", "a", reverse=["y", "x"])
    )

    assert texts(ranking) == ["b", "a", "y", "x"]
    assert ranking.tied == 4
    assert [entry.partner for entry in ranking] == [0, 0, 0, 0]


def test_those_cut_off_rank_last_but_still_count_as_references() -> None:
    table = Table({("a", "x"): 0.9, ("b", "x"): 0.4, ("c", "y"): 0.3, ("x", "a"): 0.1})
    found = beams(hypothesis("a", finished=False), "c", "b", reverse=[hypothesis("x", finished=False), "y"])
    ranking = BidiA(table).rank(found)

    assert texts(ranking) == ["b", "c", "a"]
    assert ranking.entries[0].partner == 0
    assert choose(BidiA(table), found).entries == ranking.entries[:1]
    cut_off = beams(hypothesis("a", finished=False), reverse=["x"])
    assert texts(BidiA(table, answer="either").rank(cut_off)) == ["x", "a"]
    assert texts(BidiA(table).rank(cut_off)) == ["a"]


@pytest.mark.parametrize("agreement", ["closest", "mean", "expected"])
def test_if_the_other_beam_is_empty_beam_order_stays_and_the_similarity_is_not_called(agreement: Any) -> None:
    table = Table({})
    strategy = BidiA(table, agreement=agreement)

    ranking = strategy.rank(beams("b", hypothesis("a", finished=False), "c"))

    assert texts(ranking) == ["b", "c", "a"]
    assert scores(ranking) == [0.0] * 3
    assert [entry.partner for entry in ranking] == [None] * 3
    assert len(strategy.rank(beams(reverse=["x"]))) == 0
    either = BidiA(table, answer="either", agreement=agreement)
    assert texts(either.rank(beams(reverse=["y", "x"]))) == ["y", "x"]
    assert table.asked == []


def test_the_reply_alone_takes_the_shortcut() -> None:
    found = beams("a b", "c d", hypothesis("e f", finished=False), reverse=["c d", "x", "e f"])

    with counting() as work:
        chosen = choose(BidiA(BleuT()), found)

    assert texts(chosen) == ["c d"]
    assert work.compared_pairs == 2 * 3  # those cut off cannot answer


FOUND = beams("a", "b", "c", reverse=["x", "y"])


def matrix_with(value: float) -> Matrix:
    matrix: Matrix = np.zeros((3, 2))
    matrix[1, 1] = matrix[2, 0] = value
    return matrix


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (matrix_with(math.nan), "answered with nan for 'b' and 'y'. It must return a finite number"),
        (matrix_with(-math.inf), "answered with -inf for 'b' and 'y'."),
        (np.zeros((2, 3)), "answered with shape (2, 3) for 3 hypotheses against 2. It must return"),
        (0.5, "answered with shape () for 3 hypotheses against 2."),
        ("close", "answered with str, which is no matrix of numbers ("),
        ([[1.0, 2.0], [3.0]], "answered with list, which is no matrix"),
        ([[10**400, 0]] * 3, "answered with list, which is no matrix"),
        (torch.zeros(3, 2, requires_grad=True), "answered with Tensor, which is no matrix"),
    ],
)
def test_a_result_that_is_no_finite_matrix_of_that_shape_is_named(answer: Any, message: str) -> None:
    strategy = BidiA(FunctionSimilarity(lambda _judged, _others: answer, "odd"))

    for use in (strategy.rank, lambda found: choose(strategy, found)):
        with pytest.raises(SimilarityError) as caught:
            use(FOUND)
        assert str(caught.value).startswith(f"The similarity 'odd' {message}")


class Finder:
    """A similarity with a shortcut that returns just this, or raises it."""

    signature: Any = Signature((("similarity", "finder"),))

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def pairwise(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Any:
        return self.closest(judged, others)

    def closest(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Any:  # noqa: ARG002
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_one_that_fails_is_named_unless_it_says_itself_what_is_wrong() -> None:
    strategy = BidiA(Finder(ZeroDivisionError("no words")))
    for use in (strategy.rank, strategy.choose):
        with pytest.raises(SimilarityError) as caught:
            use(FOUND)
        assert "'finder' failed with ZeroDivisionError: no words. It is called with" in str(caught.value)
        with pytest.raises(InputError, match=r"^Not these, please\.$"):
            BidiA(Finder(InputError("Not these, please."))).rank(FOUND)


@pytest.mark.parametrize(
    "answer",
    [
        *(ClosestPair(*pair, 0.5) for pair in ((3, 0), (0, 2), (-1, 0))),
        ClosestPair(0, 0, math.nan),
        (0, 1),
        None,
        0.5,
    ],
    ids=str,
)
def test_a_shortcut_to_no_pair_is_named(answer: Any) -> None:
    with pytest.raises(SimilarityError) as caught:
        choose(BidiA(Finder(answer)), FOUND)

    assert f"'finder' answered with {answer!r} as the closest pair of 3 hypotheses and 2." in str(
        caught.value
    )
