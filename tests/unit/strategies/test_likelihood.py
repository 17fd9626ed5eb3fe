"""VBS: what the search itself would answer, from either direction, and with other length settings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError, SettingsError, UnknownNameError
from bidibeam.hypotheses import Direction, Hypothesis, NBest, Ranked
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.likelihood import ReverseVbs, Vbs, VbsTuned
from tests.unit.strategies.lists import beams, hypothesis, scores, texts


def test_the_highest_score_comes_first() -> None:
    found = beams(hypothesis("maybe", -2.0), hypothesis("yes", -1.0), hypothesis("no", -3.0))

    ranking = Vbs().rank(found)

    assert texts(ranking) == ["yes", "maybe", "no"]
    assert scores(ranking) == [-1.0, -2.0, -3.0]
    assert ranking.entries[0] == Ranked(hypothesis("yes", -1.0), Direction.REGULAR, place=1, score=-1.0)


def test_a_finished_hypothesis_comes_before_any_that_was_cut_off() -> None:
    found = beams(
        hypothesis("well i", -0.5, finished=False),
        hypothesis("no", -3.0),
        hypothesis("so i", -0.4, finished=False),
    )

    assert texts(Vbs().rank(found)) == ["no", "so i", "well i"]


def test_ties_keep_beam_order() -> None:
    found = beams(hypothesis("b"), hypothesis("a"), hypothesis("c"))

    assert texts(Vbs().rank(found)) == ["b", "a", "c"]


@given(st.lists(st.tuples(st.integers(-4, 0), st.booleans()), max_size=8))
def test_ranking_keeps_every_hypothesis_and_is_settled_at_once(outline: list[tuple[int, bool]]) -> None:
    found = beams(*(hypothesis(str(i), s, finished=f) for i, (s, f) in enumerate(outline)))

    ranked = Vbs().rank(found)

    assert set(ranked.nbest) == set(found.regular)
    assert Vbs().rank(replace(found, regular=ranked.nbest)).nbest == ranked.nbest


def test_only_the_direction_asked_for_answers() -> None:
    found = beams(hypothesis("hello", -1.0), reverse=[hypothesis("hey", -2.0), hypothesis("ho", -1.5)])

    assert texts(Vbs().rank(found)) == ["hello"]
    assert texts(ReverseVbs().rank(found)) == ["ho", "hey"]
    assert [entry.direction for entry in ReverseVbs().rank(found)] == [Direction.REVERSE] * 2
    assert Vbs().requirements.directions == (Direction.REGULAR,)
    assert ReverseVbs().requirements.directions == (Direction.REVERSE,)


def test_a_list_without_scores_is_refused() -> None:
    unscored = hypothesis("yes")._replace(score=None)

    with pytest.raises(InputError) as caught:
        Vbs().rank(beams("no", unscored))

    assert str(caught.value) == (
        "The hypothesis 'yes' has no \"score\"; `bidibeam score FILE --model MODEL` adds it, or choose a "
        "strategy without, such as longest."
    )


def of_length(length: int, log_prob: float) -> Hypothesis:
    return Hypothesis(f"{length}", (), log_prob, length, score=-9.0)


def test_a_tuned_score_by_hand() -> None:
    # lp = ((5 + 7) / 6)^2 = 4 and ((5 + 1) / 6)^2 = 1.
    found = beams(of_length(1, -3.0), of_length(7, -8.0))

    ranking = VbsTuned(length_exponent=2, word_reward=0.25).rank(found)

    assert texts(ranking) == ["7", "1"]
    assert scores(ranking) == pytest.approx([-8 / 4 + 0.25 * 7, -3 / 1 + 0.25 * 1])


def test_no_exponent_and_no_reward_is_log_probability_alone() -> None:
    found = beams(of_length(19, -3.5), of_length(1, -3.0))

    assert scores(VbsTuned(0.0, 0.0).rank(found)) == [-3.0, -3.5]


def test_a_reward_makes_up_for_likelihood_and_those_cut_off_stay_last() -> None:
    cut_off = of_length(30, -1.0)._replace(finished=False)
    found = beams(of_length(2, -2.0), of_length(6, -3.0), cut_off)

    assert texts(VbsTuned(0.0, 0.2).rank(found)) == ["2", "6", "30"]
    assert texts(VbsTuned(0.0, 0.3).rank(found)) == ["6", "2", "30"]


def test_tuned_settings_need_log_probabilities_and_no_score() -> None:
    requirements = VbsTuned(1.0, 0.0).requirements

    assert requirements.log_prob
    assert not requirements.score
    with pytest.raises(InputError, match=r"^The hypothesis 'yes' has no .log_prob.; `bidibeam score"):
        VbsTuned(1.0, 0.0).rank(beams(hypothesis("yes")._replace(log_prob=None)))


@pytest.mark.parametrize("value", [math.nan, math.inf, True, "1", None], ids=repr)
def test_settings_that_are_no_numbers_are_one_sentence(value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        VbsTuned(value, 0.0)
    assert str(caught.value) == f"length_exponent must be a finite number, not {value!r}."

    with pytest.raises(SettingsError) as caught:
        VbsTuned(0.0, value)
    assert str(caught.value) == f"word_reward must be a finite number, not {value!r}."


def test_an_exponent_whose_powers_would_overflow_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        VbsTuned(-400.0, 0.0)

    assert str(caught.value) == "length_exponent must lie between -10 and 10, not -400.0."
    assert scores(VbsTuned(-10, 0.0).rank(beams(of_length(1, -2.0)))) == [-2.0]


def test_signatures_name_every_setting() -> None:
    assert str(Vbs().signature) == "strategy:vbs"
    assert str(ReverseVbs().signature) == "strategy:reverse-vbs"
    assert str(VbsTuned(1.5, 0.25).signature) == "strategy:vbs-tuned|length_exponent:1.5|word_reward:0.25"


def test_an_empty_beam_ranks_as_empty() -> None:
    ranking = Vbs().rank(beams())

    assert len(ranking) == 0
    assert ranking.text == ""
    assert ranking.nbest == NBest()


def test_another_name_is_answered_with_the_list() -> None:
    assert STRATEGIES.create("vbs") == Vbs()
    with pytest.raises(UnknownNameError) as caught:
        STRATEGIES.get("vsb")

    assert str(caught.value) == (
        "Unknown strategy 'vsb'. Did you mean 'vbs'? Choose one of: bidia, bidis, vbs, vbs-tuned, "
        "reverse-vbs, longest, random, oracle."
    )
