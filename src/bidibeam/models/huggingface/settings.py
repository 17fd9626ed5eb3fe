"""How a Hugging Face model is fine-tuned."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bidibeam.errors import SettingsError

PRECISIONS = ("auto", "float32", "bf16")
KEPT = ("best", "last")
DIRECTIONS = ("regular", "reverse", "both")
"""What can be trained; both are one model with a shared encoder."""


@dataclass(frozen=True, slots=True)
class FineTuneSettings:
    """What people commonly fine-tune with; weights that start fresh want a higher learning rate."""

    seed: int = 0
    """Seeds fresh weights, dropout and the order of the data."""
    epochs: int = 3
    """Passes over the training pairs."""
    max_steps: int = 0
    """Most optimizer steps; 0 leaves it to `epochs`."""
    batch_size: int = 32
    """Pairs a batch, on each device."""
    accumulation: int = 1
    """Batches a step: gradients of so many are added up."""
    learning_rate: float = 5e-5
    """AdamW's learning rate at its highest; it falls to 0 in a straight line."""
    warmup: float = 0.06
    """The share of all steps in which the learning rate rises to it."""
    weight_decay: float = 0.01
    """AdamW's."""
    gradient_norm: float = 1.0
    """Gradients longer than this are scaled down to it."""
    label_smoothing: float = 0.0
    """The share of probability spread over all tokens, in training alone."""
    early_stopping: int = 0
    """Evaluations without improvement before training stops; 0 runs all epochs."""
    keep: str = "best"
    """Which weights are saved: the best by validation loss, or the last."""
    max_source_length: int = 256
    """Tokens of a source; of a longer one the last ones are read."""
    max_response_length: int = 128
    """Tokens of a response, its end counted; pairs with a longer one are left out."""
    separator: str = "\n"
    """What stands between source and response for a decoder-only model; its start token if this has none."""
    precision: str = "auto"
    """float32, bf16, or auto: bf16 where a GPU has it, float32 elsewhere."""
    log_every: int = 50
    """Steps between reports of the training loss."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulation", "log_every", "max_source_length"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        self._require(self.max_response_length >= 2, "max_response_length", "at least 2")
        for name in ("max_steps", "early_stopping", "weight_decay"):
            self._require(getattr(self, name) >= 0, name, "0 or more")
        for name in ("learning_rate", "gradient_norm"):
            value = getattr(self, name)
            self._require(value > 0 and math.isfinite(value), name, "a positive number")
        for name in ("warmup", "label_smoothing"):
            self._require(0 <= getattr(self, name) < 1, name, "at least 0 and below 1")
        self._require(0 <= self.seed < 2**32, "seed", "0 or more, and below 2^32")
        self._require(self.keep in KEPT, "keep", f"one of {', '.join(KEPT)}")
        self._require(self.precision in PRECISIONS, "precision", f"one of {', '.join(PRECISIONS)}")

    def _require(self, is_met: bool, name: str, rule: str) -> None:
        if not is_met:
            raise SettingsError(f"{name} is {getattr(self, name)!r}; it must be {rule}.")
