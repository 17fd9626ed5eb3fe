"""Flat text: what mbrs itself wrote is read, and what we write has mbrs' shape."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange.formats.mbrs import Mbrs
from tests.unit.interchange.formats import lists as made
from tests.unit.interchange.formats.lists import FILES, listed, read, refusal, write_refusal, written


@pytest.mark.parametrize("name", ["mbrs-generate.txt", "mbrs-decode.txt"])
def test_what_mbrs_wrote_is_read_and_written_back_byte_for_byte(name: str) -> None:
    content = (FILES / name).read_text()

    numbers, beams = zip(*Mbrs(per_source=4).read_numbered(FILES / name), strict=True)

    assert [(each.id, len(each.regular)) for each in beams] == [("1", 4), ("2", 4), ("3", 4)]
    assert [found.text for each in beams for found in each.regular] == content.splitlines()
    assert numbers == (1, 5, 9)
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


def test_what_cannot_be_read_is_told() -> None:
    assert refusal(Mbrs(), "a\n") == (
        "in: flat text does not say how many hypotheses a source has. Say it by per_source."
    )
    assert refusal(Mbrs(per_source=3), "a\nb\nc\nd\n") == (
        "in has 4 lines, which is not a multiple of per_source, 3."
    )
    with pytest.raises(Exception, match=r"^per_source must be at least 1, not 0\.$"):
        Mbrs(per_source=0)


def test_every_source_must_have_the_same_number() -> None:
    end = "in mbrs' flat text every source has the same number of lines."
    two = listed("a", "x", "y")
    for format_, beams, told in (
        (Mbrs(), (two, listed("b", "z")), "Source 'b' has 1 regular hypotheses, but source 'a' has 2"),
        (Mbrs(per_source=3), (two,), "Source 'a' has 2 regular hypotheses, but per_source says 3"),
        (Mbrs(), (Beams("a", ""),), "Source 'a' has 0 regular hypotheses, but source 'a' has at least 1"),
    ):
        assert write_refusal(format_, *beams) == f"{told}; {end}"
    only_reverse = Beams("a", "", reverse=two.regular)
    assert write_refusal(Mbrs(), only_reverse).startswith("Source 'a' has reverse hypotheses only")
