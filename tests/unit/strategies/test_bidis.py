"""BidiS: score + lambda * the other direction's log-probability, normalised for length in the same way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Hypothesis
from bidibeam.strategies.baselines import Vbs
from bidibeam.strategies.bidis import BidiS
from tests.unit.strategies.lists import beams, hypothesis, random_beams, scores, texts


def test_a_score_by_hand() -> None:
    # Scores are log-probabilities over 2, so the other direction's are halved too: -1 - 6/2 and -2 - 2/2.
    found = beams(hypothesis("dull", -1.0, other=-6.0), hypothesis("apt", -2.0, other=-2.0))

    ranking = BidiS(lambda_=1.0).rank(found)

    assert texts(ranking) == ["apt", "dull"]
    assert scores(ranking) == [-3.0, -4.0]
    assert [entry.place for entry in ranking] == [1, 0]
    # Equal at -1 - 3 lambda = -2 - lambda.
    assert [BidiS(weight).rank(found).text for weight in (-1.0, 0.49, 0.5, 0.51)] == [*["dull"] * 3, "apt"]


def test_every_hypothesis_is_normalised_by_its_own_length_penalty() -> None:
    short = Hypothesis("short", ("short",), log_prob=-3.0, length=1, score=-3.0, other_log_prob=-5.0)
    long = Hypothesis("long", ("long",), log_prob=-8.0, length=9, score=-2.0, other_log_prob=-12.0)

    ranking = BidiS(lambda_=0.5).rank(beams(short, long))

    assert texts(ranking) == ["long", "short"]
    assert scores(ranking) == [-2.0 - 0.5 * 12 / 4, -3.0 - 0.5 * 5]
    certain = hypothesis("a", other=-1.5)._replace(log_prob=0.0, score=0.0)
    assert scores(BidiS(2.0).rank(beams(certain))) == [-3.0]


@given(random_beams())
def test_without_weight_it_is_vbs(found: Beams) -> None:
    assert BidiS(0.0).rank(found) == Vbs().rank(found)


def test_those_cut_off_come_last_and_those_without_a_reverse_score_are_left_out() -> None:
    found = beams(
        hypothesis("well i", -0.1, other=-0.1, finished=False),
        hypothesis("unscored", -0.1),
        hypothesis("no", -3.0, other=-3.0),
    )

    assert [(entry.hypothesis.text, entry.place) for entry in BidiS().rank(found)] == [
        ("no", 2),
        ("well i", 0),
    ]
    assert len(BidiS().rank(beams())) == 0


@pytest.mark.parametrize("field", ["score", "log_prob", "other_log_prob"])
def test_a_list_without_scores_is_refused(field: str) -> None:
    lacking: dict[str, Any] = {field: None}

    with pytest.raises(InputError, match=f"^The hypothesis 'a' has no \"{field}\"; .*`bidibeam score` adds"):
        BidiS().rank(beams(hypothesis("a", other=-1.0)._replace(**lacking)))


@pytest.mark.parametrize(("log_prob", "score"), [(-2.0, 1.0), (2.0, -1.0), (0.0, -1.0), (-1.0, 0.0)])
def test_a_score_that_no_length_penalty_could_make_is_refused(log_prob: float, score: float) -> None:
    odd = hypothesis("a", other=-1.0)._replace(log_prob=log_prob, score=score)

    with pytest.raises(InputError) as caught:
        BidiS().rank(beams(odd))

    assert f'has the "score" {score!r} and the "log_prob" {log_prob!r}; a score must' in str(caught.value)
