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
        note = f"{_losses(record)}  {record['tokens_per_s']:,.0f} tokens/s"
        self._progress.update(self._task, completed=step, note=note)

    def evaluated(self, *, step: int, record: dict[str, Any]) -> None:
        """Print the validation losses."""
        is_best = record["loss"] == record["best_loss"]
        console.print(
            f"  epoch {record['epoch'] + 1}, step {step:,}: validation loss {_losses(record)}, "
            f"perplexity {_perplexities(record)}" + ("  (best so far)" if is_best else "")
        )


def _of_directions(record: dict[str, Any]) -> dict[str, float]:
    return {name.removeprefix("loss_"): value for name, value in record.items() if name.startswith("loss_")}


def _losses(record: dict[str, Any]) -> str:
    return " ".join(f"{name} {value:.3f}" for name, value in _of_directions(record).items())


def _perplexities(record: dict[str, Any]) -> str:
    return " / ".join(f"{math.exp(value):.1f}" for value in _of_directions(record).values())
