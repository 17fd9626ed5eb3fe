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
def test_reading_order_and_back_is_a_round_trip(tokens: list[int], direction: Direction) -> None:
    assert direction.arrange(direction.arrange(tokens)) == tokens
    assert Direction.REGULAR.arrange(tokens) == tokens == Direction.REVERSE.arrange(tokens[::-1])
    assert direction.arrange(tuple(tokens)) == tuple(direction.arrange(tokens))
    assert direction.other.other is direction


def test_an_empty_list_has_no_best() -> None:
    with pytest.raises(InputError, match=r"^The n-best list is empty, so it has no best hypothesis: widen"):
        NBest().best  # noqa: B018


def test_one_directions_hypotheses_are_filled_in() -> None:
    empty = Beams("1", "hi", ("hello",))

    regular = empty.with_hypotheses(Direction.REGULAR, nbest("a"))
    both = regular.with_hypotheses(Direction.REVERSE, nbest("b"))

    assert both == Beams("1", "hi", ("hello",), regular=nbest("a"), reverse=nbest("b"))
    assert [texts(both.of(direction)) for direction in Direction] == [["a"], ["b"]]
    assert both.with_hypotheses(Direction.REGULAR, NBest()) == Beams(
        "1", "hi", ("hello",), reverse=nbest("b")
    )
    assert empty == Beams("1", "hi", ("hello",))


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
    assert (Ranking().text, Ranking().tied, Ranking().nbest) == ("", 0, NBest())
