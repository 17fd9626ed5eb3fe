"""What holds for every registered metric; a new one is tested by being registered."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from bidibeam.errors import InputError
from bidibeam.metrics import METRICS, build_metric
from bidibeam.metrics.scoring import has_statistics, measure, score
from bidibeam.protocols import Metric
from bidibeam.text import PackedGroups, PackedTexts

REPLIES = [
    "I do not know what you mean",
    "see you at noon then, my friend",
    "",
    "yes",
    "i do not know",
    "Ok.",
]
REFERENCES = [
    ("I do not know what that is",),
    ("see you at noon, my friend",),
    ("no",),
    ("",),
    ("i do know you",),
    ("Ok.",),
]
SEVERAL = [(*texts, "well", "I do not know what you mean") for texts in REFERENCES]


@pytest.fixture(params=METRICS.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def metric(name: str) -> Metric:
    return build_metric(name)


def value(metric: Metric, replies: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    return score(metric, measure(metric, replies, references))


def test_the_score_is_a_finite_number_with_name_and_signature(name: str, metric: Metric) -> None:
    for references in (REFERENCES, SEVERAL):
        found = value(metric, REPLIES, references)
        assert isinstance(found, float)
        assert 0 < found < math.inf
        assert value(metric, REPLIES, references) == found
        assert value(metric, REPLIES[::-1], references[::-1]) == pytest.approx(found)
    facts = dict(metric.signature.facts)
    assert metric.name == name
    assert facts["metric"] in name
    assert facts["bidibeam"]
    assert build_metric(name) == metric  # so that what was measured once is known


def test_statistics_are_one_row_a_reply_and_alone_what_they_are_in_company(metric: Metric) -> None:
    if not has_statistics(metric):
        pytest.skip("it is known for a whole corpus alone")
    found = metric.statistics(REPLIES, SEVERAL)
    assert found.dtype == np.float64
    assert len(found) == len(REPLIES)
    for row, reply, references in zip(found, REPLIES, SEVERAL, strict=True):
        assert metric.statistics([reply], [references]).tolist() == [row.tolist()]
    sums = np.stack([found.sum(axis=0), found[:2].sum(axis=0)])
    expected = [value(metric, REPLIES, SEVERAL), value(metric, REPLIES[:2], SEVERAL[:2])]
    assert metric.values(sums).tolist() == pytest.approx(expected)
    assert np.isfinite(metric.values(metric.statistics(["a", "", ""], [("",), ("",), ("a", "")]))).all()


def test_many_replies_are_measured_in_parts_and_counts_in_few_bytes(
    metric: Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = measure(metric, REPLIES, SEVERAL)
    monkeypatch.setattr("bidibeam.metrics.scoring.AT_ONCE", 4)

    parts = measure(metric, PackedTexts(REPLIES), PackedGroups(SEVERAL))

    if has_statistics(metric):
        expected = metric.statistics(REPLIES, SEVERAL)
        assert [np.array_equal(found, expected) for found in (whole, parts)] == [True, True]
        are_counts = np.array_equal(expected, expected.round())
        assert {np.asarray(found).dtype for found in (whole, parts)} == {
            np.dtype(np.uint8 if are_counts else np.float64)
        }
    assert score(metric, whole) == score(metric, parts)


def test_a_right_answer_among_the_references_is_no_worse_than_any(name: str, metric: Metric) -> None:
    if name == "length_ratio":
        pytest.skip("it is best near 1")
    right = [(*texts, reply) for reply, texts in zip(REPLIES, REFERENCES, strict=True)]
    better, worse = value(metric, REPLIES, right), value(metric, REPLIES, REFERENCES)

    assert better >= worse if metric.higher_is_better else better <= worse


def test_what_is_written_over_and_over_scores_no_higher_than_what_is_right(metric: Metric) -> None:
    right, wrong = (value(metric, [text] * 2, [("a b c d e",)] * 2) for text in ("a b c d e", ""))

    assert right >= wrong if metric.higher_is_better else right == 0 < wrong


def test_unpaired_replies_are_refused_in_one_sentence(metric: Metric) -> None:
    with pytest.raises(InputError, match=r"^There are no replies to score: give at least one reply"):
        value(metric, [], [])
    with pytest.raises(InputError, match=r"there are 2 replies and references for 1\.$"):
        value(metric, REPLIES[:2], REFERENCES[:1])
    with pytest.raises(
        InputError, match=r"^The list of references of reply 2 is empty; give at least one\.$"
    ):
        value(metric, REPLIES[:2], [("a",), ()])
    with pytest.raises(
        InputError, match=r"^The list of references of reply 1 is a text; give a list of texts"
    ):
        value(metric, ["a"], ["a"])
