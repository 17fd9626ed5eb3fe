"""Training, as somebody at a terminal sees it."""

from __future__ import annotations

import time
from typing import Any

from bidibeam.cli.console import create_progress, get_console, show
from bidibeam.training.logs import TrainingObserver, perplexity

SECONDS_BETWEEN_LINES = 20


class TrainingProgress(TrainingObserver):
    """A progress bar with losses, speed and time left, and a line for each evaluation.

    Nothing is shown before training has started, so that a refusal leaves nothing of it.
    """

    def __init__(self) -> None:
        self._progress = create_progress()
        self._task = self._progress.add_task("training", total=None, visible=False, note="")
        self._total = 0
        self._last_line = time.monotonic()
        self._last_loss: float | None = None

    def __enter__(self) -> TrainingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._total:  # stopped unstarted, it would print an empty line
            self._progress.stop()

    def on_start(self, *, step: int, total_steps: int, metadata: dict[str, Any]) -> None:
        """Say what will be trained, and show the bar."""
        processes = metadata["processes"]
        together = f", {processes} processes" if processes > 1 else ""
        show(
            f"Training {metadata['parameters'] / 1e6:.1f} M parameters on {metadata['pairs']:,} pairs "
            f"({metadata['device']}{together}, precision {metadata['precision']})"
            + (f", from step {step:,}." if step else ".")
        )
        show(f"Losses are {' / '.join(metadata['directions'])}; * marks the best evaluation so far.")
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
        self._last_loss = record["loss"]
        show(
            f"Epoch {record['epoch'] + 1}, step {step:,}: validation loss "
            f"{' / '.join(f'{loss:.3f}' for loss in losses)}, perplexity "
            f"{' / '.join(f'{perplexity(loss):.1f}' for loss in losses)}"
            + ("*" if record["loss"] == record["best_loss"] else "")
        )

    def on_end(self, *, step: int, stopped_by: str, best_loss: float | None) -> None:
        """Say why training ended, and whether more of it may help."""
        best = f"; best validation loss {best_loss:.4f}" if best_loss is not None else ""
        if best and best_loss == self._last_loss and stopped_by == "epochs":
            best += ", the last one: it was still falling, and more epochs may lower it"
        show(f"Stopped by {stopped_by} after step {step:,}{best}.")


def _losses(record: dict[str, Any]) -> list[float]:
    """A record's losses, by direction."""
    return [value for name, value in record.items() if name.startswith("loss_")]
