"""Where people look: tables and progress on stderr, so that stdout carries nothing but replies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
)
from rich.progress import TimeElapsedColumn as Elapsed
from rich.progress import TimeRemainingColumn as Remaining
from rich.table import Column
from rich.text import Text

if TYPE_CHECKING:
    from bidibeam.interchange.text_lines import Lines

T = TypeVar("T")
SLOW_S = 0.8
"""After so many seconds a person wants to know what is going on."""
LINE_EVERY_S = 30.0
"""In a log file, a line at least as often as that while something is going on."""
SHARE, LEAST_S = 0.1, 5.0
"""And whenever so much more of it is done, unless the last line is not even so old."""

console = Console(stderr=True, highlight=False, markup=False)
"""The one console that every command prints to."""


class NoteColumn(ProgressColumn):
    """What a task says about itself in its field `note`: losses, tokens a second. The bar gives way to it."""

    def __init__(self) -> None:
        super().__init__(table_column=Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        """The note, or nothing."""
        return Text(str(task.fields.get("note", "")), style="dim")


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
        """Add a task, which may be the first."""
        task = super().add_task(*args, **options)
        if self._is_entered and not self.live.is_started:
            super().start()
        return task


def progress(*, transient: bool = False, in_bytes: bool = False) -> Progress:
    """A progress display: description, bar, counts, time gone, time left, and the task's note.

    Args:
        transient: Whether it goes away when it is done.
        in_bytes: Whether bytes are counted.
    """
    return _Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        DownloadColumn() if in_bytes else MofNCompleteColumn(),
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


def track(items: Iterable[T], total: int | None, what: str, *, lines: Lines | None = None) -> Iterator[T]:
    """The same items, counted for whoever watches.

    Args:
        items: The items.
        total: How many there are, if that is known.
        what: What is being done.
        lines: The file that they are read from, if they are: then its bytes are counted.
    """
    has_size = lines is not None and lines.size is not None
    if not console.is_interactive:
        yield from log_progress(items, total, what, lines=lines if has_size else None)
        return
    with progress(transient=True, in_bytes=has_size) as bar:
        task = bar.add_task(what, total=lines.size if lines is not None and has_size else total)
        for item in items:
            yield item
            if lines is not None and has_size:
                bar.update(task, completed=lines.position)
            else:
                bar.advance(task)


def log_progress(
    items: Iterable[T],
    total: int | None,
    what: str,
    *,
    lines: Lines | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[T]:
    """The same items; while they take long, a plain line now and then, for a log file.

    Args:
        items: The items.
        total: How many there are, if that is known.
        what: What is being done.
        lines: The file that they are read from, if they are and its size is known: then total is that.
        clock: Tells the time, in seconds.
    """
    began = last = clock()
    told = 0
    total = total if lines is None else lines.size
    for count, item in enumerate(items, start=1):
        yield item
        now, done = clock(), count if lines is None else lines.position
        is_due = total is not None and done - told >= SHARE * total and now - last >= LEAST_S
        if done != total and (is_due or now - last >= LINE_EVERY_S):
            unit = "" if lines is None else " bytes"
            of = "" if total is None else f" of {total:,}{unit} ({done / total:.0%})"
            console.print(f"{what}: {done:,}{of} after {duration(now - began)}", style="dim", soft_wrap=True)
            last, told = now, done


def note(sentence: str) -> None:
    """Print what a user may want to know, and need not."""
    console.print(f"Note: {sentence}", style="dim", soft_wrap=True)


@contextmanager
def notice_if_slow(message: str) -> Iterator[None]:
    """Print a message if the block takes so long that a person would wonder."""
    timer = threading.Timer(SLOW_S, lambda: console.print(message, style="dim"))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number of things as people say it: 1 source, 2 sources, 1,000 replies."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """A time as people say it: 4.2 s, 42 s, 3 min 5 s, 2 h 10 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
