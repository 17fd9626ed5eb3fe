"""Short trainings of both kinds of model, for one process, or for all that a launcher starts with this.

    accelerate launch --multi_gpu --num_processes 2 -m tests.end_to_end.processes DATA FOLDER

Every process does the same, as `bidibeam train` would; only the first can tell an observer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from bidibeam.data.prepared import PreparedData
from bidibeam.models.networks import create_network
from bidibeam.training.fine_tune import fine_tune
from bidibeam.training.optimization import LinearSchedule, PlateauSchedule
from bidibeam.training.settings import FineTuneSettings, RunSettings, TrainingSettings
from bidibeam.training.train import train
from tests.conftest import TINY_MODEL
from tests.soak.bases import BART

KINDS = ("gru", "hf")
COMMON: dict[str, Any] = {
    "max_steps": 50,
    "epochs": 9,
    "batch_size": 32,
    "learning_rate": 1e-2,
    "save_every": 7,
    "log_every": 5,
    "tensorboard": False,
    "precision": "float32",
}
FROM_ONE: dict[str, Any] = {"accumulation": 3, "max_steps": 30}  # which two processes cannot share evenly
KILLED_AT = 25  # between checkpoints, and in the middle of an epoch


def train_kind(
    kind: str, data: PreparedData, run: Path, *, resume: bool = False, layerdrop: float = 0.0, **changes: Any
) -> None:
    """A tiny model without dropout, in both directions."""
    settings = {**COMMON, **changes}
    if kind == "gru":
        made = RunSettings(replace(TINY_MODEL, dropout=0.0), TrainingSettings(**settings))
        train(data, run, made, resume=resume)
    else:
        base = {**BART, "dropout": 0.0, "init_std": 0.3, "encoder_layerdrop": layerdrop}
        tuning = FineTuneSettings(**settings)
        fine_tune(data, run, base=base, direction="both", settings=tuning, resume=resume)


class KilledError(Exception):
    """Stands for a kill: nothing after it runs, in no process."""


def train_and_kill(kind: str, data: PreparedData, run: Path, **changes: Any) -> None:
    def begin_step(schedule: Any, step: int) -> None:
        if step == KILLED_AT:
            raise KilledError
        begins[type(schedule)](schedule, step)

    begins = {each: each.begin_step for each in (LinearSchedule, PlateauSchedule)}
    with (
        patch.object(LinearSchedule, "begin_step", begin_step),
        patch.object(PlateauSchedule, "begin_step", begin_step),
    ):
        try:
            train_kind(kind, data, run, **changes)
        except KilledError:
            return
    raise AssertionError("it was over before it could be killed")


@contextmanager
def idle_parameter() -> Iterator[None]:
    """Networks have a parameter that no loss depends on."""

    def create(*arguments: Any) -> Any:
        network = create_network(*arguments)
        network.idle = torch.nn.Parameter(torch.ones(3))
        return network

    with patch("bidibeam.training.train.create_network", create):
        yield


def main(data: PreparedData, folder: Path) -> None:
    for kind in KINDS:
        train_kind(kind, data, folder / f"{kind}-two")
        train_and_kill(kind, data, folder / f"{kind}-two-one")
        train_kind(kind, data, folder / f"{kind}-one-two", resume=True, **FROM_ONE)
    train_kind("hf", data, folder / "layerdrop", max_steps=4, layerdrop=0.5)
    with idle_parameter():
        train_kind("gru", data, folder / "idle", max_steps=4)
    still: dict[str, Any] = {"learning_rate": 1e-12, "weight_decay": 0.0, "epochs": 1}
    train_kind("gru", data, folder / "still", log_every=1000, save_every=0, **still)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(PreparedData.open(Path(sys.argv[1])), Path(sys.argv[2]))
