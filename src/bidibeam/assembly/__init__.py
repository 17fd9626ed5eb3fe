"""A run directory and names to a working decoder: the one place where the parts meet."""

from __future__ import annotations

from bidibeam.assembly.decoders import load_decoder
from bidibeam.assembly.runs import Run, load_run

__all__ = ["Run", "load_decoder", "load_run"]
