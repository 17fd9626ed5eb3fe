"""Kernels for a GPU that may not be there: without them torch's own are used."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

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
