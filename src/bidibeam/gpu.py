"""Kernels for a GPU that may not be there: without them torch's own are used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

Kernel = TypeVar("Kernel")

_LOG = logging.getLogger(__name__)


def if_it_works(load: Callable[[], Kernel], trial: Callable[[Kernel], object]) -> Kernel | None:
    """What `load` imports, if it is there and survives a trial; None otherwise.

    Triton may be missing, find no compiler, or not know the GPU; none of it is an error.
    """
    try:
        kernel = load()
        trial(kernel)
    except Exception as error:
        _LOG.debug("kernel not used: %s", error)
        return None
    return kernel


def kernels_on(
    device: torch.device, load: Callable[[], Kernel], trial: Callable[[Kernel], object]
) -> Kernel | None:
    """What `load` imports, if the device is a GPU on which it survives a trial; None elsewhere."""
    if device.type != "cuda":
        return None
    with current(device):
        return if_it_works(load, trial)


def current(device: torch.device) -> AbstractContextManager[object]:
    """A block in which a GPU is the current one, on which Triton's kernels and events are; else nothing."""
    import torch

    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
