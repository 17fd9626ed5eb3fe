"""What the loop needs of whatever it trains, and what both kinds of training write and check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from bidibeam.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import torch
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from bidibeam.data.batching import BatchPlan
    from bidibeam.data.prepared import PreparedData
    from bidibeam.hypotheses import Direction
    from bidibeam.training.optimization import Schedule
    from bidibeam.training.settings import LoopSettings

MAY_CHANGE_ON_RESUME = {"epochs", "max_steps", "early_stopping", "save_every", "log_every", "tensorboard"}


class Batches(Protocol):
    """The pairs of a split, ready to be cut into batches on a device."""

    def __len__(self) -> int: ...

    def plan(self, *, seed: Sequence[int] | None) -> list[BatchPlan]:
        """Cut the split into batches of one shape each, shuffled if there is a seed."""
        ...

    def batch(self, plan: BatchPlan, *, rows: int | None = None) -> Sequence[Tensor]:
        """Build one batch, filled up with rows that cost nothing to `rows` of them."""
        ...


class TrainingTask(Protocol):
    """A model to train, and its data."""

    @property
    def network(self) -> nn.Module:
        """Called with the tensors of a batch, it returns `Losses`."""
        ...

    @property
    def directions(self) -> Sequence[Direction]:
        """The directions it learns, in the order of its losses."""
        ...

    @property
    def settings(self) -> LoopSettings:
        """How to train it."""
        ...

    @property
    def loss_options(self) -> Mapping[str, Any]:
        """Further arguments of the network in training, not in evaluations."""
        ...

    @property
    def shares(self) -> Sequence[float]:
        """Each direction's share of the loss that evaluations compare."""
        ...

    @property
    def is_capturable(self) -> bool:
        """Whether its step may be captured as a CUDA graph."""
        ...

    def batches(self, split: str, device: torch.device) -> Batches:
        """The pairs of "train" or "validation"."""
        ...

    def optimizer(self) -> Optimizer:
        """The optimizer of the network's parameters."""
        ...

    def schedule(self, optimizer: Optimizer, total_steps: int) -> Schedule:
        """What sets the optimizer's learning rate."""
        ...

    def mark_started(self, run: Path) -> None:
        """Write what tells that a training was started; a checkpoint is there already."""
        ...

    def save_weights(self, run: Path) -> None:
        """Keep the weights as they are now: those that the training ends with, so far."""
        ...


def describe_data(data: PreparedData) -> dict[str, Any]:
    """What is written beside a model of the data it was trained on."""
    kept = {name: data.info[name] for name in ("corpus", "fingerprint", "pairs", "settings")}
    return {"path": str(data.path.resolve()), **kept}


def check_same_settings(run: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Make sure that a training goes on with what it began with.

    Raises:
        SettingsError: Naming the first setting that differs.
    """
    for name in sorted(set(before) & set(now) - MAY_CHANGE_ON_RESUME):
        if before[name] != now[name]:
            raise SettingsError(
                f"{run} began with {name}={before[name]!r}, not {now[name]!r}. Resume with the same "
                "settings, or choose another directory."
            )
