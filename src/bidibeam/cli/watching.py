"""Training, as somebody at a terminal sees it."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any

from bidibeam.cli.console import console, progress


class TrainingProgress:
    """A progress bar with losses, speed and time left, and a line for each evaluation."""

    def __init__(self) -> None:
        self._progress = progress()
        self._task = self._progress.add_task("training", total=None, visible=False)

    def __enter__(self) -> TrainingProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def started(self, *, step: int, total_steps: int, facts: dict[str, Any]) -> None:
        """Say what will be trained, and show the bar."""
        console.print(
            f"Training {facts['parameters'] / 1e6:.1f} M parameters on {facts['pairs']:,} pairs "
            f"({facts['device']}, precision {facts['precision']})"
            + (f", from step {step:,}." if step else ".")
        )
        self._progress.update(self._task, total=total_steps, completed=step, visible=True)

    def stepped(self, *, step: int) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=step)

    def reported(self, *, step: int, record: dict[str, Any]) -> None:
        """Show losses and speed beside it."""
        note = f"loss {_joined(record, '.2f')}, {record['tokens_per_s']:,.0f} tokens/s"
        self._progress.update(self._task, completed=step, note=note)

    def evaluated(self, *, step: int, record: dict[str, Any]) -> None:
        """Print the validation losses."""
        names = " / ".join(_of_directions(record))
        console.print(f"Step {step:,}, epoch {record['epoch'] + 1}, {names}:", end=" ")
        perplexities = {f"loss_{name}": math.exp(loss) for name, loss in _of_directions(record).items()}
        is_best = record["loss"] == record["best_loss"]
        console.print(
            f"validation loss {_joined(record, '.3f')}, perplexity {_joined(perplexities, '.1f')}"
            + (", the best so far" if is_best else "")
        )

    def finished(self, *, step: int, stopped_by: str, best_loss: float | None) -> None:
        """Say why training ended."""
        best = f"; best validation loss {best_loss:.4f}" if best_loss is not None else ""
        console.print(f"Stopped by {stopped_by} after step {step:,}{best}.")


def _of_directions(record: dict[str, Any]) -> dict[str, float]:
    return {name.removeprefix("loss_"): value for name, value in record.items() if name.startswith("loss_")}


def _joined(record: dict[str, Any], style: str) -> str:
    return " / ".join(f"{value:{style}}" for value in _of_directions(record).values())
