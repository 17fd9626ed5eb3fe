"""What the folder of a Hugging Face model says of it, without loading it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bidibeam.hypotheses import Direction
from bidibeam.models.checkpoint import tensor_shapes
from bidibeam.models.huggingface.directions import FIELD, JOINT

FACTS_FILE = "bidibeam.json"
"""What `bidibeam train --base` leaves beside a model."""


def training_facts(folder: Path) -> dict[str, Any]:
    """What `bidibeam train --base` left beside a model; nothing where it was trained elsewhere."""
    try:
        facts = json.loads((folder / FACTS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def described(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """What `bidibeam info` shows: the model, and its data and training where that was ours.

    Args:
        folder: The folder.
        config: What its config.json holds.

    Raises:
        RunError: If a file of weights is damaged.
    """
    facts = training_facts(folder)
    is_joint = config["model_type"] == JOINT
    counted = sum(
        math.prod(shape)
        for path in sorted(folder.glob("*.safetensors"))
        for shape in tensor_shapes(path).values()
    )
    told = {
        "folder": str(folder),
        "kind": config["model_type"],
        "direction": "both" if is_joint else config.get(FIELD, Direction.REGULAR.value),
        "parameters": facts.get("parameters", counted) or None,
        "vocabulary": config.get("vocab_size"),
        "base": facts.get("base"),
        "progress": {name: facts[name] for name in ("trained_on", "steps", "best") if facts.get(name)},
        "data": facts.get("data"),
        "training": facts.get("settings"),
    }
    return {name: value for name, value in told.items() if value}
