"""The report as files: what is in it, that it needs nothing else, and what it refuses."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bidibeam.errors import InputError
from bidibeam.reporting.page import make_component
from bidibeam.reporting.report import inline_svg, keep_together, write_report
from bidibeam.reporting.results import read_results
from bidibeam.text import escape_markdown
from tests.unit.reporting.made_results import HOSTILE, made_evaluation, made_results
from tests.unit.reporting.reports import DRAWN, NBSP, TITLES, Report, markdown_tables, without

FIGURES = ("quality", "ranks", "positions", "penalty", "options")
FEW = ("vbs", "vbs-tuned", "bidia bleu_t", "oracle")


def test_an_experiment_has_every_section_and_every_figure(single: Report) -> None:
    assert tuple(single.sections) == TITLES
    assert re.findall(r"^## \d+\. (.*)$", single.markdown, flags=re.MULTILINE) == list(TITLES)
    assert sorted(path.name for path in single.folder.iterdir()) == ["figures", "report.html", "report.md"]
    names = [path.name for path in single.written.figures]
    assert names == [f"{name}.{suffix}" for name in FIGURES for suffix in ("svg", "png")]
    linked = re.findall(r"!\[[^\]]*\]\((.*?)\)", single.markdown)
    assert linked == [f"figures/{name}.svg" for name in FIGURES]
    for path in single.written.figures:
        content = path.read_bytes()
        if path.suffix == ".svg":
            assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
            sizes = [float(size) for size in re.findall(rb"font(?:-size)?: ([\d.]+)px", content)]
            assert min(sizes) >= 9
        else:
            assert content.startswith(b"\x89PNG\r\n")
            assert int.from_bytes(content[16:20], "big") <= 1200


@pytest.mark.parametrize("name", ["cornell", "swda", "chitchat", "cornell-overtrained"])
@pytest.mark.usefixtures("undrawn")
def test_every_number_of_our_results_is_reported_to_the_digit(name: str, tmp_path: Path) -> None:
    """One seed or three, with the paper's numbers and without."""
    folder = Path(__file__).parents[3] / "results" / name

    written = write_report(read_results(folder), tmp_path)

    assert written.document.read_text("utf-8") == (folder / "report.md").read_text("utf-8")


def test_the_page_needs_nothing_else_and_its_links_lead_somewhere(single: Report) -> None:
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(single.page.tags)
    assert re.findall(r"url\((?!#)[^)]*\)|@import", single.html) == []
    addresses = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\s\"'<>]+", single.html)) <= addresses
    assert len(single.html.encode()) < 3_000_000
    assert len(single.page.ids) == len(set(single.page.ids))
    references = set(re.findall(r"url\(#([^)]*)\)", single.html))
    assert references
    assert references | {link.removeprefix("#") for link in single.page.links} <= set(single.page.ids)


def test_text_of_the_corpus_is_escaped(single: Report) -> None:
    embedded, script = single.page.scripts
    assert "<" not in embedded
    assert json.loads(embedded)[0]["source"] == HOSTILE
    assert "alert" not in script
    label = "1. &lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; | *not bold* $x^2$"
    assert f"<option>{label}</option>" in single.html
    assert "<script>" not in single.markdown
    assert r"&lt;script>alert('x')&lt;/script> &amp; \| \*not bold\* \$x^2\$" in single.markdown
    assert HOSTILE in single.results["seeds"][0]["analyses"]["examples"]["examples"][0]["source"]


def test_a_hostile_system_is_text_in_tables_and_figures(tmp_path: Path) -> None:
    name = "_<script>$x$"
    results = without(made_results(systems=("vbs", name)), *DRAWN)
    results["corpus"] = "a\x1b[0;title\x07\u202eb\ud800"
    report = Report(results, tmp_path)

    assert "<h1>bidibeam on a[0;titleb" in report.html
    assert r"# bidibeam on a\[0;titleb" in report.markdown
    assert len(report.page.scripts) == 2
    assert "<script>$x$" not in report.html
    figure = (tmp_path / "figures" / "quality.svg").read_bytes()
    texts = ElementTree.fromstring(figure).iter("{http://www.w3.org/2000/svg}text")
    assert name in [(text.text or "").strip() for text in texts]


def test_the_document_has_the_tables_of_the_page_and_folds_the_same(single: Report) -> None:
    document = markdown_tables(single.markdown)

    for caption, rows in single.tables.items():
        plain = [
            [re.sub(r"\\(.)", r"\1", cell) for cell in row] for row in document[escape_markdown(caption)]
        ]
        shown = [[cell.replace("(paper ", "paper ").rstrip(")") for cell in row] for row in plain]
        page = [[cell.replace("&", "&amp;").replace("<", "&lt;").rstrip(")") for cell in row] for row in rows]
        assert shown == page, caption
    plain_page = re.sub(r"<template.*?</template>", "", single.html, flags=re.DOTALL)
    folded = [html.unescape(one) for one in re.findall(r"<summary>(.*?)</summary>", plain_page)]
    assert {"Paired tests", "All settings", "Signatures"} <= set(folded)
    whole = r"^<details><summary>([^\n]*)</summary>\n\n\|.*?\n\n</details>$"  # empty lines make it a table
    assert re.findall(whole, single.markdown, flags=re.MULTILINE | re.DOTALL) == folded


def test_examples_are_explained_by_the_component_of_the_page(single: Report) -> None:
    examples = single.results["seeds"][0]["analyses"]["examples"]["examples"]
    documents = json.loads(single.page.scripts[0])

    assert len(documents) == single.page.tags.count("option") == len(examples)
    assert single.html.count('<button type="button" data-step=') == 2
    component = make_component("report.js", "report.css")
    assert component.parts in single.html
    assert f"<style>{component.style}</style>" in single.html
    assert f"<script>{component.script}</script>" in single.html
    assert f"script-src {component.script_source};" in single.html
    for known, example in zip(documents, examples, strict=True):
        for side in ("regular", "reverse"):
            assert [each["text"] for each in known[side]] == example[side]
        assert known["similarity"]["matrix"] == example["matrix"]
        own = next(each for each in known["choices"] if each["system"] == known["system"] == "bidia bleu_t")
        assert [own["rank"] - 1, own["partner"] - 1] == known["pair"] == example["pair"]
        assert {each["system"]: each["text"] for each in known["choices"]} == example["replies"]
        for each in known["choices"]:
            if each["direction"]:
                assert known[each["direction"]][each["rank"] - 1]["text"] == each["text"]
    assert single.markdown.count("| reference |") == 5
    assert "report.html has all" in single.markdown


def test_examples_of_which_little_is_known_are_shown_as_far_as_they_go(tmp_path: Path) -> None:
    example = {"source": "hi", "reference": "ho", "replies": {"vbs": "ho"}}
    damaged = {**example, "regular": ["ho", "he"], "reverse": ["ha"], "pair": [9, 0]}
    damaged["matrix"] = [[None, 3], ["x"], [1]]

    few = Report({"analyses": {"examples": {"examples": [example, example, damaged]}}}, tmp_path)

    assert few.markdown.count("| reference |") == 3
    assert "report.html" not in few.markdown
    known, _, mended = json.loads(few.page.scripts[0])
    assert known["regular"] == known["similarity"]["matrix"] == []
    assert known["system"] is known["pair"] is mended["pair"] is None
    assert mended["similarity"]["matrix"] == [[0.0], [0.0]]
    place = {"direction": "regular", "rank": 1, "partner": None}
    assert mended["choices"] == [{"system": "vbs", "text": "ho", **place}]


def test_a_report_without_examples_has_no_script(tmp_path: Path) -> None:
    report = Report(without(made_results(systems=FEW), "examples", *DRAWN), tmp_path)

    assert report.page.scripts == []
    assert ".explanation" not in report.html


def test_examples_know_tokens_and_scores_where_results_do(tmp_path: Path) -> None:
    example = {
        "source": "hi",
        "replies": {"bidia bleu_t": "Ho!"},
        "regular": ["Ho!"],
        "reverse": ["ho"],
        "tokens": {"regular": [["ho", "!"]], "reverse": [["ho"]]},
        "scores": {"regular": [-1.5], "reverse": [None]},
        "finished": {"regular": [True], "reverse": [False]},
        "similarity": "bleu_t",
        "matrix": [[0.5]],
        "pair": [0, 0],
    }

    report = Report({"analyses": {"examples": {"examples": [example]}}}, tmp_path)

    (known,) = json.loads(report.page.scripts[0])

    assert known["regular"] == [{"text": "Ho!", "score": -1.5, "tokens": ["ho", "!"], "finished": True}]
    assert known["reverse"] == [{"text": "ho", "score": None, "tokens": ["ho"], "finished": False}]
    assert known["similarity"]["order"] == 4


@pytest.mark.usefixtures("undrawn")
def test_sections_of_several_files_name_their_file(tmp_path: Path) -> None:
    results = without(made_results(systems=FEW), *DRAWN)
    analyses = {"ranks": made_results()["seeds"][0]["analyses"]["ranks"]}
    results["seeds"][0]["analyses"] = analyses
    evaluation = {**made_evaluation(results), "sources": 7}
    left_out = {"analyses": {"cost": "No model."}}
    files = {
        "results.json": results,
        "evaluation.json": evaluation,
        "analyses.json": {"analyses": analyses, "left_out": left_out},
    }

    written = write_report(files, tmp_path)

    document = written.document.read_text(encoding="utf-8")
    both = ["results.json", "evaluation.json", "analyses.json"]
    assert re.findall(r"^## \d+\. (.*)$", document, flags=re.MULTILINE) == [
        *(f"Summary ({file})" for file in both[:2]),
        *(f"{title} (results.json)" for title in TITLES[1:4]),
        *(f"{TITLES[4]} ({file})" for file in both[::2]),
        *(f"{TITLES[9]} ({file})" for file in both),
    ]
    assert document.startswith("# bidibeam on cornell\n\n**results.json**\n\n- **What won**: ")
    glances = dict(
        re.findall(r"^\*\*(\w+\.json)\*\*\n\n- \*\*What won\*\*: (\w+)", document, flags=re.MULTILINE)
    )
    assert glances == {"results.json": "bidia", "evaluation.json": "bidia", "analyses.json": "Nothing"}
    assert "| test sources answered | 7 |" in document
    names = [path.name for path in written.figures if path.suffix == ".svg"]
    assert names == ["quality-results.svg", "ranks-results.svg", "ranks-analyses.svg"]
    ids = re.findall(r'\bid="([^"]*)"', written.page.read_text(encoding="utf-8"))
    assert len(ids) == len(set(ids))


def test_the_same_results_give_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    results = without(made_results(seeds=2, systems=FEW), *DRAWN)  # one figure is enough
    once = Report(results, tmp_path / "once")
    (tmp_path / "results.json").write_text(json.dumps(results), encoding="utf-8")
    code = (
        "import pathlib, sys; from bidibeam.reporting.report import write_report;"
        "from bidibeam.reporting.results import read_results; here = pathlib.Path(sys.argv[1]);"
        "write_report(read_results(here), here / 'again')"
    )

    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"})

    def files(folder: Path) -> dict[str, bytes]:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}

    assert files(tmp_path / "again") == files(once.folder)


def damaged(path: str, value: object) -> dict[str, Any]:
    """Results with hardly a figure and with another value at a place."""
    results = without(made_results(), "headroom", "sensitivity")
    place: Any = results
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        place = place[step]
    place[last] = value
    return results


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ({"seeds": "all"}, "`seeds` must be a list of objects"),
        (damaged("seeds.0.analyses.ranks.systems.oracle", {}), "section 'ranks' cannot be made: .*'counts'"),
        (damaged("seeds.0.analyses.ranks.systems.oracle", 3), "section 'ranks' cannot be made"),
        (damaged("seeds.0.systems.vbs", ["x"]), "section 'summary' cannot be made"),
        (damaged("positions.from.left.0.counts", ["many"]), "figure 'positions' cannot be made"),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_damaged_results_are_refused_in_a_sentence(
    results: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=reason):
        write_report({"results.json": results}, tmp_path / "report")

    assert list(tmp_path.iterdir()) == []


def test_text_is_shown_unchanged_and_unbroken_and_figures_share_no_id() -> None:
    shown = {
        "a | b\nc": r"a \| b c",
        "*a* `b` [c](javascript:d)": r"\*a\* \`b\` \[c\](javascript:d)",
        r"$\frac$": r"\$\\frac\$",
        "bidia bleu_t _a_": r"bidia bleu_t \_a\_",
        "<b> & c": "&lt;b> &amp; c",
        "- a": r"\- a",
        "-0.5": "-0.5",
        "1. a": r"1\. a",
        "0.50": "0.50",
        "# a": r"\# a",
    }
    assert {text: escape_markdown(text) for text in shown} == shown
    text = f"at N_B{NBSP}={NBSP}50, T{NBSP}={NBSP}20, x = 3 and 30{NBSP}% of it"
    assert keep_together(text.replace(NBSP, " ")) == text
    svg = (
        '<?xml version="1.0"?><!DOCTYPE svg><svg><metadata>http://x</metadata>'
        '<g id="a"/><use xlink:href="#a"/><p clip-path="url(#a)"/></svg>'
    )
    inlined = '<svg><g id="f-a"/><use xlink:href="#f-a"/><p clip-path="url(#f-a)"/></svg>'
    assert inline_svg(svg, "f") == inlined
