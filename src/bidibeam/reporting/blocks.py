"""The parts of a report, before it is HTML or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, groupby
from typing import TYPE_CHECKING, Any, ClassVar

from bidibeam.reporting.numbers import NOTHING

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


def text_columns(*labels: str) -> list[Column]:
    """Makes the heads of columns of text."""
    return [Column(label, is_text=True) for label in labels]


def number_columns(*labels: str, group: str = "") -> list[Column]:
    """Makes the heads of columns of numbers, which may share a group."""
    return [Column(label, group) for label in labels]


@dataclass(frozen=True)
class Table:
    """A table with notes below; a reader must unfold it if it is folded."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    is_folded: bool = False

    kind: ClassVar[str] = "table"

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The heads above the columns and how many columns each spans; empty if no column has a group."""
        spans = [(group, len([*same])) for group, same in groupby(column.group for column in self.columns)]
        return spans if any(group for group, _ in spans) else []


def make_table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    notes: Sequence[str] = (),
    *,
    head_notes: Mapping[str, str] | None = None,
    is_folded: bool = False,
) -> Table:
    """Makes a table; a column without a single value is left out.

    `head_notes` has, by the label or the group of a column, a sentence that is shown if the column is.
    """
    cells = [[cell if isinstance(cell, Cell) else Cell(str(cell)) for cell in row] for row in rows]
    is_filled = [any(row[index].text not in ("", NOTHING) for row in cells) for index in range(len(columns))]
    shown = [*compress(columns, is_filled)]
    labels = {label for column in shown for label in (column.label, column.group)} - {""}
    more = [note for label, note in (head_notes or {}).items() if label in labels and note]
    return Table(caption, shown, [[*compress(row, is_filled)] for row in cells], [*notes, *more], is_folded)


@dataclass(frozen=True)
class Picture:
    """A figure: the name of its files, a caption, and the function that draws it."""

    name: str
    caption: str
    draw: Callable[[], Figure]

    kind: ClassVar[str] = "picture"


@dataclass(frozen=True)
class Examples:
    """Sources with replies and beams by the templates' names: the page shows all, the document the first."""

    examples: Sequence[Mapping[str, Any]]
    first: int = 5

    kind: ClassVar[str] = "examples"


Block = Table | Picture | Examples


@dataclass(frozen=True)
class Section:
    """A section of a report: the anchor of links, the heading, and above the blocks what they do not show."""

    name: str
    title: str
    blocks: Sequence[Block]
    sentence: str = ""
