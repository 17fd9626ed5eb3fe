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
    """A column of a table: its head, and the function that makes a cell of an item.

    Neighbours of one group share a head above theirs. Text is aligned left.
    """

    label: str
    cell: Callable[[Any], Cell | str]
    group: str = ""
    is_text: bool = False


def text_column(label: str, cell: Callable[[Any], Cell | str]) -> Column:
    """Makes a column of text."""
    return Column(label, cell, is_text=True)


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
        spans = [
            (group, len([*columns])) for group, columns in groupby(column.group for column in self.columns)
        ]
        return spans if any(group for group, _ in spans) else []


def make_table(
    caption: str,
    columns: Sequence[Column],
    items: Iterable[Any],
    notes: Sequence[str] = (),
    *,
    head_notes: Mapping[str, str] | None = None,
    is_folded: bool = False,
) -> Table:
    """Makes a table with a row per item; a column without a single value is left out.

    Args:
        caption: The title.
        columns: All columns that the table may have.
        items: What the columns make cells of.
        notes: Sentences below the table.
        head_notes: By the label or the group of a column, a sentence that is shown if the column is.
        is_folded: Whether a reader must unfold the table.
    """
    rows = []
    for item in items:
        cells = [column.cell(item) for column in columns]
        rows.append([cell if isinstance(cell, Cell) else Cell(cell) for cell in cells])
    is_filled = [any(row[place].text not in ("", NOTHING) for row in rows) for place in range(len(columns))]
    shown = [*compress(columns, is_filled)]
    heads = {head for column in shown for head in (column.label, column.group)} - {""}
    more = [note for head, note in (head_notes or {}).items() if head in heads and note]
    return Table(caption, shown, [[*compress(row, is_filled)] for row in rows], [*notes, *more], is_folded)


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
    """Examples: the page shows all of them one by one, the document the first."""

    examples: Sequence[Example]
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
