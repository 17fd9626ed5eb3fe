"""Flat text: what mbrs itself wrote is read, and what we write has mbrs' shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.hypotheses import Direction
from bidibeam.interchange.formats.mbrs import Mbrs
from tests.unit.interchange.formats import lists as made
from tests.unit.interchange.formats.lists import FILES, read, written


@pytest.mark.parametrize("name", ["mbrs-generate.txt", "mbrs-decode.txt"])
def test_what_mbrs_wrote_is_read_and_written_back_byte_for_byte(name: str) -> None:
    content = (FILES / name).read_text()

    beams = list(Mbrs(per_source=4).read(FILES / name))

    assert [(each.id, len(each.regular)) for each in beams] == [("1", 4), ("2", 4), ("3", 4)]
    assert [found.text for each in beams for found in each.regular] == content.splitlines()
    assert [each.line for each in beams] == [1, 5, 9]
    assert written(Mbrs(), beams) == content


def test_blank_lines_are_empty_hypotheses() -> None:
    first, second = read(Mbrs(per_source=2, direction=Direction.REVERSE), "a\n\n\n b \n")

    assert [found.text for found in (*first.reverse, *second.reverse)] == ["a", "", "", " b "]
    assert not first.regular


@given(st.data(), st.integers(1, 3))
def test_texts_are_read_back_but_for_line_breaks(data: st.DataObject, count: int) -> None:
    beams = data.draw(made.beams_of(made.hypotheses, min_size=count, max_size=count))

    again = read(Mbrs(per_source=count), written(Mbrs(per_source=count), beams))

    expected = [[made.line(found.text) for found in each.regular] for each in beams]
    assert [[found.text for found in each.regular] for each in again] == expected
    assert [each.id for each in again] == [str(number + 1) for number in range(len(beams))]
    assert all(found.score is found.log_prob is None for each in again for found in each.regular)
