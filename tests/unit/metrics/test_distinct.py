"""Distinct-n beside a slow, obvious count."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import SettingsError
from bidibeam.metrics.distinct import Distinct, distinct_1, distinct_2

replies_strategy = st.lists(st.lists(st.sampled_from("abcd"), max_size=6), min_size=1, max_size=5)


@given(replies_strategy, st.integers(1, 3), st.sampled_from(["words", "ngrams"]))
def test_it_equals_the_obvious_count(
    replies: list[list[str]], order: int, per: Literal["words", "ngrams"]
) -> None:
    grams = []
    for reply in replies:
        for position in range(len(reply)):
            gram = reply[position : position + order]
            if len(gram) == order:
                grams.append("-".join(gram))
    size = sum(len(reply) for reply in replies) if per == "words" else len(grams)

    score = Distinct(order, per).score(replies, replies)

    assert score.value * size == pytest.approx(len(set(grams)))


def test_the_paper_divides_pairs_by_words() -> None:
    reply = ["no", "no", "no", "yes"]  # two different words, two different pairs, three pairs, four words

    assert distinct_1().score([reply], [[]]).value == 2 / 4
    assert distinct_2().score([reply], [[]]).value == 2 / 4
    assert distinct_2(per="ngrams").score([reply], [[]]).value == 2 / 3


def test_pairs_do_not_reach_across_replies() -> None:
    assert distinct_2().score([["a"], ["b"]], [[], []]).value == 0


def test_the_signature_says_what_it_is_divided_by() -> None:
    assert "order:2|per:words" in str(distinct_2().score([["a"]], [[]]).signature)
    assert "order:2|per:ngrams" in str(distinct_2(per="ngrams").score([["a"]], [[]]).signature)


def test_an_order_below_one_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^distinct-n counts n-grams of at least one word, not of 0\.$"):
        Distinct(0)


def test_another_divisor_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"^distinct-n divides by 'words' or by 'ngrams', not by 'lines'\.$"
    ):
        Distinct(1, "lines")  # type: ignore[arg-type]
