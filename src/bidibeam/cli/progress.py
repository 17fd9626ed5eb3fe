"""Progress bars, of any work and of a corpus being prepared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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


class _Progress(Progress):
    """Shows nothing while it has no task: one that a refusal ends at once leaves no empty line."""

    _is_entered = False

    def start(self) -> None:
        """Begin, as soon as there is a task."""
        self._is_entered = True
        if self.tasks:
            super().start()

    def stop(self) -> None:
        """End, if it began."""
        self._is_entered = False
        if self.live.is_started:
            super().stop()

    def add_task(self, *args: Any, **options: Any) -> TaskID:
        """Add a task, which may be the first; its field `note` is what it says about itself."""
        task = super().add_task(*args, **{"note": "", **options})
        if self._is_entered and not self.live.is_started:
            super().start()
        return task


def create_progress(*, transient: bool = False, in_bytes: bool = False) -> Progress:
    """A display of description, bar, counts, time gone, time left and note; if transient, it goes away."""
    console = get_console()
    return _Progress(
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
    with create_progress() as bars:
        tasks: dict[str, TaskID] = {}

        def update(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield update
