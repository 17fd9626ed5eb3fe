"""Training, as somebody at a terminal sees it."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from bidibeam.cli.console import console, progress
from bidibeam.training.logs import perplexity

SECONDS_BETWEEN_LINES = 20


class TrainingProgress:
    """A progress bar with losses, speed and time left, and a line for each evaluation.

    Nothing is shown before training has started, so that a refusal leaves nothing of it.
    """

    def __init__(self) -> None:
        self._progress = progress()
        self._task = self._progress.add_task("training", total=None, visible=False)
        self._total = 0
        self._last_line = time.monotonic()

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._total:  # stopped unstarted, it would print an empty line
            self._progress.stop()

    def started(self, *, step: int, total_steps: int, facts: dict[str, Any]) -> None:
        """Say what will be trained, and show the bar."""
        console.print(
            f"Training {facts['parameters'] / 1e6:.1f} M parameters on {facts['pairs']:,} pairs "
            f"({facts['device']}, precision {facts['precision']})"
            + (f", from step {step:,}." if step else ".")
        )
        console.print(f"Losses are {' / '.join(facts['directions'])}; * marks the best evaluation so far.")
        self._total = total_steps
        self._progress.start()
        self._progress.update(self._task, total=total_steps, completed=step, visible=True)

    def stepped(self, *, step: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=step)

    def reported(self, *, step: int, record: dict[str, Any]) -> None:
        """Show losses and speed beside the bar; in a log file, where there is none, a line now and then."""
        note = f"{_joined(record, '.2f')} {record['tokens_per_s']:,.0f} tok/s"
        self._progress.update(self._task, completed=step, note=note)
        if not console.is_terminal and time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            console.print(f"Step {step:,} of {self._total:,}: loss {note}")

    def evaluated(self, *, step: int, record: dict[str, Any]) -> None:
        """Print the validation losses."""
        perplexities = {f"loss_{name}": perplexity(loss) for name, loss in _of_directions(record).items()}
        console.print(
            f"Epoch {record['epoch'] + 1}, step {step:,}: validation loss {_joined(record, '.3f')}, "
            f"perplexity {_joined(perplexities, '.1f')}"
            + ("*" if record["loss"] == record["best_loss"] else "")
        )

    def finished(self, *, step: int, stopped_by: str, best_loss: float | None) -> None:
        """Say why training ended."""
        best = f"; best validation loss {best_loss:.4f}" if best_loss is not None else ""
        console.print(f"Stopped by {stopped_by} after step {step:,}{best}.")


def _of_directions(record: dict[str, Any]) -> dict[str, float]:
    return {name.removeprefix("loss_"): value for name, value in record.items() if name.startswith("loss_")}


def _joined(record: dict[str, Any], style: str) -> str:
    return " / ".join(f"{value:{style}}" for value in _of_directions(record).values())
