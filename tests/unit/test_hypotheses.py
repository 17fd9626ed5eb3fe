"""Hypotheses: reading order, ranking, and merging what reads the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest


def hypothesis(text: str, score: float = -1.0, multiplicity: int = 1) -> Hypothesis:
    return Hypothesis(text, tuple(text.split()), score, len(text), score, True, multiplicity=multiplicity)


def nbest(*texts: str) -> NBest:
    return NBest(tuple(hypothesis(text) for text in texts))


def texts(found: NBest) -> list[str]:
    return [each.text for each in found]


@given(st.lists(st.integers()), st.sampled_from(Direction))
def test_arranging_twice_is_a_round_trip(tokens: list[int], direction: Direction) -> None:
    assert direction.arrange(direction.arrange(tokens)) == tokens


def test_only_the_reverse_direction_turns_tokens_round() -> None:
    assert Direction.REGULAR.arrange((1, 2, 3)) == [1, 2, 3]
    assert Direction.REVERSE.arrange((1, 2, 3)) == [3, 2, 1]


def test_each_direction_has_the_other() -> None:
    assert Direction.REGULAR.other is Direction.REVERSE
    assert Direction.REVERSE.other is Direction.REGULAR


def test_the_best_is_the_first() -> None:
    assert nbest("a", "b").best.text == "a"
    assert len(nbest("a", "b")) == 2


def test_an_empty_list_has_no_best() -> None:
    with pytest.raises(
        InputError, match=r"^The n-best list is empty, so it has no best hypothesis: widen the beam"
    ):
        NBest().best  # noqa: B018


def test_reranking_puts_the_highest_first_and_keeps_ties_in_order() -> None:
    assert texts(nbest("a", "b", "c", "d").reranked([0.5, 1.0, 0.5, 2.0])) == ["d", "b", "a", "c"]


@given(st.lists(st.integers(-3, 3), max_size=8))
def test_reranking_is_a_stable_sort(scores: list[int]) -> None:
    found = nbest(*(str(index) for index in range(len(scores))))

    order = [int(text) for text in texts(found.reranked(scores))]

    assert order == [index for _, index in sorted((-score, index) for index, score in enumerate(scores))]


def test_what_reads_the_same_is_merged_into_the_better_ranked() -> None:
    found = NBest(
        (hypothesis("a", -1.0), hypothesis("b", -2.0, 2), hypothesis("a", -3.0, 4), hypothesis("b", -4.0))
    )

    merged = found.distinct()

    assert merged == NBest((hypothesis("a", -1.0, 5), hypothesis("b", -2.0, 3)))
    assert merged.distinct() == merged


def test_beams_give_each_direction_its_own() -> None:
    beams = Beams("1", "hi", regular=nbest("a"), reverse=nbest("b"))

    assert texts(beams.of(Direction.REGULAR)) == ["a"]
    assert texts(beams.of(Direction.REVERSE)) == ["b"]
    assert len(Beams("1", "hi").of(Direction.REGULAR)) == 0
