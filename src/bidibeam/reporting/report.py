"""Writes a report of results: one self-contained page, a Markdown document, and the figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from html import escape, unescape
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from bidibeam.errors import InputError
from bidibeam.figures import METADATA, save_figure, use_style
from bidibeam.files import replacing, write_text
from bidibeam.reporting.analyses import constant, cost, diversity, positions, ranks, sensitivity
from bidibeam.reporting.appendix import examples, provenance
from bidibeam.reporting.blocks import Examples, Picture, Section
from bidibeam.reporting.glance import make_glance
from bidibeam.reporting.page import Component, embed_json, make_component, read_sources
from bidibeam.reporting.plots import check_matplotlib
from bidibeam.reporting.quality import headroom, quality
from bidibeam.reporting.results import Results
from bidibeam.reporting.scores import summary
from bidibeam.reporting.terms import define_terms, read_section
from bidibeam.text import escape_markdown, printable

PAGE_FILE, DOCUMENT_FILE, FIGURES = "report.html", "report.md", "figures"
REPORT_FILES = (PAGE_FILE, DOCUMENT_FILE)
"""The files of every report; figures depend on the numbers."""
AT_TOP = ""
"""Stands for the glance where sections have names."""
LINK = re.compile(rf"^!\[.*\]\({FIGURES}/([^/()]+)\.svg\)$", re.MULTILINE)
"""How a document links one of its figures."""
SOURCE = re.compile(r'<meta name="bidibeam-results" content="([^"]*)">')

SECTIONS: tuple[Callable[[Results], Section | None], ...] = (
    summary,
    quality,
    headroom,
    constant,
    ranks,
    diversity,
    positions,
    cost,
    sensitivity,
    provenance,
    examples,
)
"""In the order of the report; each returns None if the results lack its numbers."""


class Written(NamedTuple):
    """The files of a report: the page, the Markdown document, and the figures as SVG and PNG."""

    page: Path
    document: Path
    figures: list[Path]


def write_report(
    files: Mapping[str, Mapping[str, Any]], folder: Path, sources: Sequence[str] | None = None
) -> Written:
    """Writes one report of files of results, of which each section names its own if there are several.

    Missing parts are left out; the same results give the same bytes. `files` holds by name what `bidibeam
    reproduce`, `evaluate` or `analyse` wrote, `sources` their paths relative to the folder if they are not in
    it. Raises InputError, and writes nothing, if there is nothing to report, the results are of another
    format or damaged, or matplotlib is not installed.
    """
    check_matplotlib()
    results = {name: Results.of(content) for name, content in files.items()}
    sections = make_sections(results)
    figures: dict[str, dict[str, bytes]] = {}
    with use_style():
        for block in (block for section in sections for block in section.blocks):
            if isinstance(block, Picture):
                with _blame_results(f"figure {block.name!r}"):
                    figures[block.name] = save_figure(block.draw())
    corpus = next((one.corpus for one in results.values() if one.corpus), "")
    last_step = next((one.last_step for one in results.values() if one.last_step), "")
    title = f"bidibeam on {corpus}" if corpus else "bidibeam results"
    title += f", {last_step}" if last_step else ""
    glances = []
    for name, one in results.items():
        with _blame_results("glance"):
            glances.append(make_glance(one, name if len(results) > 1 else ""))
    texts = {AT_TOP: "\n".join(chain(*(pair for one in glances for pair in one.answers.items())))}
    texts |= {section.name: read_section(section) for section in sections}
    values = {
        "title": title,
        "glances": glances,
        "terms": define_terms(texts),
        "at_top": AT_TOP,
        "sections": sections,
        "pictures": {name: inline_svg(contents["svg"].decode(), name) for name, contents in figures.items()},
        "sources": list(files) if sources is None else sources,
        "component": _make_component(sections),
    }
    page, document = (_render(f"report.{kind}.j2", values) for kind in ("html", "md"))
    for name in _read_figures(folder) - figures.keys():
        for suffix in METADATA:
            (folder / FIGURES / f"{name}.{suffix}").unlink(missing_ok=True)
    paths = []
    for name, contents in figures.items():
        for suffix, content in contents.items():
            paths.append(folder / FIGURES / f"{name}.{suffix}")
            with replacing(paths[-1]) as partial_file:
                partial_file.write_bytes(content)
    write_text(folder / DOCUMENT_FILE, document)
    write_text(folder / PAGE_FILE, page)
    return Written(folder / PAGE_FILE, folder / DOCUMENT_FILE, paths)


def _read_figures(folder: Path) -> set[str]:
    """Returns the names of the figures that an earlier report of ours in the folder links."""
    document = folder / DOCUMENT_FILE
    is_ours = bool(read_report_sources(folder)) and document.is_file()
    return {*LINK.findall(document.read_text(encoding="utf-8", errors="replace"))} if is_ours else set()


def make_sections(files: Mapping[str, Results]) -> list[Section]:
    """Makes the sections that the results have numbers for, file by file; InputError if there is none."""
    sections: list[Section] = []
    for make in SECTIONS:
        for file, results in files.items():
            of = f" of {file}" if len(files) > 1 else ""
            with _blame_results(f"section {make.__name__!r}{of}"):
                section = make(results)
            if section is None:
                continue
            if of:
                stem = Path(file).stem
                blocks = [
                    replace(block, name=f"{block.name}-{stem}") if isinstance(block, Picture) else block
                    for block in section.blocks
                ]
                name, title = f"{section.name}-{stem}", f"{section.title} ({file})"
                section = replace(section, name=name, title=title, blocks=blocks)
            sections.append(section)
    if not sections:
        raise InputError("There is nothing to report: these results have no systems and no analyses.")
    return sections


@contextmanager
def _blame_results(what: str) -> Iterator[None]:
    """Turns errors of missing or misshapen values into one sentence, an InputError."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"The {what} cannot be made: these results are not as bidibeam writes them "
            f"({type(error).__name__}: {error})."
        ) from error


def read_report_sources(folder: Path) -> list[str] | None:
    """Returns the files that a folder's report was made from, relative to it; None if there is no report."""
    page = folder / PAGE_FILE
    if not page.is_file():
        return None
    head = page.read_text(encoding="utf-8", errors="replace").partition("<title>")[0]
    return [unescape(source) for source in SOURCE.findall(head)]


def _make_component(sections: Sequence[Section]) -> Component:
    """Returns the report's style, and what shows examples where there are some."""
    has_examples = any(isinstance(block, Examples) for section in sections for block in section.blocks)
    style = "report.css"
    return make_component("report.js", style) if has_examples else Component("", read_sources(style), "")


def _render(template: str, values: Mapping[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bidibeam.reporting"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "md": escape_markdown,
        "unbroken": keep_together,
        "html": partial(escape, quote=False),
        "embedded": embed_json,
    }
    return printable(environment.get_template(template).render(values))


def keep_together(text: str) -> str:
    """Puts no-break spaces into "N_B = 50" and "30 %"."""
    space = "\N{NO-BREAK SPACE}"
    text = re.sub(r"(?<=\d) %", f"{space}%", text)
    return re.sub(r"\b([A-Z](?:_[A-Z])?) = (?=\d)", rf"\1{space}={space}", text)


def inline_svg(svg: str, name: str) -> str:
    """Turns an SVG file into an element of a page whose ids no other figure has."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", element)
