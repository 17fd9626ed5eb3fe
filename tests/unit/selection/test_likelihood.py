"""VBS: what the search itself would answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import UnknownNameError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.selection import STRATEGIES
from bidibeam.selection.likelihood import LikelihoodSelection, rank_by_score


def hypothesis(text: str, score: float, *, finished: bool = True) -> Hypothesis:
    return Hypothesis(text, tuple(text.split()), 2 * score, 2, score, finished)


def test_the_highest_score_comes_first() -> None:
    found = NBest((hypothesis("maybe", -2.0), hypothesis("yes", -1.0), hypothesis("no", -3.0)))

    assert [each.text for each in rank_by_score(found)] == ["yes", "maybe", "no"]


def test_a_finished_hypothesis_comes_before_any_that_was_cut_off() -> None:
    found = NBest((hypothesis("well i", -0.5, finished=False), hypothesis("no", -3.0)))

    assert [each.text for each in rank_by_score(found)] == ["no", "well i"]


def test_ties_keep_beam_order() -> None:
    found = NBest((hypothesis("b", -1.0), hypothesis("a", -1.0), hypothesis("c", -1.0)))

    assert [each.text for each in rank_by_score(found)] == ["b", "a", "c"]


@given(st.lists(st.tuples(st.integers(-4, 0), st.booleans()), max_size=8))
def test_ranking_keeps_every_hypothesis_and_is_settled_at_once(outline: list[tuple[int, bool]]) -> None:
    found = NBest(tuple(hypothesis(str(i), s, finished=f) for i, (s, f) in enumerate(outline)))

    ranked = rank_by_score(found)

    assert set(ranked) == set(found)
    assert rank_by_score(ranked) == ranked


def test_only_the_direction_asked_for_answers() -> None:
    beams = Beams(
        "1", "hi", regular=NBest((hypothesis("hello", -1.0),)), reverse=NBest((hypothesis("hey", -2.0),))
    )

    assert LikelihoodSelection().rank(beams).best.text == "hello"
    assert LikelihoodSelection(Direction.REVERSE).rank(beams).best.text == "hey"


def test_an_empty_beam_ranks_as_empty() -> None:
    assert len(LikelihoodSelection().rank(Beams("1", "hi"))) == 0


def test_vbs_is_registered_and_another_name_is_answered_with_the_list() -> None:
    assert STRATEGIES.create("vbs") == LikelihoodSelection()
    with pytest.raises(
        UnknownNameError, match=r"^Unknown strategy 'vsb'\. Did you mean 'vbs'\? Choose one of: vbs"
    ):
        STRATEGIES.get("vsb")
