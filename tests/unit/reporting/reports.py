"""Writes a report and reads it back: its tables, ids, links, scripts and text."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from bidibeam.reporting.report import Written, write_report

NBSP = "\N{NO-BREAK SPACE}"
TITLES = (
    "Summary",
    "BLEU-4 against N_B",
    "VBS, Best Hypothesis and the headroom between",
    "One reply to every source",
    "Rank of the reply in the beam",
    "Diversity of the replies",
    "Words by position",
    "Cost",
    "Sensitivity to what the paper leaves open",
    "How the numbers were made",
    "Examples",
)
"""The sections of a whole experiment's report."""
DRAWN = ("headroom", "ranks", "sensitivity", "positions")
"""Analyses that have a figure."""
VOID = {"meta", "link", "br", "img", "input", "hr"}


@dataclass
class Page(HTMLParser):
    """A page, read strictly: what is opened is closed, in order."""

    text: str
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._said: list[str] = []
        self._caption = ""
        self._rows: list[list[str]] = []
        self.feed(self.text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
                self.links.append(value or "")
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("caption", "summary", "td", "script"):
            self._said = []
        if tag == "tr":
            self._rows.append([])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        self._said.append(data)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag
        said = " ".join("".join(self._said).split())
        if tag in ("caption", "summary"):
            self._caption = said
            self._rows = []
        if tag == "td":
            self._rows[-1].append(said)
        if tag == "script":
            self.scripts.append("".join(self._said))
        if tag == "table" and self._caption:
            self.tables[self._caption] = [row for row in self._rows if row]
            self._caption = ""


def markdown_tables(text: str) -> dict[str, list[list[str]]]:
    """The tables of a document, by the bold line above each, or the summary of those that are folded."""
    tables: dict[str, list[list[str]]] = {}
    caption = ""
    for line in text.splitlines():
        folded = re.fullmatch(r"<details><summary>(.*)</summary>", line)
        if line.startswith("**") or folded:
            caption = folded[1] if folded else line.strip("*")
        elif line.startswith("|") and not re.fullmatch(r"[|:-]+", line):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            tables.setdefault(caption, []).append(cells)
    return {caption: rows[1:] for caption, rows in tables.items()}


class Report:
    """A report and what it was made of."""

    def __init__(self, results: dict[str, Any], folder: Path) -> None:
        self.results = results
        self.folder = folder
        self.written: Written = write_report({"results.json": results}, folder)
        self.html = self.written.page.read_text(encoding="utf-8")
        self.markdown = self.written.document.read_text(encoding="utf-8")
        self.page = Page(self.html)
        self.tables = {name.replace(NBSP, " "): rows for name, rows in self.page.tables.items()}

    @property
    def sections(self) -> list[str]:
        return re.findall(r"<h2>\d+\. (.*?)</h2>", self.html)

    @property
    def words(self) -> str:
        """The text of the document, escapes undone."""
        return self.markdown.replace("\\", "")

    def row(self, table: str, name: str, *more: str) -> list[str]:
        """A table's row, by its first cells."""
        (found,) = (row for row in self.tables[table] if row[: 1 + len(more)] == [name, *more])
        return found


def without(results: dict[str, Any], *names: str) -> dict[str, Any]:
    """Results that lack some analyses, or `positions`."""
    left = copy.deepcopy(results)
    for seed in left["seeds"]:
        seed["analyses"] = {name: one for name, one in seed["analyses"].items() if name not in names}
    return {key: value for key, value in left.items() if key not in names}
