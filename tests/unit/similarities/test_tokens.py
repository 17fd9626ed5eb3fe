"""Tokens and whole sequences as numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bidibeam.hypotheses import Hypothesis
from bidibeam.similarities.tokens import number_lists

sequences = st.lists(st.lists(st.sampled_from("ab"), max_size=3).map(tuple), max_size=4)


def hypotheses(*sequences: tuple[str, ...]) -> list[Hypothesis]:
    return [Hypothesis("", each, None, 1, None) for each in sequences]


def test_equal_sequences_have_equal_numbers_wherever_they_occur() -> None:
    first = hypotheses(("a", "b"), ("a",)), hypotheses(("a", "b"))
    second = hypotheses(("b",), (), ("a", "b")), hypotheses(("a",))

    lists = number_lists([first, second])

    assert lists.sequences == [("a", "b"), ("a",), ("b",), ()]
    assert lists.places.tolist() == [0, 1, 0, 2, 3, 0, 1]
    assert lists.cuts.tolist() == [0, 2, 3, 6, 7]
    assert lists.places.dtype == lists.cuts.dtype == "int32"


def test_no_comparisons_are_no_lists() -> None:
    lists = number_lists([])

    assert (lists.sequences, lists.places.tolist(), lists.cuts.tolist()) == ([], [], [0])


@given(st.lists(st.tuples(sequences, sequences), max_size=4))
def test_each_list_can_be_read_off_again(
    comparisons: list[tuple[list[tuple[str, ...]], list[tuple[str, ...]]]],
) -> None:
    lists = number_lists([(hypotheses(*judged), hypotheses(*others)) for judged, others in comparisons])

    assert len(set(lists.sequences)) == len(lists.sequences)
    read = [
        [lists.sequences[place] for place in lists.places[start:end]]
        for start, end in zip(lists.cuts[:-1], lists.cuts[1:], strict=True)
    ]
    assert read == [each for comparison in comparisons for each in comparison]
