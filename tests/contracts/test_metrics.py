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


def test_reports_show_quality_first_then_variety_then_length() -> None:
    ours = ["bleu", "sentence_bleu", "chrf", "distinct-1", "distinct-2", "length_ratio"]

    assert METRICS.names()[: len(ours)] == ours


def test_the_score_bears_the_registered_name(name: str, metric: Metric) -> None:
    assert metric.score(REPLIES, REFERENCES).name == name


def test_the_score_is_a_finite_number_above_zero(metric: Metric) -> None:
    value = metric.score(REPLIES, REFERENCES).value

    assert isinstance(value, float)
    assert math.isfinite(value)
    assert value > 0


def test_the_signature_says_how_and_by_which_version(metric: Metric) -> None:
    facts = dict(metric.score(REPLIES, REFERENCES).signature.facts)

    assert facts["metric"]
    assert facts["bidibeam"]


def test_the_order_of_pairs_does_not_matter(metric: Metric) -> None:
    forwards = metric.score(REPLIES, REFERENCES)
    turned = metric.score(REPLIES[::-1], REFERENCES[::-1])

    assert turned.value == pytest.approx(forwards.value)
    assert turned.signature == forwards.signature


def test_scoring_twice_gives_the_same(metric: Metric) -> None:
    assert metric.score(REPLIES, REFERENCES) == metric.score(REPLIES, REFERENCES)


def test_one_pair_is_enough(metric: Metric) -> None:
    assert metric.score(REPLIES[:1], REFERENCES[:1]).value > 0


@pytest.mark.parametrize("references", [[["a", "b"], ["c"]], [[], []]], ids=["references", "nothing at all"])
def test_empty_replies_score_zero(metric: Metric, references: list[list[str]]) -> None:
    assert metric.score([[], []], references).value == 0.0


def test_an_empty_reply_never_helps(metric: Metric) -> None:
    replies = [["i", "do"], ["not", "know"]]

    assert metric.score([replies[0], []], replies).value <= metric.score(replies, replies).value


def test_empty_references_still_give_a_number(metric: Metric) -> None:
    assert math.isfinite(metric.score([["a", "b"]], [[]]).value)


def test_no_replies_at_all_are_one_sentence(metric: Metric) -> None:
    with pytest.raises(InputError, match=r"^There are no replies to score: give at least one reply"):
        metric.score([], [])


def test_unequal_counts_are_one_sentence(metric: Metric) -> None:
    with pytest.raises(InputError, match=r"there are 2 replies and 1 references\.$"):
        metric.score(REPLIES[:2], REFERENCES[:1])
