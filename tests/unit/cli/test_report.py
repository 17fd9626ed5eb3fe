"""`bidibeam report`: which results, and where the report goes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bidibeam import figures
from bidibeam.interchange import nbest
from bidibeam.reporting.report import read_report_sources, write_report
from tests.unit.cli.calls import called, refused
from tests.unit.evaluation.evidences import random_beams
from tests.unit.reporting.made_results import made_analyses, made_evaluation, made_results

WAY_OUT = "and would be overwritten. Name another folder with --out, or remove it."


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def write_small(path: Path) -> Path:
    """Results of an experiment with one figure."""
    results = made_results(systems=("vbs", "vbs-tuned"))
    del results["positions"], results["seeds"][0]["analyses"]
    return write(path, results)


def write_scores(path: Path, name: str = "a") -> Path:
    """What `evaluate --out` wrote, of a system with a name to tell it by."""
    content: dict[str, Any] = {"format_version": 1, **made_evaluation(), "tests": []}
    content["systems"] = {f"system {name}": next(iter(content["systems"].values()))}
    return write(path, content)


def write_diversity(path: Path) -> Path:
    """What `analyse --analysis diversity` wrote."""
    analyses = {"diversity": made_analyses()["analyses"]["diversity"]}
    return write(path, {"format_version": 1, "analyses": analyses})


def test_the_report_of_a_folder_lies_beside_its_results(tmp_path: Path) -> None:
    write_small(tmp_path / "results.json")

    call = called("report", tmp_path)

    assert (call.status, call.out) == (0, "")
    assert call.told == (
        f"Wrote {tmp_path / 'report.html'} and {tmp_path / 'report.md'}. "
        f"1 figure, as SVG and PNG, is in {tmp_path / 'figures'}."
    )
    names = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert names == ["quality.png", "quality.svg", "report.html", "report.md", "results.json"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "{path} is not JSON: Expecting value: line 1 column 1 (char 0)."),
        ("{", "{path} is not JSON: Expecting property name"),
        ([1], "{path} holds no results: an object is needed, not list."),
        ({"format_version": 3}, "These results have format_version 3, and this bidibeam reads 1."),
        ({"a": 1}, "There is nothing to report: these results have no systems and no analyses."),
    ],
)
def test_results_that_cannot_be_used_are_refused(content: object, told: str, tmp_path: Path) -> None:
    path = write(tmp_path / "results.json", content)

    assert refused("report", path).startswith(told.format(path=path))

    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


def test_a_folder_without_results_is_said_to_have_none(tmp_path: Path) -> None:
    write(tmp_path / "scores.json", made_evaluation())

    assert refused("report", tmp_path) == (
        f"{tmp_path} has no results.json, evaluation.json or analyses.json. "
        "Give what `bidibeam reproduce`, `evaluate` or `analyse` wrote."
    )


def test_the_folder_that_analyse_wrote_is_reported(tmp_path: Path) -> None:
    """The chain of the README, on lists from elsewhere."""
    lists, folder = tmp_path / "beams.jsonl", tmp_path / "analysis"
    nbest.write(random_beams(8, regular=4, reverse=4, seed=3), lists)
    assert called("analyse", lists, "--out", folder).status == 0

    call = called("report", folder)

    assert call.status == 0, call.err
    document = (folder / "report.md").read_text(encoding="utf-8")
    assert "Diversity of the replies" in document
    assert "| system | bidia wmd_t | " in document  # it had no word vectors
    assert "{'" not in document


def test_a_folder_with_several_files_is_reported_in_one(tmp_path: Path) -> None:
    write(tmp_path / "evaluation.json", {"format_version": 1, **made_evaluation()})
    write_diversity(tmp_path / "analyses.json")

    assert called("report", tmp_path).status == 0

    titles = re.findall(r"^## (.*)$", (tmp_path / "report.md").read_text(), flags=re.MULTILINE)
    assert titles == [
        "1. Summary (evaluation.json)",
        "2. Diversity of the replies (analyses.json)",
        "3. How the numbers were made (evaluation.json)",
    ]


def test_without_matplotlib_the_way_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda _: None)

    said = refused("report", write_small(tmp_path / "results.json"))

    assert said.endswith("matplotlib is not installed: pip install 'bidibeam[plots]'.")
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


def test_files_in_one_folder_have_reports_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        call = called("report", write_scores(tmp_path / f"{name}.json", name))
        assert (call.status, call.out) == (0, "")
        assert f"Wrote {tmp_path / f'{name}-report' / 'report.html'} and " in call.told
        assert "figure" not in call.told

    for name, other in (("a", "b"), ("b", "a")):
        page = (tmp_path / f"{name}-report" / "report.html").read_text()
        assert f"system {name}" in page
        assert f"system {other}" not in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-report", "a.json", "b-report", "b.json"]


def test_the_report_of_another_file_is_not_overwritten(tmp_path: Path) -> None:
    first, second = write_scores(tmp_path / "a.json"), write_scores(tmp_path / "deep" / "a.json", "b")
    out = tmp_path / "out"
    assert called("report", first, "--out", out).status == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "deep", "out"]
    before = {path: path.read_bytes() for path in out.iterdir()}

    said = refused("report", second, "--out", out)

    assert said == f"{out / 'report.html'} was made from {first}, {WAY_OUT}"
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_a_report_of_the_same_file_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_scores(tmp_path / "a & b.json")
    assert called("report", path).status == 0
    write_scores(path, "changed")
    monkeypatch.chdir(tmp_path)  # the same file by another path

    assert called("report", "a & b.json").status == 0

    folder = tmp_path / "a & b-report"
    assert read_report_sources(folder) == ["../a & b.json"]
    assert "system changed" in (folder / "report.html").read_text()


def test_figures_of_an_earlier_report_go_and_those_of_others_stay(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    write_small(tmp_path / "results.json")
    write_diversity(tmp_path / "analyses.json")
    assert called("report", tmp_path).status == 0
    before = {path.name for path in folder.iterdir()}
    write(folder / "mine.svg", "<svg></svg>")
    (tmp_path / "analyses.json").unlink()

    page = tmp_path / "report.html"  # which says of both that it was made from them
    page.write_text(page.read_text().replace('<meta name="bidibeam-results" content="analyses.json">', ""))
    assert called("report", tmp_path).status == 0

    after = {path.name for path in folder.iterdir()}
    assert {"quality.svg", "quality.png", "mine.svg"} == after
    assert before - after


def test_a_folder_is_reported_again_when_it_holds_more(tmp_path: Path) -> None:
    write_scores(tmp_path / "evaluation.json")
    assert called("report", tmp_path).status == 0
    assert read_report_sources(tmp_path) == ["evaluation.json"]
    write_scores(tmp_path / "results.json", "b")

    assert called("report", tmp_path).status == 0

    assert read_report_sources(tmp_path) == ["results.json", "evaluation.json"]
    elsewhere = write_scores(tmp_path / "other" / "c.json")
    told = f"made from {tmp_path / 'results.json'} and {tmp_path / 'evaluation.json'}, {WAY_OUT}"
    assert refused("report", elsewhere, "--out", tmp_path) == f"{tmp_path / 'report.html'} was {told}"


def test_a_report_that_does_not_say_belongs_to_the_results_beside_it(tmp_path: Path) -> None:
    """Those of earlier versions."""
    write_scores(tmp_path / "results.json")
    other = write_scores(tmp_path / "other.json", "b")
    (tmp_path / "report.html").write_text("<title>bidibeam</title>")

    assert refused("report", other, "--out", tmp_path).endswith(WAY_OUT)
    assert called("report", tmp_path).status == 0
    assert read_report_sources(tmp_path) == ["results.json"]


def test_a_report_names_its_files_by_their_place_and_not_by_whose_they_are(tmp_path: Path) -> None:
    write_report({"results.json": {"format_version": 1, **made_evaluation()}}, tmp_path / "run")
    assert read_report_sources(tmp_path / "run") == ["results.json"]
    assert read_report_sources(tmp_path) is None
    out = tmp_path / "y" / "z"

    assert called("report", write_scores(tmp_path / "x" / "a.json"), "--out", out).status == 0

    assert read_report_sources(out) == ["../../x/a.json"]
    assert str(tmp_path) not in (out / "report.html").read_text()


@pytest.mark.usefixtures("undrawn")
def test_a_report_may_judge_by_another_metric_of_the_results(tmp_path: Path) -> None:
    results = write_small(tmp_path / "results.json")

    assert called("report", results, "--metric", "chrf", "--out", tmp_path / "by-chrf").status == 0

    assert "| system | chrF | BLEU |" in (tmp_path / "by-chrf" / "report.md").read_text()
    own = "bidibeam.metrics.surface:Chrf"  # as it may have been named where the results were computed
    assert called("report", results, "--metric", own, "--out", tmp_path / "by-own").status == 0
    assert "| system | chrF | BLEU |" in (tmp_path / "by-own" / "report.md").read_text()
    said = refused("report", results, "--metric", "wer", "--out", tmp_path / "by-wer")
    assert said.startswith("The results have no 'wer'. They have: bleu, ")
