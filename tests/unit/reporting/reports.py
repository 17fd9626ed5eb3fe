"""A report that was written, to be looked at."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

from bidibeam.reporting.report import Written, write_report
from tests.unit.reporting.pages import Page

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


class Report:
    """A report and what it was made of."""

    def __init__(self, results: dict[str, Any], folder: Path) -> None:
        self.results = results
        self.folder = folder
        self.written: Written = write_report(results, folder)
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


DRAWN = ("headroom", "ranks", "sensitivity", "positions")
"""Analyses that have a figure."""


def without(results: dict[str, Any], *names: str) -> dict[str, Any]:
    """Results that lack some analyses, or `positions`."""
    left = copy.deepcopy(results)
    for seed in left["seeds"]:
        seed["analyses"] = {name: one for name, one in seed["analyses"].items() if name not in names}
    return {key: value for key, value in left.items() if key not in names}
