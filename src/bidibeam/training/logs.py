"""What training reports: metrics.jsonl, TensorBoard, and observers."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

from bidibeam.errors import RunError
from bidibeam.files import parse_json, read_json_or_empty, reading, write_text

if TYPE_CHECKING:
    from pathlib import Path

METRICS_FILE = "metrics.jsonl"


class TrainingObserver:
    """Is told what happens in training: a progress bar, a notebook, a test. This one says nothing."""

    def on_start(self, *, step: int, total_steps: int, metadata: dict[str, Any]) -> None:
        """Training begins, or goes on, at `step`."""

    def on_step(self, *, step: int) -> None:
        """A step is done."""

    def on_report(self, *, step: int, record: dict[str, Any]) -> None:
        """Losses and speed since the last report are known."""

    def on_evaluation(self, *, step: int, record: dict[str, Any]) -> None:
        """An evaluation is done."""

    def on_end(self, *, step: int, stopped_by: str, best_loss: float | None) -> None:
        """Training has ended of itself."""


class MetricsLog:
    """metrics.jsonl, one object a line, and the same numbers for TensorBoard.

    What was logged beyond the step that training goes on from, and evaluations after the last one that it
    knows of, are dropped, since they will come again.
    """

    def __init__(self, run: Path, *, step: int, evaluated_step: int, tensorboard: bool) -> None:
        self._path = run / METRICS_FILE
        known = {"validation": evaluated_step}
        kept = [each for each in read_metrics(run) if each["step"] <= known.get(each["kind"], step)]
        write_text(self._path, "".join(json.dumps(record) + "\n" for record in kept))
        self._board = None
        if tensorboard:
            from tensorboardX import SummaryWriter

            self._board = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1 if step else None)

    def write(self, kind: str, step: int, record: dict[str, Any]) -> None:
        """Append one record."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "step": step, **record}) + "\n")
        if self._board is not None:
            for name, value in record.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Flush what is buffered."""
        if self._board is not None:
            self._board.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Every complete record of a run's metrics.jsonl, in order; a kill may have cut off the last line.

    Raises:
        RunError: If another line is damaged.
    """
    path = run / METRICS_FILE
    lines = [b""]
    if os.path.lexists(path):
        with reading(path, "Restore it from a copy."):
            lines = path.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = parse_json(line.decode(errors="replace"))
        except ValueError:
            record = None
        if isinstance(record, dict) and isinstance(record.get("step"), int) and "kind" in record:
            records.append(record)
        elif number < len(lines):
            raise RunError(
                f"{path}, line {number} is damaged. Remove that line, or restore the file from a copy."
            )
    return records


def perplexity(loss: float) -> float:
    """The exponential of a loss; infinite where a float cannot hold it."""
    return math.exp(loss) if loss < 700 else math.inf


def progress_of(run: Path) -> dict[str, Any]:
    """Where a run's training stood at its best evaluation, and at its last if those weights are kept."""
    records = read_metrics(run)
    evaluations = [record for record in records if record["kind"] == "validation"]
    if not evaluations:
        return {"steps": records[-1]["step"] if records else 0}
    with reading(run / METRICS_FILE, "Restore it from a copy."):
        best, last = min(evaluations, key=lambda record: float(record["loss"])), evaluations[-1]
        progress = {"epochs": last["epoch"] + 1, "steps": records[-1]["step"], "best step": best["step"]}
        progress |= _describe_losses(best)
        if _keeps_last(run):
            progress["kept step"] = last["step"]
            progress |= {f"kept {name}": value for name, value in _describe_losses(last).items()}
    return progress


def _describe_losses(record: dict[str, Any]) -> dict[str, float]:
    """By direction, an evaluation's loss and perplexity."""
    losses: dict[str, float] = {}
    for name, value in record.items():
        if name.startswith("loss_"):
            direction = name.removeprefix("loss_")
            losses[f"{direction} validation loss"] = value
            losses[f"{direction} validation perplexity"] = perplexity(value)
    return losses


def _keeps_last(run: Path) -> bool:
    """Whether the run's weights are the last ones, not the best."""
    sections = (("config.json", "training"), ("bidibeam.json", "settings"))
    kept = [read_json_or_empty(run / file).get(section) for file, section in sections]
    return any(isinstance(settings, dict) and settings.get("keep") == "last" for settings in kept)
