"""What a model's folder says of it, without loading the model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bidibeam.models import checkpoint
from bidibeam.models.loading import TITLES, find_kind, get_kind
from bidibeam.training.logs import progress_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def describe_model(folder: Path) -> tuple[str, dict[str, Any]]:
    """Say what kind of model a folder holds, and all that is known of it.

    Raises:
        RunError: If a file is missing or damaged.
    """
    kind = find_kind(folder) if folder.is_dir() else "run"  # which says what is missing
    if kind == "run":
        metadata = describe_run(folder)
    elif kind == "huggingface":  # transformers takes seconds to import, and may be missing
        from bidibeam.models.huggingface.directions import describe_folder

        metadata = describe_folder(folder, checkpoint.hugging_face_config(folder) or {})
    else:
        metadata = get_kind(kind).describe(folder)
    title = TITLES.get(kind, kind)
    return title[0].upper() + title[1:], metadata


def describe_run(folder: Path) -> dict[str, Any]:
    """The network's shape, the data, and how far training came."""
    config = checkpoint.read_config(folder)
    shapes = checkpoint.tensor_shapes(folder / checkpoint.WEIGHTS_FILE)
    metadata = {
        "run": str(folder),
        "parameters": sum(math.prod(shape) for shape in shapes.values()),
        "vocabulary": config.vocabulary_size,
        "model": checkpoint.settings_mapping(config.model),
        "data": config.facts.get("data", {}),
        "training": config.facts.get("training", {}),
        "progress": read_progress(folder, config.facts),
    }
    if "exported" in config.facts:
        metadata["exported"] = {name: config.facts["exported"].get(name) for name in ("from", "precision")}
    return metadata


def read_progress(folder: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """How far training came: by the run's own log, or as an export remembers it."""
    if "exported" not in metadata:
        return progress_of(folder)
    kept: dict[str, Any] = metadata["exported"].get("progress", {})
    return kept
