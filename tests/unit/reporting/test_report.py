"""The report as files: what stands in it, and that it needs nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bidibeam.errors import InputError
from bidibeam.reporting import plots
from bidibeam.reporting.report import held, inline_svg, markdown, write_report
from tests.unit.reporting.made_results import HOSTILE, made_evaluation, made_results
from tests.unit.reporting.pages import markdown_tables
from tests.unit.reporting.reports import DRAWN, NBSP, TITLES, Report, without

FIGURES = ("bleu", "headroom", "ranks", "positions", "penalty", "options")


def test_a_whole_experiment_has_every_section_and_every_figure(single: Report) -> None:
    assert tuple(single.sections) == TITLES
    assert [path.name for path in single.written.figures] == [
        f"{name}.{form}" for name in FIGURES for form in ("svg", "png")
    ]
    assert sorted(path.name for path in single.folder.iterdir()) == ["figures", "report.html", "report.md"]
    assert re.findall(r"^## \d+\. (.*)$", single.markdown, flags=re.MULTILINE) == list(TITLES)


def test_every_figure_is_a_valid_file_that_the_document_links(single: Report) -> None:
    linked = re.findall(r"!\[[^\]]*\]\((.*?)\)", single.markdown)

    assert linked == [f"figures/{name}.svg" for name in FIGURES]
    for path in single.written.figures:
        content = path.read_bytes()
        if path.suffix == ".svg":
            assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
        else:
            assert content.startswith(b"\x89PNG\r\n")
            assert int.from_bytes(content[16:20], "big") <= 1200
    assert len(single.written.figures) == 2 * len(FIGURES)


def test_no_letter_in_a_figure_is_smaller_than_nine_points(single: Report) -> None:
    for path in single.written.figures:
        if path.suffix == ".svg":
            sizes = [float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", path.read_text())]
            assert sizes
            assert min(sizes) >= 9


def test_the_page_needs_nothing_else(single: Report) -> None:
    assert [link for link in single.page.links if not link.startswith("#")] == []
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(single.page.tags)
    assert re.findall(r"url\((?!#)[^)]*\)|@import", single.html) == []
    assert set(re.findall(r"https?://[^\s\"'<>]+", single.html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert len(single.html.encode()) < 3_000_000


def test_ids_are_unique_and_every_link_leads_to_one(single: Report) -> None:
    assert len(single.page.ids) == len(set(single.page.ids))
    assert {link.removeprefix("#") for link in single.page.links} <= set(single.page.ids)
    references = set(re.findall(r"url\(#([^)]*)\)", single.html))
    assert references
    assert references <= set(single.page.ids)


def test_text_of_the_corpus_is_shown_and_never_run(single: Report) -> None:
    assert len(single.page.scripts) == 1
    assert "alert" not in single.page.scripts[0]
    assert "<h3>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; | *not bold* $x^2$</h3>" in single.html
    assert "<script>" not in single.markdown
    assert r"&lt;script>alert('x')&lt;/script> &amp; \| \*not bold\* $x^2$" in single.markdown
    assert HOSTILE in single.results["seeds"][0]["analyses"]["examples"]["examples"][0]["source"]


def test_a_hostile_system_is_text_in_tables_and_figures(tmp_path: Path) -> None:
    name = "_<script>$x$"
    report = Report(without(made_results(systems=("vbs", name)), *DRAWN), tmp_path)

    assert len(report.page.scripts) == 1
    assert "<script>$x$" not in report.html
    (picture,) = (path for path in report.written.figures if path.name == "bleu.svg")
    texts = ElementTree.fromstring(picture.read_bytes()).iter("{http://www.w3.org/2000/svg}text")
    assert name in [(text.text or "").strip() for text in texts]


def test_the_document_has_the_same_tables_as_the_page(single: Report) -> None:
    document = markdown_tables(single.markdown)

    for caption, rows in single.tables.items():
        plain = [[re.sub(r"\\(.)", r"\1", cell) for cell in row] for row in document[markdown(caption)]]
        shown = [[cell.replace("(paper ", "paper ").rstrip(")") for cell in row] for row in plain]
        page = [[cell.replace("&", "&amp;").replace("<", "&lt;").rstrip(")") for cell in row] for row in rows]
        assert shown == page, caption


def test_examples_can_be_leafed_through_and_show_their_winning_pair(single: Report) -> None:
    examples = single.results["seeds"][0]["analyses"]["examples"]["examples"]
    articles = re.findall(r"<article>.*?</article>", single.html, flags=re.DOTALL)

    assert len(articles) == single.page.tags.count("option") == 20
    assert single.page.tags.count("button") == 2
    for article, example in zip(articles, examples, strict=True):
        assert article.count('<li class="winner">') == 2
        assert article.count("<li") == 50
        row, column = example["pair"]
        (x, y), *_ = re.findall(r'<rect x="(\d+)" y="(\d+)"', article)
        assert ((int(y) - 33) / 12, (int(x) - 33) / 12) == (row, column)
        assert article.count("h1v1h-1z") == 625
    assert single.markdown.count("| reference |") == 5
    assert "seed" not in single.html.partition("These are the 20 sources")[2].partition("</p>")[0]


def test_the_same_results_give_the_same_bytes_in_another_process(single: Report, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(single.results), encoding="utf-8")
    code = (
        "import json, pathlib, sys; from bidibeam.reporting.report import write_report;"
        "here = pathlib.Path(sys.argv[1]);"
        "write_report(json.loads((here / 'results.json').read_text()), here / 'again')"
    )

    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"})

    def files(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    assert files(tmp_path / "again") == files(single.folder)


def test_without_matplotlib_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda _: None)

    with pytest.raises(InputError, match=re.escape("pip install 'bidibeam[plots]'")):
        write_report(made_evaluation(), tmp_path / "report")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a | b\nc", r"a \| b c"),
        ("*a* `b` [c](d)", r"\*a\* \`b\` \[c\](d)"),
        ("bidia bleu_t _a_", r"bidia bleu_t \_a\_"),
        ("<b> & c", "&lt;b> &amp; c"),
        ("- a", r"\- a"),
        ("-0.5", "-0.5"),
        ("1. a", r"1\. a"),
        ("0.50", "0.50"),
        ("# a", r"\# a"),
    ],
)
def test_markdown_shows_text_as_it_is(text: str, shown: str) -> None:
    assert markdown(text) == shown


def test_neither_an_equation_nor_a_share_is_broken_between_lines() -> None:
    assert held("at N_B = 50, T = 20 and x = 3") == f"at N_B{NBSP}={NBSP}50, T{NBSP}={NBSP}20 and x = 3"
    assert held("30 % of it") == f"30{NBSP}% of it"


def test_an_inlined_figure_keeps_its_references_and_shares_no_id() -> None:
    svg = (
        '<?xml version="1.0"?><!DOCTYPE svg><svg><metadata>http://x</metadata>'
        '<g id="a"/><use xlink:href="#a"/><p clip-path="url(#a)"/></svg>'
    )

    assert inline_svg(svg, "f") == (
        '<svg><g id="f-a"/><use xlink:href="#f-a"/><p clip-path="url(#f-a)"/></svg>'
    )
