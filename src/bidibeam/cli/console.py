"""Where people look: sentences and progress on stderr; what a command is called for is for stdout alone."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bidibeam.text import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, TaskID

    from bidibeam.data.prepare import Progress as PrepareProgress
    from bidibeam.interchange.text_lines import Lines

T = TypeVar("T")
FEW_SOURCES = 100
"""Below so many, scores and tests say little."""
SLOW_S = 0.8
"""After so many seconds a person wants to know what is going on."""
MOST_NAMED = 8
"""Of more than so many that are left out for one reason, the first three are named."""
LINE_EVERY_S = 30.0
"""In a log file, a line at least as often as that while something is going on."""
SHARE, LEAST_S = 0.1, 5.0
"""And whenever so much more of it is done, unless the last line is not even so old."""


@cache
def get_console(*, is_stderr: bool = True) -> Console:
    """The console that every command prints to; rich is loaded once it prints, not for help."""
    from rich.console import Console
    from rich.segment import Segment

    class PrintableConsole(Console):
        """One that text from files cannot command."""

        def render(self, *args: Any, **options: Any) -> Iterator[Segment]:
            for text, style, control in super().render(*args, **options):
                yield Segment(text if control else printable(text), style, control)

    return PrintableConsole(stderr=is_stderr, highlight=False, markup=False)


def echo(line: str) -> None:
    """Print a line on stdout: to a terminal without control characters, to anything else byte for byte."""
    click.echo(printable(line) if sys.stdout.isatty() else line, color=True)  # or click drops some, too


def show(thing: RenderableType, **options: Any) -> None:
    """Print a table, or text that is wrapped between words; the options are those of rich."""
    get_console().print(thing, **options)


def show_result(thing: RenderableType, **options: Any) -> None:
    """Print what a command was called for, a table, on stdout."""
    get_console(is_stderr=False).print(thing, **options)


def tell(sentence: str, *, style: str | None = "dim") -> None:
    """Print a sentence on one line, however long, so that paths can be copied."""
    show(sentence, style=style, soft_wrap=True)


def show_metadata(title: str, values: Mapping[str, object]) -> None:
    """Print a table of names and values."""
    from bidibeam.reporting.tables import metadata_table  # brings rich

    show(metadata_table(title, values))


def note(sentence: str) -> None:
    """Print what a user may want to know, and need not."""
    tell(f"Note: {sentence}")


def track(items: Iterable[T], total: int | None, what: str, *, lines: Lines | None = None) -> Iterator[T]:
    """The same items, counted for whoever watches; if they are read from `lines`, its bytes are."""
    lines = lines if lines is not None and lines.size is not None else None
    if not get_console().is_interactive:
        yield from log_progress(items, total, what, lines=lines)
        return
    with create_progress(transient=True, in_bytes=lines is not None) as bar:
        task = bar.add_task(what, total=total if lines is None else lines.size, note="")
        for count, item in enumerate(items, start=1):
            yield item
            bar.update(task, completed=count if lines is None else lines.position)


def create_progress(*, transient: bool = False, in_bytes: bool = False) -> Progress:
    """A display of description, bar, counts, time gone, time left and note; if transient, it goes away.

    Every task has a field `note`. Begin it with the first task: one without any leaves an empty line.
    """
    from rich import progress
    from rich.table import Column

    console = get_console()
    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=None),
        progress.DownloadColumn() if in_bytes else progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("left", style="dim"),
        progress.TextColumn(
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


def log_progress(
    items: Iterable[T],
    total: int | None,
    what: str,
    *,
    lines: Lines | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[T]:
    """The same items; while they take long, a plain line now and then, for a log file.

    If they are read from `lines`, whose size must be known, its bytes are counted.
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
            tell(f"{what}: {done:,}{of} after {format_duration(now - began)}")
            last, told = now, done


@contextmanager
def notice_if_slow(message: str) -> Iterator[None]:
    """Print a message if the block takes so long that a person would wonder."""
    timer = threading.Timer(SLOW_S, lambda: show(message, style="dim"))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """A number of things as people say it: 1 source, 2 sources, 1,000 replies."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_duration(seconds: float) -> str:
    """A time as people say it: 4.2 s, 42 s, 3 min 5 s, 2 h 10 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def tell_missing(kind: str, kinds: str, missing: Mapping[str, str]) -> None:
    """Say what was left out, one sentence for each reason, whichever of the names that mentions."""
    from bidibeam.cli.main import name_flags

    groups: dict[str, list[str]] = {}
    for name, reason in missing.items():
        shared = re.sub(rf"(?<![\w'-]){re.escape(name)}(?![\w'-])", "each of them", reason)
        groups.setdefault(shared, []).append(name)
    for shared, names in groups.items():
        if len(names) == 1:
            sentence = f"Left out the {kind} {names[0]}: {missing[names[0]]}"
        else:
            reason = re.sub(r"^It needs\b", "They need", shared)
            last = names[-1] if len(names) <= MOST_NAMED else f"{len(names) - 3} others"
            firsts = names[:-1] if len(names) <= MOST_NAMED else names[:3]
            sentence = f"Left out the {kinds} {', '.join(firsts)} and {last}: {reason}"
        tell(name_flags(sentence, click.get_current_context().command))
