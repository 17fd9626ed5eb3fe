"""Where `bidibeam report` writes, and what it never writes over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bidibeam.reporting.report import read_sources, write_report
from tests.unit.cli.calls import called, refused
from tests.unit.reporting.made_results import made_evaluation

WAY_OUT = "and would be overwritten. Name another folder with --out, or remove it."


def scores(path: Path, name: str = "a") -> Path:
    """What `evaluate --out` wrote, of a system with a name to tell it by."""
    content: dict[str, Any] = {"format_version": 1, **made_evaluation()}
    content["systems"] = {f"system {name}": next(iter(content["systems"].values()))}
    content["tests"] = []
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_files_in_one_folder_have_reports_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        call = called("report", scores(tmp_path / f"{name}.json", name))
        assert (call.status, call.out) == (0, "")
        assert f"Wrote {tmp_path / f'{name}-report' / 'report.html'} and " in call.told

    for name, other in (("a", "b"), ("b", "a")):
        page = (tmp_path / f"{name}-report" / "report.html").read_text()
        assert f"system {name}" in page
        assert f"system {other}" not in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-report", "a.json", "b-report", "b.json"]


def test_a_file_without_an_ending_has_one_too(tmp_path: Path) -> None:
    assert called("report", scores(tmp_path / "scores")).status == 0

    assert (tmp_path / "scores-report" / "report.md").is_file()


def test_the_report_of_another_file_is_not_overwritten(tmp_path: Path) -> None:
    first, second, out = (
        scores(tmp_path / "a.json"),
        scores(tmp_path / "deep" / "a.json", "b"),
        tmp_path / "out",
    )
    assert called("report", first, "--out", out).status == 0
    before = {path: path.read_bytes() for path in out.iterdir()}

    assert (
        refused("report", second, "--out", out) == f"{out / 'report.html'} was made from {first}, {WAY_OUT}"
    )

    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_a_report_of_the_same_file_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = scores(tmp_path / "a & b.json")
    assert called("report", path).status == 0
    scores(path, "changed")
    monkeypatch.chdir(tmp_path)  # the same file by another path

    assert called("report", "a & b.json").status == 0

    folder = tmp_path / "a & b-report"
    assert read_sources(folder) == ["../a & b.json"]
    assert "system changed" in (folder / "report.html").read_text()


def test_a_folder_is_reported_again_when_it_holds_more(tmp_path: Path) -> None:
    scores(tmp_path / "evaluation.json")
    assert called("report", tmp_path).status == 0
    assert read_sources(tmp_path) == ["evaluation.json"]
    scores(tmp_path / "results.json", "b")

    assert called("report", tmp_path).status == 0

    assert read_sources(tmp_path) == ["results.json", "evaluation.json"]
    elsewhere = scores(tmp_path / "other" / "c.json")
    told = f"made from {tmp_path / 'results.json'} and {tmp_path / 'evaluation.json'}, {WAY_OUT}"
    assert refused("report", elsewhere, "--out", tmp_path) == f"{tmp_path / 'report.html'} was {told}"


def test_a_report_that_does_not_say_belongs_to_the_results_beside_it(tmp_path: Path) -> None:
    """Those of earlier versions."""
    scores(tmp_path / "results.json")
    other = scores(tmp_path / "other.json", "b")
    (tmp_path / "report.html").write_text("<title>bidibeam</title>")

    said = refused("report", other, "--out", tmp_path)
    assert said.endswith(WAY_OUT)
    assert called("report", tmp_path).status == 0
    assert read_sources(tmp_path) == ["results.json"]


def test_a_report_names_its_files_by_their_place_and_not_by_whose_they_are(tmp_path: Path) -> None:
    write_report({"format_version": 1, **made_evaluation()}, tmp_path / "run")
    assert read_sources(tmp_path / "run") == ["results.json"]
    assert read_sources(tmp_path) is None

    assert called("report", scores(tmp_path / "x" / "a.json"), "--out", tmp_path / "y" / "z").status == 0

    assert read_sources(tmp_path / "y" / "z") == ["../../x/a.json"]
    assert str(tmp_path) not in (tmp_path / "y" / "z" / "report.html").read_text()
