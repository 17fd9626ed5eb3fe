"""A run directory and names to a working decoder: the one place where the parts meet."""

from __future__ import annotations

from bidibeam.api.decoders import load_decoder
from bidibeam.api.runs import Run, load_run

__all__ = ["Run", "load_decoder", "load_run"]
