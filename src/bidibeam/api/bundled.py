"""The model that comes with the package: what is used where no run is named."""

from __future__ import annotations

from pathlib import Path

import bidibeam
from bidibeam.errors import RunError

FOLDER = "bundled"


def bundled_path() -> Path:
    """Its directory, which loads like any run.

    Raises:
        RunError: If this installation came without it.
    """
    folder = Path(bidibeam.__file__).parent / FOLDER
    if not folder.is_dir():
        raise RunError(
            f"This installation of bidibeam came without a model: there is no {folder}. Name a run, or "
            "install bidibeam again."
        )
    return folder
