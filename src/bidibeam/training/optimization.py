"""Optimizers and learning-rate schedules: Adam with a plateau, AdamW with warm-up and linear decay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from bidibeam.training.settings import FineTuneSettings, TrainingSettings

NEVER = 2**60
PROGRESS = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")


class Schedule:
    """Sets an optimizer's learning rate; this one leaves it alone."""

    def begin_step(self, step: int) -> None:
        """A step is about to be taken; the first has number 0."""

    def evaluated(self, loss: float) -> None:
        """A validation loss is known."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return {}

    def restore(self, state: dict[str, Any], learning_rate: float) -> None:
        """Go on from a checkpoint."""


class PlateauSchedule(Schedule):
    """Lowers the learning rate where the validation loss stops falling."""

    def __init__(self, optimizer: Optimizer, settings: TrainingSettings) -> None:
        self._optimizer = optimizer
        options: dict[str, Any] = {"factor": settings.plateau_factor, "patience": settings.plateau_patience}
        if settings.plateau_factor == 1:  # which torch refuses
            options = {"patience": NEVER}
        self._plateau = ReduceLROnPlateau(optimizer, **options)

    def evaluated(self, loss: float) -> None:
        """Lower the learning rate if the loss has not fallen for long enough."""
        self._plateau.step(loss)

    def state(self) -> dict[str, Any]:
        """The lowest loss, and how long ago it was."""
        whole = self._plateau.state_dict()
        return {name: whole[name] for name in PROGRESS}

    def restore(self, state: dict[str, Any], learning_rate: float) -> None:
        """Go on from a checkpoint."""
        self._plateau.load_state_dict({**self._plateau.state_dict(), **state})
        set_learning_rate(self._optimizer, learning_rate)


class LinearSchedule(Schedule):
    """Raises the learning rate to its highest in the first steps, then lowers it to 0 in a straight line."""

    def __init__(self, optimizer: Optimizer, settings: FineTuneSettings, total_steps: int) -> None:
        self._optimizer, self._highest, self._total = optimizer, settings.learning_rate, total_steps
        self._warmup = round(settings.warmup * total_steps)

    def begin_step(self, step: int) -> None:
        """Set the learning rate of a step."""
        if step < self._warmup:
            factor = step / self._warmup
        else:
            factor = max(0.0, (self._total - step) / max(1, self._total - self._warmup))
        set_learning_rate(self._optimizer, self._highest * factor)


def set_learning_rate(optimizer: Optimizer, value: float) -> None:
    """Set the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = value


def make_adam(network: nn.Module, settings: TrainingSettings) -> Optimizer:
    """Adam with an L2 penalty."""
    return torch.optim.Adam(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )


def make_adamw(network: nn.Module, settings: FineTuneSettings) -> Optimizer:
    """AdamW; biases and norms do not decay."""
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
