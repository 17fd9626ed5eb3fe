"""The parts of a report, before it is HTML or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Cell:
    """A cell of a table: our text, and the paper's where it prints a number."""

    text: str
    paper: str = ""


@dataclass(frozen=True)
class Column:
    """The head of a column; neighbours of one group share a head above theirs. Text is aligned left."""

    label: str
    group: str = ""
    is_text: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: The title.
        columns: The heads.
        rows: A cell per column; a string is a cell without a number of the paper.
        notes: Sentences below the table.
        is_folded: Whether a reader must unfold it.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | str]]
    notes: Sequence[str] = ()
    is_folded: bool = False

    kind: ClassVar[str] = "table"

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The heads above the columns and how many columns each spans; empty if no column has a group."""
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
        """All rows as cells."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Picture:
    """A figure: the name of its files, a caption, and the function that draws it."""

    name: str
    caption: str
    draw: Callable[[], Figure]

    kind: ClassVar[str] = "picture"


@dataclass(frozen=True)
class Example:
    """A source with every system's reply and the beams they chose from.

    Attributes:
        label: Its entry in the list of examples.
        source: The source.
        reference: The reference.
        replies: System and reply.
        beams: By direction, the texts, best first, each with whether it belongs to the winning pair.
        heat_map: The similarities of all pairs as SVG; empty if there are none.
        heat_map_caption: Its caption.
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
    """Examples: the page shows all of them one by one, the document the `first`; each has its own hint."""

    examples: Sequence[Example]
    page_hint: str = ""
    document_hint: str = ""
    first: int = 5

    kind: ClassVar[str] = "examples"


Block = Table | Picture | Examples


@dataclass(frozen=True)
class Section:
    """A section of a report.

    Attributes:
        name: The anchor of links.
        title: The heading.
        blocks: Tables, figures and examples.
        sentences: What they do not show by themselves.
        notice: A warning above everything else.
    """

    name: str
    title: str
    blocks: Sequence[Block]
    sentences: Sequence[str] = ()
    notice: str = ""


def text_column(label: str, group: str = "") -> Column:
    """Makes a column of text."""
    return Column(label, group, is_text=True)
