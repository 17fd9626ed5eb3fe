"""How a network is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bidibeam.errors import SettingsError

PRECISIONS = ("auto", "float32", "bf16")
KEPT = ("best", "last")


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """The paper's optimisation by default."""

    seed: int = 0
    """Seeds initial weights, dropout and the order of the data."""
    epochs: int = 20
    """Most passes over the training pairs."""
    max_steps: int = 0
    """Most optimizer steps; 0 leaves it to `epochs`."""
    batch_size: int = 64
    """Pairs a step, on each device."""
    learning_rate: float = 1e-3
    """Adam's learning rate at the start."""
    weight_decay: float = 1e-5
    """L2 penalty, added to the gradient as in PyTorch's Adam."""
    gradient_norm: float = 5.0
    """Gradients longer than this are scaled down to it."""
    regular_weight: float = 0.5
    """Alpha: the regular direction's share of the loss."""
    plateau_factor: float = 0.5
    """What the learning rate is multiplied by when the validation loss stops falling; 1 leaves it alone."""
    plateau_patience: int = 0
    """Evaluations without improvement before that happens."""
    early_stopping: int = 4
    """Evaluations without improvement before training stops; 0 runs all epochs."""
    keep: str = "best"
    """Which weights the run ends with: the best by validation loss, or the last."""
    evaluate_every: int = 0
    """Steps between evaluations; 0 evaluates once an epoch."""
    save_every: int = 500
    """Steps between checkpoints, besides one at every evaluation; 0 saves at evaluations alone."""
    log_every: int = 50
    """Steps between lines in metrics.jsonl."""
    precision: str = "auto"
    """float32, bf16, or auto: bf16 where the device has it, float32 elsewhere."""
    cuda_graphs: bool = True
    """On one GPU, replay each batch shape's step as a captured graph."""
    tensorboard: bool = True
    """Write TensorBoard logs beside the checkpoints."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "log_every"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        for name in (
            "max_steps",
            "plateau_patience",
            "early_stopping",
            "evaluate_every",
            "save_every",
            "weight_decay",
        ):
            self._require(getattr(self, name) >= 0, name, "0 or more")
        for name in ("learning_rate", "gradient_norm"):
            value = getattr(self, name)
            self._require(value > 0 and math.isfinite(value), name, "a positive number")
        self._require(0 <= self.seed < 2**63, "seed", "0 or more, and below 2^63")
        self._require(0 <= self.regular_weight <= 1, "regular_weight", "between 0 and 1")
        self._require(0 < self.plateau_factor <= 1, "plateau_factor", "above 0 and at most 1")
        self._require(self.keep in KEPT, "keep", f"one of {', '.join(KEPT)}")
        self._require(self.precision in PRECISIONS, "precision", f"one of {', '.join(PRECISIONS)}")

    def _require(self, is_met: bool, name: str, rule: str) -> None:
        if not is_met:
            raise SettingsError(f"training.{name} is {getattr(self, name)!r}; it must be {rule}.")
