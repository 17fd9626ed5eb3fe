"""A run directory, loaded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from bidibeam.api.bundled import bundled_path
from bidibeam.data.tokenization import Tokenizer
from bidibeam.errors import SettingsError
from bidibeam.models import checkpoint
from bidibeam.models.gru.network import BidirectionalModel

FINGERPRINT_DIGITS = 12


@dataclass(frozen=True)
class Run:
    """A trained run, loaded.

    Attributes:
        path: Its directory.
        model: The network with the best weights.
        tokenizer: Its tokenizer.
        config: What config.json says.
        device: Where the network is.
    """

    path: Path
    model: BidirectionalModel
    tokenizer: Tokenizer
    config: checkpoint.ModelConfig
    device: torch.device

    @property
    def max_source_length(self) -> int | None:
        """The longest source that training saw."""
        settings = self.config.facts.get("data", {}).get("settings", {})
        value = settings.get("max_source_length")
        return value if isinstance(value, int) else None

    @cached_property
    def fingerprint(self) -> str:
        """Tells these weights from any others."""
        return fingerprint_of(self.path / checkpoint.WEIGHTS_FILE)


def fingerprint_of(weights: Path) -> str:
    """A short hash of a file of weights."""
    with weights.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:FINGERPRINT_DIGITS]


def load_run(path: Path | str | None = None, *, device: str | None = None) -> Run:
    """Load a run directory, or the model that comes with the package.

    Args:
        path: What `bidibeam train --out` or `bidibeam export --out` wrote; None for the package's own model.
        device: "cpu", "cuda", "cuda:1"; the first GPU, if there is one, by default.

    Raises:
        RunError: If a file is missing, damaged or of another version.
        SettingsError: If there is no such device.
    """
    folder = bundled_path() if path is None else Path(path)
    chosen = chosen_device(device)
    config = checkpoint.read_config(folder)
    tokenizer = Tokenizer.load(folder / checkpoint.TOKENIZER_FILE)
    model = BidirectionalModel.from_pretrained(folder, device=chosen)
    checkpoint.check_vocabulary(folder, model.vocabulary_size, tokenizer.vocabulary_size)
    return Run(folder, model, tokenizer, config, chosen)


def chosen_device(name: str | None) -> torch.device:
    """A device by its name, seen to compute; the first GPU, if there is one, by default.

    Raises:
        SettingsError: If there is none of that name.
    """
    if name is None:
        return checkpoint.default_device()
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise SettingsError(
            f"There is no device {name!r} here that can compute. Leave the device out, or use cpu."
        ) from error
    return device
