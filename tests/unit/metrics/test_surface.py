"""chrF beside sacreBLEU's, distinct-n beside an obvious count, and the length ratio by hand."""

from __future__ import annotations

from typing import Literal

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import SettingsError
from bidibeam.metrics.surface import Chrf, Distinct, LengthRatio, distinct_1, distinct_2

sentences = st.lists(st.sampled_from(["a", "ab", "bad", "the", "naïve", "漢字", ".", "x y", ""]), max_size=7)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)


@given(pairs)
def test_chrf_equals_sacrebleu_on_words_with_spaces_between(pairs: list[tuple[list[str], list[str]]]) -> None:
    replies, references = [reply for reply, _ in pairs], [reference for _, reference in pairs]

    expected = sacrebleu.corpus_chrf(list(map(" ".join, replies)), [list(map(" ".join, references))])

    assert Chrf().score(replies, references).value == pytest.approx(expected.score, abs=1e-9)


def test_chrf_equals_the_arithmetic_and_brings_sacrebleus_signature() -> None:
    # precisions 2/3, 1/2, 0 and recalls 2/4, 1/3, 0; the reply has no longer n-grams
    precision, recall = (2 / 3 + 1 / 2 + 0) / 3, (2 / 4 + 1 / 3 + 0) / 3

    score = Chrf().score([["ab", "x"]], [["abcd"]])

    assert score.value == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))
    assert (
        "metric:chrf|beta:2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|"
        f"version:{sacrebleu.__version__}|" in str(score.signature)
    )


@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=5),
    st.integers(1, 3),
    st.sampled_from(["words", "ngrams"]),
)
def test_distinct_equals_the_obvious_count(
    replies: list[list[str]], order: int, per: Literal["words", "ngrams"]
) -> None:
    grams = [
        "-".join(reply[start : start + order])
        for reply in replies
        for start in range(len(reply))
        if start + order <= len(reply)
    ]
    size = sum(len(reply) for reply in replies) if per == "words" else len(grams)

    score = Distinct(order, per).score(replies, replies)

    assert score.value * size == pytest.approx(len(set(grams)))
    assert f"order:{order}|per:{per}" in str(score.signature)


def test_the_paper_divides_pairs_by_words() -> None:
    reply = ["no", "no", "no", "yes"]  # two different words, two different pairs, three pairs, four words

    assert distinct_1().score([reply], [[]]).value == 2 / 4
    assert distinct_2().score([reply], [[]]).value == 2 / 4
    assert distinct_2(per="ngrams").score([reply], [[]]).value == 2 / 3


def test_another_order_or_divisor_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^distinct-n counts n-grams of at least one word, not of 0\.$"):
        Distinct(0)
    with pytest.raises(SettingsError, match=r"^distinct-n divides by 'words' or by 'ngrams', not by 'line"):
        Distinct(1, "lines")  # type: ignore[arg-type]


def test_the_length_ratio_is_all_words_written_over_all_words_wanted() -> None:
    assert LengthRatio().score([["a"], ["b", "c"]], [["x", "y", "z"], ["x"]]).value == 3 / 4
    assert LengthRatio().score([["a"]], [[]]).value == 0.0
