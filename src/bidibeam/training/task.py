"""What the loop needs of whatever it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

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


class Batches(Protocol):
    """The pairs of a split, ready to be cut into batches on a device."""

    def __len__(self) -> int:
        """The number of pairs."""
        ...

    def plan(self, *, seed: Sequence[int] | None) -> list[BatchPlan]:
        """Cut the split into batches of one shape each, shuffled if there is a seed."""
        ...

    def batch(self, plan: BatchPlan, *, rows: int | None = None) -> Sequence[Tensor]:
        """Build one batch, filled up with pairs that cost nothing to `rows` of them."""
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
        """Write what `--resume` knows a started training by; a checkpoint is there already."""
        ...

    def save_weights(self, run: Path) -> None:
        """Keep the weights as they are now: those that the training ends with, so far."""
        ...


def describe_data(data: PreparedData) -> dict[str, Any]:
    """What is written beside a model of the data it was trained on."""
    kept = {name: data.info[name] for name in ("corpus", "fingerprint", "pairs", "settings")}
    return {"path": str(data.path.resolve()), **kept}
