"""Small tables, readable at 80 columns. They return what rich prints; the caller owns the console."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bidibeam.hypotheses import Hypothesis

HEADING = "bold cyan"
QUIET = "dim"


@dataclass(frozen=True, slots=True)
class Sample:
    """One exchange to show: what was said, what each system answered, and what a person did."""

    source: str
    replies: Mapping[str, str]
    reference: str | None = None


def shown(value: object) -> str:
    """A value as a table shows it: whole numbers in groups of three, others to four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def facts_table(title: str, facts: Mapping[str, object]) -> Table:
    """Two columns: what, and how much. Long values fold."""
    table = Table(
        title=Text(title), box=box.SIMPLE, show_header=False, title_style=HEADING, title_justify="left"
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(Text(name), Text(shown(value)))
    return table


def values_table(
    title: str, headers: Sequence[str], rows: Iterable[tuple[str, Sequence[float | None]]]
) -> Table:
    """Named rows of numbers, aligned right under their headers; None is left blank.

    Args:
        title: Stands above.
        headers: One for each number of a row; the column of names has none.
        rows: A name and its numbers.
    """
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_style=HEADING, title_justify="left")
    table.add_column(style="bold", overflow="fold")
    for header in headers:
        table.add_column(Text(header), justify="right")
    for name, values in rows:
        table.add_row(Text(name), *(Text("" if value is None else shown(value)) for value in values))
    return table


def samples_panel(title: str, samples: Sequence[Sample]) -> Panel:
    """Exchanges under each other: the source, what a person answered, and each system's reply."""
    table = Table.grid(padding=(0, 1))
    table.add_column(style=QUIET, justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for index, sample in enumerate(samples):
        if index:
            table.add_row()
        table.add_row("source", Text(sample.source))
        if sample.reference is not None:
            table.add_row("reference", Text(sample.reference, style=QUIET))
        for name, reply in sample.replies.items():
            table.add_row(Text(name), Text(reply or "(nothing)", style="bold green"))
    return Panel(
        table, title=Text(title, style=HEADING), title_align="left", box=box.ROUNDED, border_style=QUIET
    )


def hypotheses_table(title: str, hypotheses: Iterable[Hypothesis]) -> Table:
    """A beam, best first: rank, score, log-probability and text; what was cut off ends in dots."""
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_style=HEADING, title_justify="left")
    for header in ("rank", "score", "log P"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("reply", overflow="fold")
    for rank, hypothesis in enumerate(hypotheses, start=1):
        text = hypothesis.text if hypothesis.finished else f"{hypothesis.text} ..."
        table.add_row(
            str(rank), f"{hypothesis.score:.2f}", f"{hypothesis.log_prob:.2f}", Text(text or "(nothing)")
        )
    return table
