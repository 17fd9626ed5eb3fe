"""Short runs, what they logged, and how to kill them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from bidibeam.data.prepared import PreparedData
from bidibeam.training import state
from bidibeam.training.logs import TrainingObserver, read_metrics
from bidibeam.training.settings import RunSettings, TrainingSettings
from bidibeam.training.train import train
from tests.conftest import TINY_MODEL

QUICK = TrainingSettings(
    epochs=2, batch_size=64, learning_rate=0.01, save_every=4, log_every=3, tensorboard=False
)
TRAIN = {"vectors", "resume", "observer"}
"""Arguments of `train`; others are settings."""


def train_toy(data: PreparedData, run: Path, *, model: Any = TINY_MODEL, **options: Any) -> state.Position:
    """Where the training of a tiny network ends, with the quick settings, some of them changed."""
    changes = {name: value for name, value in options.items() if name not in TRAIN}
    others = {name: value for name, value in options.items() if name in TRAIN}
    train(data, run, RunSettings(model, replace(QUICK, **changes)), **others)
    content = json.loads((newest(run) / "state.json").read_text())
    return state.Position(**{name: value for name, value in content.items() if name != "format_version"})


def losses_of(run: Path, name: str = "loss", kind: str = "validation") -> list[float]:
    return [record[name] for record in read_metrics(run) if record["kind"] == kind]


def newest(run: Path) -> Path:
    folder = state.newest(run)
    assert folder is not None
    return folder


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a run, or of a checkpoint of it."""
    weights: dict[str, torch.Tensor] = load_file(folder / "model.safetensors")
    return weights


def are_same_weights(one: Path, other: Path) -> bool:
    first, second = weights_of(one), weights_of(other)
    assert first.keys() == second.keys()
    return all(torch.equal(tensor, second[name]) for name, tensor in first.items())


class KilledError(Exception):
    """Stands for a kill: nothing after it runs."""


class Diary(TrainingObserver):
    """Notes what it is told; dies on demand."""

    def __init__(self, *, dies_at: int | None = None) -> None:
        self.steps: list[int] = []
        self.reports: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.begin: dict[str, Any] = {}
        self.dies_at = dies_at

    def on_start(self, *, step: int, total_steps: int, metadata: dict[str, Any]) -> None:
        self.begin = {"step": step, "total": total_steps, **metadata}

    def on_step(self, *, step: int) -> None:
        if step == self.dies_at:
            raise KilledError
        self.steps.append(step)

    def on_report(self, *, step: int, record: dict[str, Any]) -> None:
        self.reports.append({"step": step, **record})

    def on_evaluation(self, *, step: int, record: dict[str, Any]) -> None:
        self.evaluations.append({"step": step, **record})
