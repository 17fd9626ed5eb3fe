"""What holds for every registered metric; a new one is tested by being registered."""

from __future__ import annotations

import math

import pytest

from bidibeam.errors import InputError
from bidibeam.metrics import METRICS
from bidibeam.protocols import Metric

REPLIES = [
    ["i", "do", "not", "know", "what", "you", "mean"],
    ["see", "you", "at", "noon", "then", ",", "my", "friend"],
    [],
    ["yes"],
    ["i", "do", "not", "know"],
]
REFERENCES = [
    ["i", "do", "not", "know", "what", "that", "is"],
    ["see", "you", "at", "noon", ",", "my", "friend"],
    ["no"],
    [],
    ["i", "do", "know", "you"],
]


@pytest.fixture(params=METRICS.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def metric(name: str) -> Metric:
    return METRICS.create(name)


def test_the_score_is_a_finite_number_above_zero_with_name_and_signature(name: str, metric: Metric) -> None:
    score = metric.score(REPLIES, REFERENCES)

    assert score.name == name
    assert isinstance(score.value, float)
    assert 0 < score.value < math.inf
    facts = dict(score.signature.facts)
    assert facts["metric"]
    assert facts["bidibeam"]
    assert metric.score(REPLIES, REFERENCES) == score
    backwards = metric.score(REPLIES[::-1], REFERENCES[::-1])
    assert backwards.value == pytest.approx(score.value)
    assert backwards.signature == score.signature
    assert metric.score(REPLIES[:1], REFERENCES[:1]).value > 0  # one pair is enough


@pytest.mark.parametrize("references", [[["a", "b"], ["c"]], [[], []]], ids=["references", "nothing at all"])
def test_empty_replies_score_zero(metric: Metric, references: list[list[str]]) -> None:
    assert metric.score([[], []], references).value == 0.0


def test_an_empty_reply_never_helps_and_empty_references_give_a_number(metric: Metric) -> None:
    replies = [["i", "do"], ["not", "know"]]

    assert metric.score([replies[0], []], replies).value <= metric.score(replies, replies).value
    assert math.isfinite(metric.score([["a", "b"]], [[]]).value)


def test_unpaired_replies_are_refused_in_one_sentence(metric: Metric) -> None:
    with pytest.raises(InputError, match=r"^There are no replies to score: give at least one reply"):
        metric.score([], [])
    with pytest.raises(InputError, match=r"there are 2 replies and 1 references\.$"):
        metric.score(REPLIES[:2], REFERENCES[:1])
