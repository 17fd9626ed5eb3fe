"""What a report is made of, before it is HTML or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bidibeam.reporting.numbers import NOTHING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: What we have.
        paper: What the paper has; empty where it has nothing.
    """

    text: str
    paper: str = ""


@dataclass(frozen=True)
class Column:
    """The head of a column.

    Attributes:
        label: Its name.
        group: What stands above it and its neighbours.
        is_text: Whether it holds words, which are aligned left.
    """

    label: str
    group: str = ""
    is_text: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: What it shows.
        columns: Its columns.
        rows: A cell for each column; a string is a cell without the paper's.
        notes: Sentences under it.
        is_folded: Whether it is shown only when asked for.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | str]]
    notes: Sequence[str] = ()
    is_folded: bool = False

    kind: ClassVar[str] = "table"

    @property
    def groups(self) -> list[tuple[str, int]]:
        """What stands above the columns and how many columns wide; nothing if no column has a group."""
        if not any(column.group for column in self.columns):
            return []
        spans: list[tuple[str, int]] = []
        for column in self.columns:
            if spans and spans[-1][0] == column.group != "":
                spans[-1] = (column.group, spans[-1][1] + 1)
            else:
                spans.append((column.group, 1))
        return spans

    @property
    def cells(self) -> list[list[Cell]]:
        """All rows, with every cell a cell."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        name: Of its files.
        caption: What it shows.
        draw: Draws it.
    """

    name: str
    caption: str
    draw: Callable[[], Figure]

    kind: ClassVar[str] = "picture"


@dataclass(frozen=True)
class Example:
    """A source with what every system answered, and what they could choose from.

    Attributes:
        label: Names it in a list.
        source: What was said.
        reference: What a person answered.
        replies: Of each system.
        beams: By direction, the texts found, best first, each with whether it belongs to the winning pair.
        heat_map: Of every regular hypothesis with every reverse one, as SVG; empty if there is none.
        heat_map_caption: What it shows.
    """

    label: str
    source: str
    reference: str
    replies: Sequence[tuple[str, str]]
    beams: Sequence[tuple[str, Sequence[tuple[str, bool]]]] = ()
    heat_map: str = ""
    heat_map_caption: str = ""


@dataclass(frozen=True)
class Examples:
    """Examples to leaf through.

    Attributes:
        examples: All of them.
        page_hint: What is to be said of the beams and pictures that only the page shows.
        document_hint: What the document, which has no buttons, leaves out.
        first: How many the document shows.
    """

    examples: Sequence[Example]
    page_hint: str = ""
    document_hint: str = ""
    first: int = 5

    kind: ClassVar[str] = "examples"


Block = Table | Picture | Examples


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        name: For links.
        title: Its heading.
        sentences: What is seen.
        blocks: Where it is seen.
        notice: What must be known before any of it is believed.
    """

    name: str
    title: str
    sentences: Sequence[str]
    blocks: Sequence[Block]
    notice: str = ""


def text_column(label: str, group: str = "") -> Column:
    """A column of words."""
    return Column(label, group, is_text=True)


def beside(text: str, paper: str | None) -> Cell:
    """Ours, and the paper's if there is one."""
    return Cell(text, "" if paper in (None, NOTHING) else paper or "")
