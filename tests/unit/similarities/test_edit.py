"""Token edit similarity beside the textbook's recursion."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.hypotheses import Hypothesis
from bidibeam.similarities.edit import Edit
from bidibeam.work import counting

sequences = st.lists(st.sampled_from(["a", "ab", "b", "ba"]), max_size=7).map(tuple)


def hypothesis(*tokens: str) -> Hypothesis:
    return Hypothesis(" ".join(tokens), tokens, None, len(tokens) + 1, None)


@cache
def distance(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    if not one or not other:
        return len(one) + len(other)
    replaced = distance(one[1:], other[1:]) + (one[0] != other[0])
    return min(replaced, distance(one[1:], other) + 1, distance(one, other[1:]) + 1)


@given(sequences, sequences)
def test_it_is_one_minus_the_distance_over_the_longer(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    expected = 1 - distance(one, other) / max(1, len(one), len(other))

    assert Edit().pairwise([hypothesis(*one)], [hypothesis(*other)]).item() == pytest.approx(expected)


def test_tokens_count_not_letters() -> None:
    judged, others = [hypothesis("see", "you", "at", "noon")], [hypothesis("see", "yours", "at", "noon")]

    assert Edit().pairwise(judged, others).item() == 0.75


def test_empty_hypotheses_are_alike() -> None:
    assert Edit().pairwise([hypothesis(), hypothesis("a")], [hypothesis()]).tolist() == [[1.0], [0.0]]


def test_compared_pairs_are_counted() -> None:
    with counting() as work:
        Edit().pairwise([hypothesis("a")] * 3, [hypothesis("a")] * 2)

    assert work.compared_pairs == 6


def test_the_signature_is_its_name() -> None:
    assert str(Edit().signature) == "similarity:edit"
