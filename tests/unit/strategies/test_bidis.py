"""BidiS: score + lambda * what the other direction says, normalised for length in the same way."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given

from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams, Direction, Hypothesis
from bidibeam.protocols import Requirements
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.likelihood import Vbs
from tests.unit.strategies.lists import beams, hypothesis, random_beams, scores, texts


def test_a_score_by_hand() -> None:
    # Scores are log-probabilities over 2, so the other direction's are halved too: -1 - 6/2 and -2 - 2/2.
    found = beams(hypothesis("dull", -1.0, other=-6.0), hypothesis("apt", -2.0, other=-2.0))

    ranking = BidiS(lambda_=1.0).rank(found)

    assert texts(ranking) == ["apt", "dull"]
    assert scores(ranking) == [-3.0, -4.0]
    assert [entry.place for entry in ranking] == [1, 0]


def test_every_hypothesis_is_normalised_by_its_own_length_penalty() -> None:
    short = Hypothesis("short", ("short",), log_prob=-3.0, length=1, score=-3.0, other_log_prob=-5.0)
    long = Hypothesis("long", ("long",), log_prob=-8.0, length=9, score=-2.0, other_log_prob=-12.0)

    ranking = BidiS(lambda_=0.5).rank(beams(short, long))

    assert texts(ranking) == ["long", "short"]
    assert scores(ranking) == [-2.0 - 0.5 * 12 / 4, -3.0 - 0.5 * 5]


def test_lambda_weighs_the_other_direction() -> None:
    found = beams(hypothesis("dull", -1.0, other=-6.0), hypothesis("apt", -2.0, other=-2.0))

    # Equal at -1 - 3 lambda = -2 - lambda.
    assert texts(BidiS(0.49).rank(found)) == ["dull", "apt"]
    assert texts(BidiS(0.5).rank(found)) == ["dull", "apt"]
    assert texts(BidiS(0.51).rank(found)) == ["apt", "dull"]
    assert texts(BidiS(-1.0).rank(found)) == ["dull", "apt"]


@given(random_beams())
def test_without_weight_it_is_vbs(found: Beams) -> None:
    assert BidiS(0.0).rank(found) == Vbs().rank(found)


def test_those_cut_off_come_last() -> None:
    found = beams(
        hypothesis("well i", -0.1, other=-0.1, finished=False),
        hypothesis("no", -3.0, other=-3.0),
    )

    assert texts(BidiS().rank(found)) == ["no", "well i"]


def test_those_that_the_other_direction_was_not_asked_about_are_left_out() -> None:
    found = beams(hypothesis("a", -1.0), hypothesis("b", -2.0, other=-2.0), hypothesis("c", -3.0, other=-1.0))

    ranking = BidiS().rank(found)

    assert texts(ranking) == ["b", "c"]
    assert [entry.place for entry in ranking] == [1, 2]


def test_if_it_was_asked_about_none_the_list_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        BidiS().rank(beams("a", "b"))

    assert str(caught.value) == (
        "The hypothesis 'a' has no \"other_log_prob\"; `bidibeam decode --n-best` writes it for a model of "
        "both directions, and `bidibeam score FILE --model REVERSE_MODEL` adds it."
    )


@pytest.mark.parametrize("field", ["score", "log_prob"])
def test_a_list_without_the_regular_scores_is_refused(field: str) -> None:
    lacking: dict[str, Any] = {field: None}

    with pytest.raises(InputError, match=f"^The hypothesis 'a' has no \"{field}\"; `bidibeam score FILE"):
        BidiS().rank(beams(hypothesis("a", other=-1.0)._replace(**lacking)))


@pytest.mark.parametrize(("log_prob", "score"), [(-2.0, 1.0), (2.0, -1.0), (0.0, -1.0), (-1.0, 0.0)])
def test_a_score_that_no_length_penalty_could_make_is_refused(log_prob: float, score: float) -> None:
    odd = hypothesis("a", other=-1.0)._replace(log_prob=log_prob, score=score)

    with pytest.raises(InputError) as caught:
        BidiS().rank(beams(odd))

    assert str(caught.value) == (
        f'The hypothesis \'a\' has the "score" {score!r} and the "log_prob" {log_prob!r}; a score must be '
        "the log-probability divided by a positive length penalty."
    )


def test_a_certain_hypothesis_is_no_division_by_zero() -> None:
    certain = hypothesis("a", other=-1.5)._replace(log_prob=0.0, score=0.0)

    assert scores(BidiS(2.0).rank(beams(certain))) == [-3.0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "1", None, True], ids=repr)
def test_a_lambda_that_is_no_number_is_one_sentence(value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        BidiS(value)

    assert str(caught.value) == f"lambda must be a finite number, not {value!r}."


def test_needs_and_signature() -> None:
    assert BidiS(0.7).requirements == Requirements(
        (Direction.REGULAR,), log_prob=True, score=True, other_weight=0.7
    )
    assert str(BidiS(0.7).signature) == "strategy:bidis|lambda:0.7"
    assert str(BidiS(0.123456789).signature) == "strategy:bidis|lambda:0.123456789"


def test_an_empty_beam_ranks_as_empty() -> None:
    assert len(BidiS().rank(beams())) == 0


def test_a_weight_beside_which_scores_mean_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^lambda must lie between -10,000 and 10,000, not 1e\+308\.$"):
        BidiS(1e308)
