"""`bidibeam evaluate` in narrow terminals, and the tests that were not asked for."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from bidibeam.cli import console as consoles
from bidibeam.reporting.tables import NumbersTable
from tests.unit.cli.calls import called, refused, write_lines

REFERENCES = ["See you at noon then.", "I do not know.", "No, not now.", "Yes, at home."]
GOOD = ["See you at noon!", "I do not know.", "No.", "Yes, at home."]
POOR = ["I know.", "I do not know you.", "", "At work."]
FEW = ("--samples", "40", "--trials", "60")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?")


@pytest.fixture
def files(tmp_path: Path) -> tuple[object, ...]:
    """Two systems, one with a long name, and the references."""
    good, poor = write_lines(tmp_path / "good.txt", *GOOD), write_lines(tmp_path / "poor.txt", *POOR)
    references = write_lines(tmp_path / "references.txt", *REFERENCES)
    return (good, f"reverse-vbs of an_earlier_experiment={poor}", "--references", references, *FEW)


@pytest.fixture
def width(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    columns: int = request.param
    monkeypatch.setattr(consoles.console, "_width", columns)
    return columns


@pytest.mark.parametrize("width", [200, 80, 60, 40], indirect=True)
def test_every_number_is_shown_whole_at_any_width(
    width: int, files: tuple[object, ...], tmp_path: Path
) -> None:
    call = called("evaluate", *files, "--out", tmp_path / "out.json")

    assert call.status == 0
    assert "…" not in call.err
    tables = call.err.partition("Note: ")[0]
    assert all(len(line) <= width for line in tables.splitlines())
    found = json.loads((tmp_path / "out.json").read_text())
    wanted = [
        f"{value:.4g}"
        for system in found["systems"].values()
        for score in system["scores"].values()
        for key, value in score.items()
        if key != "signature"
    ]
    (test,) = found["tests"]
    wanted += [f"{test[key]:.4g}" for key in ("difference", "low", "high")]
    wanted += [f"{test[key]:.2g}" for key in ("paired_bootstrap", "approximate_randomisation")]
    for number in wanted:
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.])", tables), number
    scores = tables.partition("BLEU beside")[0]
    blocks = re.findall(r"^ ?good +(.*?)\s*$", scores, flags=re.MULTILINE)
    assert len(" ".join(blocks).split()) == 8  # every measure once
    assert (len(blocks) == 1) == (width >= 80)


def test_what_belongs_together_stays_together_while_it_can() -> None:
    table = NumbersTable(
        "Title",
        [["one", "two"], ["three", "four", "five"]],
        [("name", ["1.234"] * 5), ("other", ["-9.5"] * 5)],
    )

    def lines(width: int) -> list[list[str]]:
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(table)
        return [line.split() for line in console.export_text().splitlines() if line.strip(" ─")]

    assert lines(60)[1] == ["one", "two", "three", "four", "five"]
    assert [line for line in lines(38) if line[0] in ("one", "three")] == [
        ["one", "two"],
        ["three", "four", "five"],
    ]
    narrow = [line for line in lines(18) if line[0] in ("one", "two", "three", "four", "five")]
    assert narrow == [["one"], ["two"], ["three"], ["four"], ["five"]]


def test_without_bleu_nothing_is_tested_and_a_note_says_why(
    files: tuple[object, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out.json"

    call = called("evaluate", *files, "--metric", "chrf", "--metric", "length_ratio", "--out", out)

    assert call.status == 0
    found = json.loads(out.read_text())
    assert found["tests"] == []
    assert [list(system["scores"]) for system in found["systems"].values()] == [["chrf", "length_ratio"]] * 2
    assert "BLEU beside" not in call.told
    assert (
        "Note: tests are made on BLEU, which was not asked for, so there is none; add --metric bleu."
        in call.told
    )
    tested = called("evaluate", *files, "--metric", "chrf", "--metric", "bleu", "--out", out)
    assert "BLEU beside that of good" in tested.told
    assert "Note: tests" not in tested.told
    assert len(json.loads(out.read_text())["tests"]) == 1


def test_a_baseline_without_bleu_is_a_contradiction(files: tuple[object, ...]) -> None:
    said = refused("evaluate", *files, "--metric", "chrf", "--baseline", "good")

    assert said == "--baseline is for tests, which are made on BLEU: add --metric bleu."
