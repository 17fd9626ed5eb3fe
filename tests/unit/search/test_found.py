"""What was found, as columns and as objects: the same sequences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.search.beam import find
from bidibeam.search.found import Columns
from bidibeam.search.settings import SearchSettings
from tests.unit.search.tables import (
    ROLES,
    TableScorer,
    random_rows,
    rows_of,
    search,
    source_batch,
    texts,
    uniform_rows,
)
from tests.unit.search.test_oracles import VALUES, search_settings


@settings(max_examples=60, deadline=None)
@given(search_settings(), st.integers(0, 5), st.integers(0, 10**6))
def test_columns_hold_what_the_sequences_hold(how: SearchSettings, count: int, seed: int) -> None:
    scorer, sources = TableScorer(random_rows(seed, 6, VALUES)), source_batch(range(count)).view(-1, 1)

    found = find(scorer, sources, how, ROLES)
    columns, lines = found.columns(), found.sequences()

    flat = [sequence for line in lines for sequence in line]
    assert len(columns) == len(flat)
    assert np.diff(columns.ends, prepend=0).tolist() == [len(line) for line in lines]
    assert columns.tokens() == [sequence.tokens for sequence in flat]
    assert columns.tokens(backwards=True) == [sequence.tokens[::-1] for sequence in flat]
    for name in ("log_prob", "length", "score"):
        assert getattr(columns, f"{name}s").tolist() == [getattr(sequence, name) for sequence in flat]
    assert columns.finished.tolist() == [sequence.finished for sequence in flat]
    assert [sequence.end for sequence in flat] == [ROLES.end if one.finished else None for one in flat]
    assert {type(value) for sequence in flat for value in sequence} <= {tuple, float, int, bool, type(None)}


def found_columns(seed: int, how: SearchSettings, count: int) -> Columns:
    scorer = TableScorer(random_rows(seed, 6, VALUES))
    roles = replace(ROLES, other_ends=frozenset({3, 5}))
    return find(scorer, source_batch(range(count)).view(-1, 1), how, roles).columns()


@settings(max_examples=60, deadline=None)
@given(search_settings(), st.integers(0, 5), st.data(), st.integers(0, 10**6))
def test_a_range_of_sources_is_cut_out(
    how: SearchSettings, count: int, data: st.DataObject, seed: int
) -> None:
    columns = found_columns(seed, how, count)
    first, last = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))

    part = columns.of_sources(first, last)

    assert part.sequences() == columns.sequences()[first:last]
    assert part.tokens(backwards=True) == [tokens[::-1] for tokens in part.tokens()]


@settings(max_examples=60, deadline=None)
@given(search_settings(), st.integers(0, 5), st.data(), st.integers(0, 10**6))
def test_some_of_the_sequences_are_cut_out(
    how: SearchSettings, count: int, data: st.DataObject, seed: int
) -> None:
    columns = found_columns(seed, how, count)
    size = len(columns)
    is_kept = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool)

    fewer = columns.where(is_kept)

    kept = iter(is_kept.tolist())
    expected = [[sequence for sequence in line if next(kept)] for line in columns.sequences()]
    assert fewer.sequences() == expected
    assert fewer.tokens(backwards=True) == [found.tokens[::-1] for line in expected for found in line]


def test_columns_made_without_end_tokens_say_so() -> None:
    columns = found_columns(0, SearchSettings(4, 3), 3)

    parts = (replace(columns, end_tokens=None), replace(columns, end_tokens=None).of_sources(0, 2))

    for part in (*parts, parts[0].where(columns.finished)):
        assert len(part)
        assert {sequence.end for line in part.sequences() for sequence in line} == {None}


# With T = 2: "a." -1.5, "b." -1.6, and cut off "aa" -0.9.
TABLE = {"": {"a": -0.3, "b": -1.5}, "a": {".": -1.2, "a": -0.6}, "b": {".": -0.1}}


@pytest.mark.parametrize(
    ("unfinished", "expected"),
    [("keep", ["a.", "b.", "aa"]), ("rank", ["aa", "a.", "b."]), ("drop", ["a.", "b."])],
)
def test_those_cut_off_come_last_or_compete_or_are_left_out(unfinished: str, expected: list[str]) -> None:
    how = SearchSettings(3, 2, length_penalty=0.0, stopping="exhaust", unfinished=unfinished)

    (found,) = search(rows_of(TABLE), how)

    assert texts(found) == expected


def test_of_equal_scores_the_finished_one_ranks_first() -> None:
    how = SearchSettings(3, 2, length_penalty=0.0, stopping="exhaust", unfinished="rank")

    (found,) = search(uniform_rows({"": "a", "a": "a.b"}), how)

    assert len({sequence.score for sequence in found}) == 1
    assert texts(found) == ["a.", "aa", "ab"]
