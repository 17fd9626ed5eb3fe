"""Clipped matches beside nltk's, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import modified_precision

from bidibeam.similarities.ngrams import count_matches
from bidibeam.similarities.tokens import number_tokens

compiling = settings(deadline=None)  # the first example may wait for the compiler

sequences = st.lists(st.sampled_from(["a", "b", "c", "the", ""]), max_size=12)
lists = st.lists(sequences, max_size=5)


def assert_equal_to_nltk(judged: list[list[str]], others: list[list[str]], order: int = 4) -> None:
    numerators, denominators = count_matches(number_tokens(judged, others), order)
    assert numerators.shape == (order, len(judged), len(others))
    assert denominators.shape == (order, len(judged))
    for row, hypothesis in enumerate(judged):
        for column, reference in enumerate(others):
            for n in range(order):
                theirs = modified_precision([reference], hypothesis, n + 1)
                ours = numerators[n, row, column], denominators[n, row]
                assert ours == (theirs.numerator, theirs.denominator), (hypothesis, reference, n + 1)


@compiling
@given(lists, lists)
def test_counts_are_nltks(judged: list[list[str]], others: list[list[str]]) -> None:
    assert_equal_to_nltk(judged, others)


@compiling
@given(lists, st.integers(1, 7))
def test_counts_are_nltks_for_other_orders(both: list[list[str]], order: int) -> None:
    assert_equal_to_nltk(both[:2], both[2:], order)


@pytest.mark.parametrize("words", [1, 2, 3, 30, 2000], ids="{} words".format)
def test_counts_are_nltks_for_long_sequences(words: int) -> None:
    generator = np.random.default_rng(words)
    both = [generator.integers(words, size=size).astype(str).tolist() for size in (200, 63, 64, 65, 1, 128)]

    assert_equal_to_nltk(both[:4], both[1:])


def test_counts_by_hand() -> None:
    judged, others = [["the", "the", "the", "cat"]], [["the", "cat", "the"], []]

    numerators, denominators = count_matches(number_tokens(judged, others), 2)

    # Two of three "the" and "cat"; of "the the" twice and "the cat", the last alone.
    assert numerators.tolist() == [[[3, 0]], [[1, 0]]]
    assert denominators.tolist() == [[4], [3]]


def test_no_sequences_have_no_matches() -> None:
    assert count_matches(number_tokens([], []), 3).numerators.shape == (3, 0, 0)
    assert count_matches(number_tokens([], [["a"]]), 3).numerators.shape == (3, 0, 1)
    assert count_matches(number_tokens([["a"]], []), 3).numerators.shape == (3, 1, 0)


def test_equal_tokens_have_equal_numbers_from_zero() -> None:
    ids, offsets, judged = number_tokens([["b", "a"], []], [["a", "c", "b"]])

    assert ids.tolist() == [0, 1, 1, 2, 0]
    assert offsets.tolist() == [0, 2, 2, 5]
    assert judged == 2
