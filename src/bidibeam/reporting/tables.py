"""Small tables, readable at 80 columns. They return what rich prints; the caller owns the console."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bidibeam.hypotheses import Direction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bidibeam.hypotheses import Beams, Hypothesis, NBest, Ranked

HEADING = "bold cyan"
BAR_WIDTH = 40
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
    table.add_column(style="bold", overflow="fold", no_wrap=True)
    for header in headers:
        table.add_column(Text(header), justify="right", overflow="fold")
    for name, values in rows:
        table.add_row(Text(name), *(Text("" if value is None else shown(value)) for value in values))
    return table


def curves_table(
    setting: str, held: Mapping[str, float], values: Sequence[float], scores: Sequence[float], rows: int = 12
) -> Table:
    """A curve as bars: at most so many values, evenly taken, and the best one wherever it is."""
    best = max(range(len(values)), key=lambda index: scores[index])
    step = max(1, -(-len(values) // rows))
    chosen = sorted({*range(0, len(values), step), best})
    others = "".join(f", {name.replace('_', ' ')} {value:g}" for name, value in held.items())
    title = f"BLEU by {setting.replace('_', ' ')}{others}"
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_style=HEADING, title_justify="left")
    table.add_column(setting.replace("_", " "), justify="right")
    table.add_column("bleu", justify="right")
    table.add_column()
    top = max(scores) or 1.0
    for index in chosen:
        bar = "█" * round(BAR_WIDTH * scores[index] / top)
        style = "bold green" if index == best else ""
        table.add_row(f"{values[index]:g}", f"{scores[index]:.3g}", Text(bar), style=style)
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
        numbers = (
            "" if value is None else f"{value:.2f}" for value in (hypothesis.score, hypothesis.log_prob)
        )
        table.add_row(str(rank), *numbers, Text(text or "(nothing)"))
    return table


def beams_table(title: str, beams: Beams, winners: Mapping[str, Ranked], rows: int = 8) -> Table:
    """Both beams side by side, best first; the winning pairs are marked with their names.

    Args:
        title: Stands above.
        beams: The hypotheses.
        winners: By name, a reply and its partner in the other beam.
        rows: How many of each beam are shown, besides the winners.
    """
    table = Table(title=Text(title), box=box.SIMPLE_HEAD, title_style=HEADING, title_justify="left")
    marks: dict[Direction, dict[int, list[str]]] = {direction: {} for direction in Direction}
    for name, winner in winners.items():
        marks[winner.direction].setdefault(winner.place, []).append(name)
        if winner.partner is not None:
            marks[winner.direction.other].setdefault(winner.partner, []).append(name)
    columns = []
    for direction in Direction:
        table.add_column(justify="right", style=QUIET, no_wrap=True)
        table.add_column(f"{direction.value} beam", overflow="fold", ratio=1)
        columns.append(_beam_cells(beams.of(direction), marks[direction], rows))
    for left, right in zip_longest(*columns, fillvalue=("", Text())):
        table.add_row(*left, *right)
    return table


def _beam_cells(nbest: NBest, marks: Mapping[int, Sequence[str]], rows: int) -> list[tuple[str, Text]]:
    """Rank and text of the first hypotheses, and of those marked."""
    shown = sorted({*range(min(rows, len(nbest))), *marks})
    cells = []
    for place in shown:
        hypothesis = nbest.hypotheses[place]
        text = hypothesis.text if hypothesis.finished else f"{hypothesis.text} ..."
        names = marks.get(place, ())
        marked = Text(text or "(nothing)", style="bold green" if names else "")
        if names:
            marked.append(f"  ◀ {', '.join(names)}", style="cyan")
        cells.append((str(place + 1), marked))
    return cells
