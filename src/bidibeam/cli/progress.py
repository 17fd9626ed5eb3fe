"""Progress bars: of any work, of a corpus being prepared, and of training."""

from __future__ import annotations

import time
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

from bidibeam.cli.console import get_console, show
from bidibeam.training.logs import TrainingObserver, perplexity

if TYPE_CHECKING:
    from bidibeam.data.prepare import Progress as PrepareProgress

SECONDS_BETWEEN_LINES = 20


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


class TrainingProgress(TrainingObserver):
    """A progress bar with losses, speed and time left, and a line for each evaluation.

    Nothing is shown before training has started, so that a refusal leaves nothing of it.
    """

    def __init__(self) -> None:
        self._progress = create_progress()
        self._task = self._progress.add_task("training", total=None, visible=False)
        self._total = 0
        self._last_line = time.monotonic()

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._total:  # stopped unstarted, it would print an empty line
            self._progress.stop()

    def on_start(self, *, step: int, total_steps: int, facts: dict[str, Any]) -> None:
        """Say what will be trained, and show the bar."""
        show(
            f"Training {facts['parameters'] / 1e6:.1f} M parameters on {facts['pairs']:,} pairs "
            f"({facts['device']}, precision {facts['precision']})"
            + (f", from step {step:,}." if step else ".")
        )
        show(f"Losses are {' / '.join(facts['directions'])}; * marks the best evaluation so far.")
        self._total = total_steps
        self._progress.start()
        self._progress.update(self._task, total=total_steps, completed=step, visible=True)

    def on_step(self, *, step: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=step)

    def on_report(self, *, step: int, record: dict[str, Any]) -> None:
        """Show losses and speed beside the bar; in a log file, where there is none, a line now and then."""
        note = f"{' / '.join(f'{loss:.2f}' for loss in _losses(record))} {record['tokens_per_s']:,.0f} tok/s"
        self._progress.update(self._task, completed=step, note=note)
        if not get_console().is_terminal and time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            show(f"Step {step:,} of {self._total:,}: loss {note}")

    def on_evaluation(self, *, step: int, record: dict[str, Any]) -> None:
        """Print the validation losses."""
        losses = _losses(record)
        show(
            f"Epoch {record['epoch'] + 1}, step {step:,}: validation loss "
            f"{' / '.join(f'{loss:.3f}' for loss in losses)}, perplexity "
            f"{' / '.join(f'{perplexity(loss):.1f}' for loss in losses)}"
            + ("*" if record["loss"] == record["best_loss"] else "")
        )

    def on_end(self, *, step: int, stopped_by: str, best_loss: float | None) -> None:
        """Say why training ended."""
        best = f"; best validation loss {best_loss:.4f}" if best_loss is not None else ""
        show(f"Stopped by {stopped_by} after step {step:,}{best}.")


def _losses(record: dict[str, Any]) -> list[float]:
    """A record's losses, by direction."""
    return [value for name, value in record.items() if name.startswith("loss_")]
