"""What training reports: metrics.jsonl, TensorBoard, and observers."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any, Protocol

import torch

from bidibeam.errors import RunError
from bidibeam.files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch import Tensor

METRICS_FILE = "metrics.jsonl"


class TrainingObserver(Protocol):
    """Is told what happens in training: the command line's progress bar, a notebook, a test."""

    def started(self, *, step: int, total_steps: int, facts: dict[str, Any]) -> None:
        """Training begins, or goes on, at `step`."""
        ...

    def stepped(self, *, step: int) -> None:
        """A step is done."""
        ...

    def reported(self, *, step: int, record: dict[str, Any]) -> None:
        """Losses and speed since the last report are known."""
        ...

    def evaluated(self, *, step: int, record: dict[str, Any]) -> None:
        """An evaluation is done."""
        ...

    def finished(self, *, step: int, stopped_by: str, best_loss: float | None) -> None:
        """Training has ended of itself."""
        ...


class Silence:
    """An observer that says nothing."""

    def started(self, *, step: int, total_steps: int, facts: dict[str, Any]) -> None:
        """Nothing."""

    def stepped(self, *, step: int) -> None:
        """Nothing."""

    def reported(self, *, step: int, record: dict[str, Any]) -> None:
        """Nothing."""

    def evaluated(self, *, step: int, record: dict[str, Any]) -> None:
        """Nothing."""

    def finished(self, *, step: int, stopped_by: str, best_loss: float | None) -> None:
        """Nothing."""


class LossWindow:
    """Losses and speed since the last report, summed on the device so that no step waits for them."""

    def __init__(self, directions: Sequence[str], device: torch.device) -> None:
        self._directions = directions
        self._sums = torch.zeros(len(directions) + 1, device=device, dtype=torch.float64)
        self.restart()

    def restart(self) -> None:
        """Forget everything; the clock starts anew."""
        self._sums.zero_()
        self.steps = 0
        self._since = time.perf_counter()

    def add(self, sums: Tensor, tokens: Tensor) -> None:
        """Take in one step."""
        self._sums += torch.cat((sums, tokens.unsqueeze(0)))
        self.steps += 1

    def record(self) -> dict[str, Any]:
        """Mean losses by token, and the speed in target tokens, all directions counted; then restart."""
        *losses, tokens = self._sums.tolist()
        seconds = time.perf_counter() - self._since
        record = loss_record(self._directions, [loss / tokens for loss in losses])
        record["tokens_per_s"] = round(tokens * len(losses) / max(seconds, 1e-9), 1)
        self.restart()
        return record


def loss_record(directions: Sequence[str], losses: Sequence[float]) -> dict[str, Any]:
    """Losses under the names that logs and tables use."""
    return {f"loss_{name}": loss for name, loss in zip(directions, losses, strict=True)}


class MetricsLog:
    """metrics.jsonl, one object a line, and the same numbers for TensorBoard.

    Args:
        run: The run directory.
        step: The step training goes on from; what was logged beyond it is dropped, since it will come again.
        tensorboard: Whether to write TensorBoard's files too.
    """

    def __init__(self, run: Path, *, step: int, tensorboard: bool) -> None:
        self._path = run / METRICS_FILE
        kept = [record for record in read_metrics(run) if record["step"] <= step]
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
    lines = path.read_bytes().split(b"\n") if path.is_file() else [b""]
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line.decode(errors="replace"))
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
    """Where a run's training stood at its best evaluation."""
    records = read_metrics(run)
    evaluations = [record for record in records if record["kind"] == "validation"]
    if not evaluations:
        return {"steps": records[-1]["step"] if records else 0}
    best = min(evaluations, key=lambda record: float(record["loss"]))
    progress: dict[str, Any] = {
        "epochs": evaluations[-1]["epoch"] + 1,
        "steps": records[-1]["step"],
        "best step": best["step"],
        **_losses(best),
    }
    if _keeps_last(run):
        progress["kept step"] = evaluations[-1]["step"]
        progress.update({f"kept {name}": value for name, value in _losses(evaluations[-1]).items()})
    return progress


def _losses(record: dict[str, Any]) -> dict[str, float]:
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
    for file, section in (("config.json", "training"), ("bidibeam.json", "settings")):
        try:
            if json.loads((run / file).read_text(encoding="utf-8"))[section]["keep"] == "last":
                return True
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return False
