"""chrF beside sacreBLEU's, distinct-n beside an obvious count, and the length ratio by hand."""

from __future__ import annotations

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import SettingsError
from bidibeam.metrics.scoring import measure, score, sign_references
from bidibeam.metrics.surface import Chrf, Distinct, LengthRatio, distinct_1, distinct_2
from tests.unit.metrics.test_bleu import columns

words = st.lists(st.sampled_from(["a", "aB", "bad", "the", "naïve", "漢字", ".", "x y", ""]), max_size=7)
texts = words.map(" ".join)
items = st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=6)


@pytest.mark.parametrize("lowercase", [False, True])
@given(items)
def test_chrf_equals_sacrebleu_to_the_last_bit(lowercase: bool, items: list[tuple[str, list[str]]]) -> None:
    replies, references = [reply for reply, _ in items], [each for _, each in items]
    theirs = sacrebleu.CHRF(lowercase=lowercase)
    expected = theirs.corpus_score(replies, columns(references)).score
    metric = Chrf(lowercase)

    measured = metric.statistics(replies, references)

    assert score(metric, measured) == expected
    single = metric.values(measured.sum(axis=0, keepdims=True).astype(np.float32))
    assert single.dtype == np.float32  # as sacreBLEU resamples
    assert single[0] == pytest.approx(expected, rel=1e-4)
    signature = str(sign_references(metric.signature, references))
    assert signature.startswith(f"metric:chrf|beta:2|{theirs.get_signature()}|")


def test_chrf_equals_the_arithmetic() -> None:
    # precisions 2/3, 1/2, 0 and recalls 2/4, 1/3, 0; the reply has no longer n-grams
    precision, recall = (2 / 3 + 1 / 2 + 0) / 3, (2 / 4 + 1 / 3 + 0) / 3

    value = score(Chrf(), Chrf().statistics(["ab x"], [["abcd"]]))

    assert value == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))


@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=5),
    st.integers(1, 3),
    st.lists(st.integers(0, 4), min_size=1),
)
def test_distinct_of_replies_that_are_drawn_is_that_of_a_list_of_them(
    replies: list[list[str]], order: int, drawn: list[int]
) -> None:
    texts, metric = list(map(" ".join, replies)), Distinct(order)
    places = [place % len(texts) for place in drawn]

    value = metric.prepare(texts)(np.array(places))

    assert value == metric.score([texts[place] for place in places], [("",)] * len(places))


@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=5),
    st.integers(1, 3),
)
def test_distinct_equals_the_obvious_count(replies: list[list[str]], order: int) -> None:
    grams = [
        "-".join(reply[start : start + order])
        for reply in replies
        for start in range(len(reply))
        if start + order <= len(reply)
    ]
    size = sum(len(reply) for reply in replies)
    metric = Distinct(order)

    value = metric.score(list(map(" ".join, replies)), [("",)] * len(replies))

    assert value * size == pytest.approx(len(set(grams)))
    assert f"order:{order}|per:words" in str(metric.signature)
    assert metric.name == f"distinct-{order}"


def test_the_paper_divides_pairs_by_words() -> None:
    reply = "No no no, yes"  # three different words, three different pairs, five words

    assert distinct_1().score([reply], [("",)]) == 3 / 5
    assert distinct_2().score([reply], [("",)]) == 3 / 5


def test_another_order_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^distinct-n counts n-grams of at least one word, not of 0\.$"):
        Distinct(0)


def test_the_length_ratio_is_all_words_written_over_all_words_wanted() -> None:
    def ratio(replies: list[str], references: list[list[str]]) -> float:
        return score(LengthRatio(), measure(LengthRatio(), replies, references))

    assert ratio(["a", "b c"], [["x y z"], ["x"]]) == 3 / 4
    assert ratio(["a"], [[""]]) == 0.0
    assert ratio(["a b"], [["x y z", "x", "x y z w"]]) == 2 / 1  # of two as near the shorter
