"""Token F1 beside counting by hand."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.hypotheses import Hypothesis
from bidibeam.similarities.token_f1 import TokenF1
from bidibeam.work import counting

compiling = settings(deadline=None)  # the first example may wait for the compiler

sequences = st.lists(st.sampled_from("abcd"), max_size=8)


def hypothesis(*tokens: str) -> Hypothesis:
    return Hypothesis(" ".join(tokens), tokens, None, len(tokens) + 1, None)


@compiling
@given(sequences, sequences)
def test_it_is_the_harmonic_mean_of_precision_and_recall(one: list[str], other: list[str]) -> None:
    common = (Counter(one) & Counter(other)).total()
    expected = float(one == other == [])
    if common:
        precision, recall = common / len(one), common / len(other)
        expected = 2 * precision * recall / (precision + recall)

    assert TokenF1().pairwise([hypothesis(*one)], [hypothesis(*other)]).item() == pytest.approx(expected)


def test_a_matrix_by_hand() -> None:
    judged = [hypothesis("a", "a", "b"), hypothesis()]
    others = [hypothesis("a", "c"), hypothesis(), hypothesis("b", "a", "a")]

    assert TokenF1().pairwise(judged, others).tolist() == [[2 / 5, 0.0, 1.0], [0.0, 1.0, 0.0]]


def test_compared_pairs_are_counted() -> None:
    with counting() as work:
        TokenF1().pairwise([hypothesis("a")] * 3, [hypothesis("a")] * 2)

    assert work.compared_pairs == 6


def test_the_signature_is_its_name() -> None:
    assert str(TokenF1().signature) == "similarity:token_f1"
