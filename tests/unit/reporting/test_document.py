"""The report as Markdown: what is folded, and what it says of what only the page has."""

from __future__ import annotations

import copy
import html
import re
from pathlib import Path
from typing import Any

import pytest

from bidibeam.reporting.report import write_joint_report
from tests.unit.reporting.made_results import made_analyses, made_evaluation, made_results
from tests.unit.reporting.reports import DRAWN, Report, without

pytestmark = pytest.mark.usefixtures("undrawn")

FEW = ("vbs", "vbs-tuned", "bidia bleu_t", "oracle")
PICTURE = "The picture shows how alike"


def few(*drop: str) -> dict[str, Any]:
    return without(made_results(systems=FEW), *drop, *DRAWN)


def test_what_the_page_folds_the_document_folds(tmp_path: Path) -> None:
    report = Report(few(), tmp_path)

    folded = [html.unescape(one) for one in re.findall(r"<summary>(.*?)</summary>", report.html)]
    assert {"Paired tests", "All settings", "Signatures"} <= set(folded)
    whole = r"^<details><summary>([^\n]*)</summary>\n\n\|.*?\n\n</details>$"  # empty lines make it a table
    assert re.findall(whole, report.markdown, flags=re.MULTILINE | re.DOTALL) == folded
    assert not any(f"**{caption}**" in report.markdown for caption in folded)


def test_signatures_that_only_the_beam_size_tells_apart_are_one(tmp_path: Path) -> None:
    results = few()
    systems = results["seeds"][0]["systems"]
    for size, entry in systems["vbs-tuned"].items():
        reward = 1 if int(size) < 10 else 2 if int(size) < 50 else 3
        entry["signature"] = f"strategy:vbs-tuned|word_reward:{reward}|beam_size:{size}|model:x"

    report = Report(results, tmp_path)

    rows = [row for row in report.tables["Signatures"] if row[0].startswith("vbs-tuned")]
    assert rows == [
        ["vbs-tuned, N_B = 1, 2, 5 and 6", "strategy:vbs-tuned|word_reward:1|model:x"],
        ["vbs-tuned, N_B = 10, 20, 30 and 40", "strategy:vbs-tuned|word_reward:2|model:x"],
        ["vbs-tuned, N_B = 50", "strategy:vbs-tuned|word_reward:3|beam_size:50|model:x"],
    ]
    assert len([row for row in report.tables["Signatures"] if row[0].startswith("bidia")]) == 1


def test_only_the_page_speaks_of_pictures_and_bold_lists(tmp_path: Path) -> None:
    report = Report(few(), tmp_path)

    assert report.html.count(PICTURE) == 1
    assert PICTURE not in report.markdown
    assert "bold in the lists" not in report.markdown
    assert "The first 5 are here; report.html has all 20 and both beams of each." in report.markdown
    assert "The first 5 are here" not in report.html


def test_examples_that_are_all_there_are_not_said_to_be_elsewhere(tmp_path: Path) -> None:
    results = few()
    analysis = results["seeds"][0]["analyses"]["examples"]
    analysis["examples"] = [
        {key: value for key, value in one.items() if key not in ("matrix", "regular", "reverse")}
        for one in analysis["examples"][:3]
    ]

    report = Report(results, tmp_path)

    assert "These are the 3 sources" in report.words
    assert "report.html" not in report.markdown
    assert PICTURE not in report.html


def test_several_files_are_one_report_whose_sections_say_which_they_are_of(tmp_path: Path) -> None:
    results = few()
    analyses = {"ranks": made_analyses()["analyses"]["ranks"]}
    whole = copy.deepcopy(results)
    whole["seeds"][0]["analyses"] = copy.deepcopy(analyses)
    evaluation = made_evaluation(results)
    files = {
        "results.json": whole,
        "evaluation.json": {**evaluation, "sources": 7},
        "analyses.json": {"analyses": analyses, "left_out": {"analyses": {"cost": "No model."}}},
    }

    written = write_joint_report(files, tmp_path)

    document = written.document.read_text(encoding="utf-8")
    assert re.findall(r"^## \d+\. (.*)$", document, flags=re.MULTILINE) == [
        "Summary (results.json)",
        "Summary (evaluation.json)",
        "BLEU-4 against N_B (results.json)",
        "VBS, Best Hypothesis and the headroom between (results.json)",
        "One reply to every source (results.json)",
        "Rank of the reply in the beam (results.json)",
        "Rank of the reply in the beam (analyses.json)",
        "How the numbers were made (results.json)",
        "How the numbers were made (evaluation.json)",
        "How the numbers were made (analyses.json)",
    ]
    assert document.startswith("# bidibeam on cornell\n")
    assert "4 systems answered 7 sources." in document
    names = [path.name for path in written.figures if path.suffix == ".svg"]
    assert names == ["bleu-results.svg", "ranks-results.svg", "ranks-analyses.svg"]
    page = written.page.read_text(encoding="utf-8")
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
