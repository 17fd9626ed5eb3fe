"""Progress bars, of any work and of a corpus being prepared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from bidibeam.cli.console import get_console

if TYPE_CHECKING:
    from bidibeam.data.prepare import Progress as PrepareProgress


def create_progress(*, transient: bool = False, in_bytes: bool = False) -> Progress:
    """A display of description, bar, counts, time gone, time left and note; if transient, it goes away.

    Every task has a field `note`. Begin it with the first task: one without any leaves an empty line.
    """
    console = get_console()
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        DownloadColumn() if in_bytes else MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left", style="dim"),
        TextColumn(
            "{task.fields[note]}", style="dim", markup=False, table_column=Column(no_wrap=True)
        ),  # the bar gives way to it
        console=console,
        transient=transient,
        disable=transient and not console.is_interactive,  # a log would get an empty line for it
        expand=True,
        redirect_stdout=False,  # or rich would print replies to this console, on stderr
    )


@contextmanager
def show_preparation() -> Iterator[PrepareProgress]:
    """Shows a line for each stage of preparation, with how far it is."""
    bars = create_progress()
    tasks: dict[str, TaskID] = {}

    def update(stage: str, done: int, total: int | None) -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(stage, total=total, note="")
            bars.start()
        bars.update(tasks[stage], completed=done, total=total)

    try:
        yield update
    finally:
        if tasks:
            bars.stop()
