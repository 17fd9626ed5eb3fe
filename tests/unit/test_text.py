"""Many texts in one buffer are a sequence as a list of them is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.text import PackedGroups, PackedTexts

TEXTS = st.lists(st.text(st.characters(codec=None)))  # halves of surrogate pairs too


@given(TEXTS, st.slices(10))
def test_packed_texts_are_what_a_list_is(texts: list[str], part: slice) -> None:
    packed = PackedTexts(iter(texts))

    assert (len(packed), [*packed]) == (len(texts), texts)
    assert packed == texts
    assert packed[part] == texts[part] == [*packed[part]]
    for place in range(-len(texts), len(texts)):
        assert packed[place] == texts[place]
    for place in (len(texts), -len(texts) - 1):
        with pytest.raises(IndexError):
            packed[place]


@given(TEXTS, TEXTS)
def test_packed_texts_are_equal_where_lists_are(some: list[str], others: list[str]) -> None:
    assert (PackedTexts(some) == PackedTexts(others)) == (PackedTexts(some) == others) == (some == others)
    assert PackedTexts(some) != tuple(some)


@given(st.lists(TEXTS.map(tuple)), st.slices(10))
def test_packed_groups_are_what_a_list_of_tuples_is(groups: list[tuple[str, ...]], part: slice) -> None:
    packed = PackedGroups(iter(groups))

    assert (len(packed), [*packed], [*packed[part]]) == (len(groups), groups, groups[part])
    assert packed == groups
    assert packed == PackedGroups(groups)
    assert packed != [*groups, ()]
    assert packed != PackedGroups([*groups, ("",)])
    with pytest.raises(IndexError):
        packed[len(groups)]
