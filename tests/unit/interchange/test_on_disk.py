"""Ids and lists in temporary files: as a dict and a list have them, and an error where there is no room."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.hypotheses import Beams, NBest
from bidibeam.interchange.formats import make_hypothesis
from bidibeam.interchange.on_disk import IdsOnDisk, OnDisk

ANY_TEXT = st.text(st.characters(codec=None))  # halves of surrogate pairs too, which JSON can spell
IDS = st.lists(
    st.one_of(ANY_TEXT, st.integers(0, 20).map(str), st.sampled_from(["", "a", "A", "a\0", "\ud800"]))
)


def numbered(text: str, line: int) -> Beams:
    return Beams("id", text, ("r", text), NBest((make_hypothesis(text, log_prob=-0.1),)), line=line)


@given(IDS)
def test_ids_are_found_as_a_dict_finds_them(ids: list[str]) -> None:
    known, line_of = IdsOnDisk(), dict[str, int]()

    for line, id_ in enumerate(ids, start=1):
        expected = line_of.setdefault(id_, line)
        assert known.find_earlier(id_, line) == (None if expected == line else expected)


def test_ids_are_found_where_they_fill_more_than_memory_holds() -> None:
    known, ids = IdsOnDisk(), [f"{number:064x}" for number in range(60_000)]  # about 4 MB
    random.Random(0).shuffle(ids)

    assert all(known.find_earlier(id_, line) is None for line, id_ in enumerate(ids, start=1))
    assert [known.find_earlier(ids[line - 1], 99_999) for line in (1, 30_000, 60_000)] == [1, 30_000, 60_000]


@given(st.lists(ANY_TEXT))
def test_lists_are_given_back_in_order_and_as_often_as_asked_for(texts: list[str]) -> None:
    lists = [numbered(text, line) for line, text in enumerate(texts)]

    kept = OnDisk(iter(lists))

    assert (len(kept), [*kept], [*kept]) == (len(lists), lists, lists)
    assert [beams.line for beams in kept] == [beams.line for beams in lists]
    assert [*islice(kept, 1)] == lists[:1]
    assert [*zip(kept, kept, strict=True)] == [*zip(lists, lists, strict=True)]  # two at a time


def test_lists_are_sorted_by_the_places_they_are_given() -> None:
    kept = OnDisk[Beams]()
    for place in (7, 0, 999_999_999_999_999_999, 3):
        kept.add(numbered("a", place), place)

    assert [beams.line for beams in kept] == [0, 3, 7, 999_999_999_999_999_999]


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_an_error_of_the_system_that_names_the_way_out() -> None:
    long = "a" * 100_000
    lists = (numbered(f"{long} {line}", line) for line in range(100))
    with no_file_longer_than(100_000), pytest.raises(OSError, match=r"TMPDIR name a folder with more room"):
        OnDisk(lists)
