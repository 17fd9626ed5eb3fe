"""Writes a report of results: a page that needs nothing else, a Markdown document, and the figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from pathlib import Path
from typing import Any

from bidibeam.files import replacing, write_text
from bidibeam.reporting.blocks import Picture, Section
from bidibeam.reporting.plots import check_drawing, drawing, saved
from bidibeam.reporting.results import RESULTS_FILE, Results
from bidibeam.reporting.sections import reading, sections_of

PAGE_FILE, DOCUMENT_FILE, FIGURES = "report.html", "report.md", "figures"
REPORT_FILES = (PAGE_FILE, DOCUMENT_FILE)
"""What every report has; figures only as far as there are numbers for them."""
SOURCE = re.compile(r'<meta name="bidibeam-results" content="([^"]*)">')


@dataclass(frozen=True)
class Written:
    """Where a report is.

    Attributes:
        page: The page: one file that needs nothing else.
        document: The same as Markdown, which links the figures.
        figures: The figures, each as SVG and as PNG.
    """

    page: Path
    document: Path
    figures: list[Path]


def write_report(results: Mapping[str, Any], folder: Path) -> Written:
    """Write report.html, report.md and the figures; the same results give the same bytes.

    Args:
        results: What `bidibeam reproduce`, `evaluate` or `analyse` wrote. What is not there is left out.
        folder: Where to; made if it is not there.

    Raises:
        InputError: If there is nothing to report, the results are of another format or damaged, or
            matplotlib is not installed. Nothing is written then.
    """
    return write_joint_report({RESULTS_FILE: results}, folder)


def write_joint_report(
    files: Mapping[str, Mapping[str, Any]], folder: Path, sources: Sequence[str] | None = None
) -> Written:
    """Write one report of several files of results; each section says which one it is of.

    Args:
        files: By name, what `bidibeam reproduce`, `evaluate` or `analyse` wrote.
        folder: Where to; made if it is not there.
        sources: Where the files are, seen from the folder; beside the report by default.

    Raises:
        InputError: As `write_report` does.
    """
    check_drawing()
    read = {name: Results.of(content) for name, content in files.items()}
    sections = sections_of(read)
    pictures = _drawn(sections)
    inlined = {name: forms["svg"] for name, forms in pictures.items()}
    title = _title(list(read.values()))
    page, document = _rendered(title, sections, inlined, list(files) if sources is None else sources)
    paths = []
    for name, forms in pictures.items():
        for form, content in forms.items():
            paths.append(folder / FIGURES / f"{name}.{form}")
            with replacing(paths[-1]) as partial:
                partial.write_bytes(content)
    write_text(folder / DOCUMENT_FILE, document)
    write_text(folder / PAGE_FILE, page)
    return Written(folder / PAGE_FILE, folder / DOCUMENT_FILE, paths)


def _title(results: Sequence[Results]) -> str:
    """What was measured, and what kind of network, as far as the files tell."""
    corpus = next((one.corpus for one in results if one.corpus), "")
    trained = next((one.last_step for one in results if one.last_step), "")
    title = f"bidibeam on {corpus}" if corpus else "bidibeam results"
    return f"{title}, {trained}" if trained else title


def _drawn(sections: list[Section]) -> dict[str, dict[str, bytes]]:
    """Every figure by name, as the content of its files."""
    pictures = [block for section in sections for block in section.blocks if isinstance(block, Picture)]
    drawn = {}
    with drawing():
        for picture in pictures:
            with reading(f"figure {picture.name!r}"):
                drawn[picture.name] = saved(picture.draw())
    return drawn


def sources_of(folder: Path) -> list[str] | None:
    """The files, seen from a folder, that the report there was made from.

    Returns:
        None if there is no report; nothing if it does not say.
    """
    page = folder / PAGE_FILE
    if not page.is_file():
        return None
    found = SOURCE.findall(page.read_text(encoding="utf-8", errors="replace").partition("<title>")[0])
    return [unescape(source) for source in found]


def _rendered(
    title: str, sections: list[Section], pictures: Mapping[str, bytes], sources: Sequence[str]
) -> tuple[str, str]:
    """The page and the document."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bidibeam.reporting"),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"md": markdown, "held": held, "html": partial(escape, quote=False)}
    inlined = {name: inline_svg(svg.decode(), name) for name, svg in pictures.items()}
    page = environment.get_template("report.html.j2")
    document = environment.get_template("report.md.j2")
    return (
        page.render(title=title, sections=sections, pictures=inlined, sources=sources),
        document.render(title=title, sections=sections),
    )


def markdown(text: object) -> str:
    """Text as Markdown shows it unchanged, in a cell of a table too."""
    line = " ".join(str(text).split())
    line = re.sub(r"([\\`*\[\]|~])", r"\\\1", line)
    line = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", line)  # between letters it means nothing
    line = re.sub(r"^(#+ |[+-] |>)", r"\\\1", line)
    line = re.sub(r"^(\d+)([.)] )", r"\1\\\2", line)
    return line.replace("&", "&amp;").replace("<", "&lt;")


def held(text: str) -> str:
    """A sentence whose "N_B = 50" and "30 %" are not broken between lines."""
    space = "\N{NO-BREAK SPACE}"
    text = re.sub(r"(?<=\d) %", f"{space}%", text)
    return re.sub(r"\b([A-Z](?:_[A-Z])?) = (?=\d)", rf"\1{space}={space}", text)


def inline_svg(svg: str, name: str) -> str:
    """An SVG file as an element of a page: nothing before it, and ids that no other figure has."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", element)
