"""Optimizers with their learning-rate schedules: Adam with a plateau, AdamW with warm-up and linear decay."""

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
    """An optimizer, and what sets its learning rate; this one leaves it alone."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer

    @property
    def learning_rate(self) -> float:
        """The learning rate in force."""
        return float(self.optimizer.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = value

    def begin_step(self, step: int) -> None:
        """A step is about to be taken; the first has number 0."""

    def after_evaluation(self, loss: float) -> None:
        """A validation loss is known."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return {}

    def restore(self, state: dict[str, Any], learning_rate: float) -> None:
        """Go on from a checkpoint."""


class PlateauSchedule(Schedule):
    """Adam with an L2 penalty; where the validation loss stops falling, the learning rate is lowered."""

    def __init__(self, network: nn.Module, settings: TrainingSettings) -> None:
        rate, decay = settings.learning_rate, settings.weight_decay
        super().__init__(torch.optim.Adam(network.parameters(), lr=rate, weight_decay=decay, fused=True))
        options: dict[str, Any] = {"factor": settings.plateau_factor, "patience": settings.plateau_patience}
        if settings.plateau_factor == 1:  # which torch refuses
            options = {"patience": NEVER}
        self._plateau = ReduceLROnPlateau(self.optimizer, **options)

    def after_evaluation(self, loss: float) -> None:
        """Lower the learning rate if the loss has not fallen for long enough."""
        self._plateau.step(loss)

    def state(self) -> dict[str, Any]:
        """The lowest loss, and how long ago it was."""
        whole = self._plateau.state_dict()
        return {name: whole[name] for name in PROGRESS}

    def restore(self, state: dict[str, Any], learning_rate: float) -> None:
        """Go on from a checkpoint."""
        self._plateau.load_state_dict({**self._plateau.state_dict(), **state})
        self.learning_rate = learning_rate


class LinearSchedule(Schedule):
    """AdamW; its learning rate rises to its highest in the first steps, then falls to 0 in a straight line.

    Biases and norms do not decay.
    """

    def __init__(self, network: nn.Module, settings: FineTuneSettings, total_steps: int) -> None:
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        groups = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": settings.weight_decay},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ]
        super().__init__(torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True))
        self._highest, self._total = settings.learning_rate, total_steps
        self._warmup = round(settings.warmup * total_steps)

    def begin_step(self, step: int) -> None:
        """Set the learning rate of a step."""
        if step < self._warmup:
            factor = step / self._warmup
        else:
            factor = max(0.0, (self._total - step) / max(1, self._total - self._warmup))
        self.learning_rate = self._highest * factor
