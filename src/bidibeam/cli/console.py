"""Where people look: tables and progress on stderr, so that stdout carries nothing but replies."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.progress import TimeRemainingColumn as Remaining
from rich.table import Column
from rich.text import Text

console = Console(stderr=True, highlight=False, markup=False)
"""The one console that every command prints to."""


class NoteColumn(ProgressColumn):
    """What a task says about itself in its field `note`: losses, tokens a second. The bar gives way to it."""

    def __init__(self) -> None:
        super().__init__(table_column=Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        """The note, or nothing."""
        return Text(str(task.fields.get("note", "")), style="dim")


def progress(*, transient: bool = False) -> Progress:
    """A progress display: description, bar, counts, time gone, time left, and the task's note.

    Args:
        transient: Whether it goes away when it is done.
    """
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        Elapsed(),
        Remaining(),
        TextColumn("left", style="dim"),
        NoteColumn(),
        console=console,
        transient=transient,
        disable=transient and not console.is_interactive,  # a log would get an empty line for it
        expand=True,
        redirect_stdout=False,  # or rich would print replies to this console, on stderr
    )
