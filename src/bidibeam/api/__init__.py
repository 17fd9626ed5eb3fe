"""A model and names to a working decoder: the one place where the parts meet."""

from __future__ import annotations

from pathlib import Path

from bidibeam.api.decoders import load_decoder
from bidibeam.models.loading import bundled_path, load
from bidibeam.models.run import RunModel

__all__ = ["load", "load_decoder", "load_run"]


def load_run(path: Path | str | None = None, *, device: str | None = None) -> RunModel:
    """Load a run directory, or the model that comes with the package.

    Args:
        path: What `bidibeam train --out` or `bidibeam export --out` wrote; None for the package's own model.
        device: "cpu", "cuda", "cuda:1"; the first GPU, if there is one, by default.

    Raises:
        RunError: If a file is missing, damaged or of another version.
        SettingsError: If there is no such device.
    """
    return RunModel.load(bundled_path() if path is None else path, device=device)
