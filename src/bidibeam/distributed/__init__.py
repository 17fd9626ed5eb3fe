"""Work on many machines, by Ray Data: shards of sources or lists in, shards of answers out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bidibeam.distributed.batches import BatchDecoder as BatchDecoder
    from bidibeam.distributed.batches import BatchRanker as BatchRanker

__all__ = ["BatchDecoder", "BatchRanker"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'bidibeam.distributed' has no attribute {name!r}")
    return getattr(import_module("bidibeam.distributed.batches"), name)
