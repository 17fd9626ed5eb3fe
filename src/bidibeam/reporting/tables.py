"""Small tables for a terminal of 80 columns. They return what rich prints; the caller owns the console."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, takewhile, zip_longest
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bidibeam.hypotheses import Direction
from bidibeam.text import format_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

    from bidibeam.hypotheses import Beams, Hypothesis, Ranked
    from bidibeam.reporting import blocks

HEADING, QUIET, WINNER = "bold cyan", "dim", "bold green"
WIDE = 10_000
"""Columns: more than any table has."""
LONG_WORD = 12
"""Letters of a name's word that are never folded."""


def _new_table(title: str, **options: Any) -> Table:
    options = {"box": box.SIMPLE_HEAD, "title_style": HEADING, "title_justify": "left", **options}
    return Table(title=Text(title) if title else None, **options)


def metadata_table(title: str, values: Mapping[str, object]) -> Table:
    """Two columns: names and values. Long values fold."""
    table = _new_table(title, box=box.SIMPLE, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(Text(name), Text(format_value(value)))
    return table


@dataclass(frozen=True)
class NumbersTable:
    """Named rows of numbers, none of which is ever cut or folded.

    Where a console is too narrow for all columns, the rest stands in a table below, with the names again;
    names fold before that. Groups of headers stay together where they can.
    """

    title: str
    groups: Sequence[Sequence[str]]
    rows: Sequence[tuple[str, Sequence[str]]]
    is_dense: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the tables, below each other."""
        title = self.title
        for columns in self._split_columns(console, options):
            width = max(self._measure(columns, console, options), options.max_width)
            yield from console.render(self._table(title, columns), options.update(max_width=width))
            title = ""

    def _split_columns(self, console: Console, options: ConsoleOptions) -> list[list[int]]:
        """Splits the columns into blocks that fit; groups are split only if they do not fit alone."""
        numbers = iter(range(sum(map(len, self.groups))))
        waiting = [[next(numbers) for _ in group] for group in self.groups]
        blocks: list[list[int]] = [[]]
        while waiting:
            group = waiting.pop(0)
            if self._measure([*blocks[-1], *group], console, options) <= options.max_width:
                blocks[-1] += group
            elif blocks[-1]:
                blocks.append([])
                waiting.insert(0, group)
            elif len(group) > 1:
                waiting[:0] = [[column] for column in group]
            else:  # a single column is as narrow as it gets
                blocks[-1] += group
        return blocks

    def _measure(self, columns: Sequence[int], console: Console, options: ConsoleOptions) -> int:
        """Returns the width at which no number is cut and names are readable."""
        folded = [(" ".join(word[:LONG_WORD] for word in name.split()), cells) for name, cells in self.rows]
        table = replace(self, rows=folded)._table("", columns)
        return Measurement.get(console, options.update(max_width=WIDE), table).minimum

    def _table(self, title: str, columns: Sequence[int]) -> Table:
        table = _new_table(title, collapse_padding=self.is_dense, pad_edge=not self.is_dense)
        headers = [header for group in self.groups for header in group]
        table.add_column(style="bold", overflow="fold")
        for column in columns:
            lines = (*headers[column].splitlines(), *(values[column] for _, values in self.rows))
            width = max(map(cell_len, lines))
            table.add_column(Text(headers[column]), justify="right", no_wrap=True, min_width=width)
        for name, values in self.rows:
            table.add_row(Text(name), *(Text(values[column]) for column in columns))
        return table


def values_table(
    title: str, headers: Sequence[str], rows: Iterable[tuple[str, Sequence[float | None]]]
) -> NumbersTable:
    """Named rows of numbers, aligned right under their headers; None is left blank."""
    texts = [
        (name, ["" if value is None else format_value(value) for value in values]) for name, values in rows
    ]
    return NumbersTable(title, [[header] for header in headers], texts)


def numbers_tables(table: blocks.Table) -> Iterator[NumbersTable]:
    """A table of a report: its first texts become the rows' names, each group of its numbers a table."""
    count = len([*takewhile(lambda column: column.is_text, table.columns)])
    names = [", ".join(cell.text for cell in row[:count] if cell.text) for row in table.rows]
    numbers = [(index, column) for index, column in enumerate(table.columns) if not column.is_text]
    title = table.caption
    for group, columns in groupby(numbers, lambda number: number[1].group):
        places, heads = zip(*((index, [column.label]) for index, column in columns), strict=True)
        cells = ([row[place].text for place in places] for row in table.rows)
        yield NumbersTable(title or group, heads, [*zip(names, cells, strict=True)])
        title = ""


def samples_panel(title: str, samples: Sequence[Mapping[str, Any]]) -> Panel:
    """Sources below each other, each with its reference, if any, and every system's reply."""
    table = Table.grid(padding=(0, 1))
    table.add_column(style=QUIET, justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for index, sample in enumerate(samples):
        if index:
            table.add_row()
        table.add_row("source", Text(sample["source"]))
        if sample.get("reference") is not None:
            table.add_row("reference", Text(sample["reference"], style=QUIET))
        for name, reply in sample["replies"].items():
            table.add_row(Text(name), Text(reply or "(nothing)", style=WINNER))
    heading = Text(title, style=HEADING)
    return Panel(table, title=heading, title_align="left", box=box.ROUNDED, border_style=QUIET)


def _text(hypothesis: Hypothesis) -> str:
    """The text of a hypothesis; an unfinished one ends in dots."""
    return (hypothesis.text if hypothesis.finished else f"{hypothesis.text} ...") or "(nothing)"


def hypotheses_table(title: str, hypotheses: Iterable[Hypothesis]) -> Table:
    """A beam, best first: rank, score, log-probability and text."""
    table = _new_table(title)
    for header in ("rank", "score", "log P"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("reply", overflow="fold")
    for rank, hypothesis in enumerate(hypotheses, start=1):
        numbers = [hypothesis.score, hypothesis.log_prob]
        texts = ["" if value is None else f"{value:.2f}" for value in numbers]
        table.add_row(str(rank), *texts, Text(_text(hypothesis)))
    return table


def beams_table(title: str, beams: Beams, winners: Mapping[str, Ranked]) -> Table:
    """Eight rows of both beams side by side, best first; replies and their partners bear their names."""
    table = _new_table(title)
    marks: dict[Direction, dict[int, list[str]]] = {direction: {} for direction in Direction}
    for name, winner in winners.items():
        marks[winner.direction].setdefault(winner.place, []).append(name)
        if winner.partner is not None:
            marks[winner.direction.other].setdefault(winner.partner, []).append(name)
    columns = []
    for direction in Direction:
        table.add_column(justify="right", style=QUIET, no_wrap=True)
        table.add_column(f"{direction.value} beam", overflow="fold", ratio=1)
        nbest, cells = beams.of(direction), []
        for rank in sorted({*range(min(8, len(nbest))), *marks[direction]}):
            names = marks[direction].get(rank, ())
            text = Text(_text(nbest.hypotheses[rank]), style=WINNER if names else "")
            if names:
                text.append(f"  ◀ {', '.join(names)}", style="cyan")
            cells.append((str(rank + 1), text))
        columns.append(cells)
    for left, right in zip_longest(*columns, fillvalue=("", Text())):
        table.add_row(*left, *right)
    return table
