"""How a model is trained: the settings that every training has, and those of each kind of model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from bidibeam.errors import check_setting

PRECISIONS = ("auto", "float32", "bf16")
KEPT = ("best", "last")
LARGEST = 1_000_000_000
"""What is more than this counts nothing that a training has: it is a mistake."""
HUGGING_FACE = "huggingface"
"""The architecture of a run whose model is made from a config of transformers."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """All that decides a training run, besides its data."""

    model: Any
    """The shape of the network, its class's `Settings`; of a Hugging Face model the values of its config, and
    `directions`."""
    training: Any
    """How it is trained: `FineTuneSettings` for a Hugging Face model."""
    architecture: str = "gru"
    """A name in `NETWORKS`, or "huggingface"."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What the training loop is told, whatever it trains."""

    section: ClassVar[str] = ""
    seed: int = 0
    """Seeds fresh weights, dropout and the order of the data."""
    epochs: int = 20
    """Most passes over the training pairs."""
    max_steps: int = 0
    """Most optimizer steps; 0 leaves it to `epochs`."""
    batch_size: int = 64
    """Pairs a batch, on each device."""
    accumulation: int = 1
    """Batches a step, on each device: gradients of so many are added up."""
    learning_rate: float = 1e-3
    """The optimizer's learning rate."""
    weight_decay: float = 0.0
    """The optimizer's weight decay."""
    gradient_norm: float = 5.0
    """Gradients longer than this are scaled down to it."""
    label_smoothing: float = 0.0
    """The share of probability spread over all tokens, in training alone."""
    early_stopping: int = 4
    """Evaluations without improvement before training stops; 0 runs all epochs."""
    keep: str = "best"
    """Which weights are kept: the best by validation loss, or the last."""
    evaluate_every: int = 0
    """Steps between evaluations; 0 evaluates once an epoch."""
    save_every: int = 500
    """Steps between checkpoints, besides one at every evaluation; 0 saves at evaluations alone."""
    log_every: int = 50
    """Steps between lines in metrics.jsonl."""
    precision: str = "auto"
    """float32, bf16, or auto: bf16 where a GPU has it, float32 elsewhere."""
    cuda_graphs: bool = True
    """On one GPU, replay each batch shape's step as a captured graph."""
    tensorboard: bool = True
    """Write TensorBoard logs beside metrics.jsonl."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulation", "log_every"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
            self._require(getattr(self, name) <= LARGEST, name, f"at most {LARGEST:,}")
        for name in ("max_steps", "early_stopping", "evaluate_every", "save_every", "weight_decay"):
            self._require(getattr(self, name) >= 0, name, "0 or more")
            self._require(getattr(self, name) <= LARGEST, name, f"at most {LARGEST:,}")
        for name in ("learning_rate", "gradient_norm"):
            self._require(0 < getattr(self, name) < math.inf, name, "a positive number")
        self._require(0 <= self.label_smoothing < 1, "label_smoothing", "at least 0 and below 1")
        self._require(self.keep in KEPT, "keep", f"one of {', '.join(KEPT)}")
        self._require(self.precision in PRECISIONS, "precision", f"one of {', '.join(PRECISIONS)}")

    def _require(self, is_met: bool, name: str, rule: str) -> None:
        check_setting(is_met, f"{self.section}{name}", getattr(self, name), rule)


@dataclass(frozen=True, slots=True)
class TrainingSettings(LoopSettings):
    """Training of a network of our own, the paper's optimisation by default."""

    section: ClassVar[str] = "training."
    learning_rate: float = 1e-3
    """Adam's learning rate at the start."""
    weight_decay: float = 1e-5
    """L2 penalty, added to the gradient as in PyTorch's Adam."""
    regular_weight: float = 0.5
    """Alpha: the regular direction's share of the loss."""
    plateau_factor: float = 0.5
    """What the learning rate is multiplied by when the validation loss stops falling; 1 leaves it alone."""
    plateau_patience: int = 0
    """Evaluations without improvement before that happens."""

    def __post_init__(self) -> None:
        LoopSettings.__post_init__(self)
        self._require(0 <= self.seed < 2**63, "seed", "0 or more, and below 2^63")
        self._require(self.plateau_patience >= 0, "plateau_patience", "0 or more")
        self._require(0 <= self.regular_weight <= 1, "regular_weight", "between 0 and 1")
        self._require(0 < self.plateau_factor <= 1, "plateau_factor", "above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class FineTuneSettings(LoopSettings):
    """What people commonly fine-tune with; weights that start fresh want a higher learning rate."""

    epochs: int = 3
    """Passes over the training pairs."""
    batch_size: int = 32
    learning_rate: float = 5e-5
    """AdamW's learning rate at its highest; it falls to 0 in a straight line."""
    warmup: float = 0.06
    """The share of all steps in which the learning rate rises to it."""
    weight_decay: float = 0.01
    """AdamW's; biases and norms have none."""
    gradient_norm: float = 1.0
    early_stopping: int = 0
    max_source_length: int = 256
    """Tokens of a source; of a longer one the last ones are read."""
    max_response_length: int = 128
    """Tokens of a response, its end counted; pairs with a longer one are left out."""
    separator: str = "\n"
    """What stands between source and response for a decoder-only model; its start token if this has none."""

    def __post_init__(self) -> None:
        LoopSettings.__post_init__(self)
        self._require(self.max_source_length >= 1, "max_source_length", "at least 1")
        self._require(self.max_response_length >= 2, "max_response_length", "at least 2")
        self._require(0 <= self.warmup < 1, "warmup", "at least 0 and below 1")
        self._require(0 <= self.seed < 2**32, "seed", "0 or more, and below 2^32")
