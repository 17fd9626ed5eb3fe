"""A model that CTranslate2 makes of another, and how it searches."""

from __future__ import annotations

from pathlib import Path

import bidibeam
from bidibeam.api.export import export_converted
from bidibeam.models.base import Model
from bidibeam.search.settings import SearchSettings

SEARCH = SearchSettings(beam_size=6, max_length=7, stopping="constant")


def convert(model: Model, out: Path, quantization: str = "float32") -> Model:
    """The model that CTranslate2 makes of another."""
    export_converted(model, out, quantization=quantization, overwrite=False)
    return bidibeam.load(out)
