"""Short runs, and how to kill them."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from bidibeam.training import state
from bidibeam.training.logs import Silence
from bidibeam.training.settings import TrainingSettings

QUICK = TrainingSettings(
    epochs=2, batch_size=64, learning_rate=0.01, save_every=4, log_every=3, tensorboard=False
)


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    folder = state.newest(run)
    assert folder is not None
    weights: dict[str, torch.Tensor] = load_file(folder / "model.safetensors")
    return weights


def assert_same_weights(one: Path, other: Path) -> None:
    first, second = weights_of(one), weights_of(other)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


class KilledError(Exception):
    """Stands for a kill: nothing after it runs."""


class Killer(Silence):
    """Kills training at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, *, step: int) -> None:
        if step == self.step:
            raise KilledError
