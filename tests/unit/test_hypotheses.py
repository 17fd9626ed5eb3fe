"""Hypotheses: reading order, beams and rankings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked, Ranking


def hypothesis(text: str) -> Hypothesis:
    return Hypothesis(text, tuple(text.split()), -1.0, len(text), -1.0)


def nbest(*texts: str) -> NBest:
    return NBest(tuple(hypothesis(text) for text in texts))


def texts(found: NBest) -> list[str]:
    return [each.text for each in found]


@given(st.lists(st.integers()), st.sampled_from(Direction))
def test_arranging_twice_is_a_round_trip(tokens: list[int], direction: Direction) -> None:
    assert direction.arrange(direction.arrange(tokens)) == tokens


def test_only_the_reverse_direction_turns_tokens_round() -> None:
    assert Direction.REGULAR.arrange((1, 2, 3)) == (1, 2, 3)
    assert Direction.REVERSE.arrange((1, 2, 3)) == (3, 2, 1)


@given(st.lists(st.integers()), st.sampled_from(Direction))
def test_one_writing_order_to_the_other_goes_by_reading_order(
    tokens: list[int], direction: Direction
) -> None:
    assert direction.rearrange(tokens) == direction.other.arrange(direction.arrange(tokens))
    assert direction.arrange(tuple(tokens)) == tuple(direction.arrange(tokens))


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


def test_beams_give_each_direction_its_own() -> None:
    beams = Beams("1", "hi", regular=nbest("a"), reverse=nbest("b"))

    assert texts(beams.of(Direction.REGULAR)) == ["a"]
    assert texts(beams.of(Direction.REVERSE)) == ["b"]
    assert len(Beams("1", "hi").of(Direction.REGULAR)) == 0


def test_one_directions_hypotheses_are_filled_in() -> None:
    empty = Beams("1", "hi", "hello")

    regular = empty.with_hypotheses(Direction.REGULAR, nbest("a"))
    both = regular.with_hypotheses(Direction.REVERSE, nbest("b"))

    assert both == Beams("1", "hi", "hello", regular=nbest("a"), reverse=nbest("b"))
    assert both.with_hypotheses(Direction.REGULAR, NBest()) == Beams("1", "hi", "hello", reverse=nbest("b"))
    assert empty == Beams("1", "hi", "hello")


def ranked(text: str, score: float, *, finished: bool = True) -> Ranked:
    return Ranked(hypothesis(text)._replace(finished=finished), Direction.REGULAR, 0, score)


def test_a_ranking_puts_the_highest_first_and_keeps_ties_in_order() -> None:
    ranking = Ranking.of([ranked("a", 0.5), ranked("b", 1.0), ranked("c", 0.5), ranked("d", 2.0)])

    assert texts(ranking.nbest) == ["d", "b", "a", "c"]
    assert ranking.text == "d"
    assert len(ranking) == 4
    assert [entry.score for entry in ranking] == [2.0, 1.0, 0.5, 0.5]


@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), max_size=8))
def test_a_ranking_is_a_stable_sort_of_those_finished_and_then_of_the_others(
    outlines: list[tuple[bool, int]],
) -> None:
    entries = (ranked(str(i), score, finished=finished) for i, (finished, score) in enumerate(outlines))

    order = [int(text) for text in texts(Ranking.of(entries).nbest)]

    expected = sorted((not finished, -score, i) for i, (finished, score) in enumerate(outlines))
    assert order == [index for _, _, index in expected]


def test_a_ranking_counts_those_tied_for_the_first_place() -> None:
    assert Ranking.of([ranked("a", 1.0), ranked("b", 2.0), ranked("c", 2.0)]).tied == 2
    assert Ranking.of([ranked("a", 1.0)]).tied == 1


def test_an_empty_ranking_answers_with_nothing() -> None:
    assert Ranking().text == ""
    assert Ranking().tied == 0
    assert Ranking().nbest == NBest()
