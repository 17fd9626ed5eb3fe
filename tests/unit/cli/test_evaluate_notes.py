"""What `bidibeam evaluate` notes where somebody could be misled: tables, few sources, one of anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.calls import called, lines_of, refused, write_lines
from tests.unit.cli.evaluations import FEW, REFERENCES


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Sources and references, as `decode` reads them."""
    return write_lines(tmp_path / "t.tsv", *(f"source {at}\t{each}" for at, each in enumerate(REFERENCES)))


def test_a_table_of_references_is_read_as_decode_reads_it(
    texts: dict[str, Path], beams: Path, table: Path
) -> None:
    plain = called("evaluate", texts["good"], *FEW, "--references", texts["references"])

    assert called("evaluate", texts["good"], *FEW, "--references", table).err == plain.err
    converted = called("convert", beams, "--references", table)
    assert [json.loads(each)["reference"] for each in converted.out.splitlines()] == REFERENCES


def test_a_tab_in_plain_references_is_refused(texts: dict[str, Path], table: Path, tmp_path: Path) -> None:
    renamed = table.rename(tmp_path / "t.txt")

    assert refused("evaluate", texts["good"], "--references", renamed) == (
        f"{renamed}, line 1 holds a tab, so it may be more than a reference. Of a file whose name ends in "
        ".tsv the second column is read; otherwise give the references alone: cut -f2 takes them out of "
        "a table."
    )


def test_a_tab_in_a_reply_is_noted(texts: dict[str, Path], tmp_path: Path) -> None:
    odd = write_lines(tmp_path / "odd.txt", *REFERENCES[:3], "so?\tYes.")

    call = called("evaluate", odd, *FEW, "--references", texts["references"])

    assert call.status == 0
    assert f"Note: {odd}, line 4 holds a tab; the whole line counts as the reply." in call.told
    assert "holds a tab" not in called("evaluate", texts["good"], "--references", texts["references"]).told


def test_how_intervals_and_p_values_can_disagree_is_said_once_under_the_tests(
    texts: dict[str, Path],
) -> None:
    files = (texts["good"], texts["poor"], "--references", texts["references"])
    told = "They answer different questions"

    assert called("evaluate", *files, *FEW, "--baseline", "good", "--baseline", "poor").told.count(told) == 1
    assert told not in called("evaluate", texts["good"], *FEW, "--references", texts["references"]).told


def test_few_sources_are_noted(tmp_path: Path) -> None:
    def note_of(count: int) -> bool:
        many = write_lines(tmp_path / "many.txt", *("See you at noon." for _ in range(count)))
        call = called("evaluate", many, *FEW, "--references", many, "--metric", "bleu")
        assert call.status == 0
        return f"Note: {count} source" in call.told and "so few say little" in call.told

    assert note_of(99)
    assert note_of(1)
    assert not note_of(100)


def test_one_of_anything_is_said_in_the_singular(texts: dict[str, Path], beams: Path, tmp_path: Path) -> None:
    empty = write_lines(tmp_path / "empty.txt", "", *REFERENCES[1:])
    call = called("evaluate", texts["poor"], *FEW, "--references", empty)
    one = write_lines(tmp_path / "one.jsonl", *lines_of(beams)[:1])

    assert "Note: 1 of 4 replies of poor is empty; it scores as it is." in call.told
    assert "Note: 1 of 4 references is empty; it counts as it is, and no reply has a word" in call.told
    assert "Note: 1 of the sources has reverse hypotheses too," in called("convert", one, "--to", "mbrs").told
    single = write_lines(tmp_path / "single.txt", "Yes.")
    assert refused("evaluate", single, "--references", texts["references"]) == (
        f"{single} has 1 reply, but {texts['references']} has 4 references; line n of each must belong to "
        "the same source."
    )
