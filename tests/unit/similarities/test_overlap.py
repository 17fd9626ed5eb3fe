"""Token F1 beside counting, edit similarity beside the textbook's recursion."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.similarities.overlap import Edit, TokenF1
from tests.unit.similarities.made import compare, hypotheses

sequences = st.lists(st.sampled_from(["a", "ab", "b", "ba"]), max_size=7).map(tuple)
Tokens = tuple[str, ...]


@given(sequences, sequences)
def test_token_f1_is_the_harmonic_mean_of_precision_and_recall(one: Tokens, other: Tokens) -> None:
    common = (Counter(one) & Counter(other)).total()
    expected = float(one == other == ())
    if common:
        precision, recall = common / len(one), common / len(other)
        expected = 2 * precision * recall / (precision + recall)

    assert TokenF1().pairwise(hypotheses(one), hypotheses(other)).item() == pytest.approx(expected)


def test_token_f1_by_hand() -> None:
    matrix = TokenF1().pairwise(hypotheses("a a b", ""), hypotheses("a c", "", "b a a"))

    assert matrix.tolist() == [[2 / 5, 0.0, 1.0], [0.0, 1.0, 0.0]]


@cache
def distance(one: Tokens, other: Tokens) -> int:
    if not one or not other:
        return len(one) + len(other)
    replaced = distance(one[1:], other[1:]) + (one[0] != other[0])
    return min(replaced, distance(one[1:], other) + 1, distance(one, other[1:]) + 1)


@given(sequences, sequences)
def test_edit_is_one_minus_the_distance_over_the_longer(one: Tokens, other: Tokens) -> None:
    expected = 1 - distance(one, other) / max(1, len(one), len(other))

    assert Edit().pairwise(hypotheses(one), hypotheses(other)).item() == pytest.approx(expected)


def test_edit_counts_tokens_not_letters_and_empty_hypotheses_are_alike() -> None:
    assert compare(Edit(), "see you at noon", "see yours at noon") == 0.75
    assert Edit().pairwise(hypotheses("", "a"), hypotheses("")).tolist() == [[1.0], [0.0]]
