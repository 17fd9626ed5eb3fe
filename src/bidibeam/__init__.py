"""Decode from both ends."""

from __future__ import annotations

from bidibeam._version import __version__

__all__ = ["__version__"]
