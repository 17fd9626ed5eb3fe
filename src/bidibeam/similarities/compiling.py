"""Compiles kernels with Numba when they are first called, and keeps the machine code on disk.

Numba compiles a kernel again when its own file changes, so kernels call only kernels of their own file.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
from numba.core import event

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")

_logger = logging.getLogger(__name__)


class Announcer(event.Listener):  # type: ignore[misc]
    """Logs once per process that our kernels are being compiled, because the call then takes seconds."""

    def __init__(self) -> None:
        self.is_done = False

    def on_start(self, event: Any) -> None:
        """Is called before a function is compiled, but not where its machine code is found on disk."""
        module = event.data["dispatcher"].py_func.__module__ or ""
        if not self.is_done and module.startswith(__package__):
            self.is_done = True
            _logger.warning("Compiling kernels; this happens once, they are kept ...")

    def on_end(self, event: Any) -> None:
        """Is called afterwards."""


announcer = Announcer()
event.register("numba:compile", announcer)


def compile_kernel(function: Function, *, fastmath: bool | set[str] = False) -> Function:
    """Returns the function as machine code that releases the interpreter's lock.

    `fastmath` says whether sums may be taken in any order, or which of LLVM's fast-math flags are set.
    """
    try:
        return cast("Function", numba.njit(cache=True, nogil=True, fastmath=fastmath)(function))
    except RuntimeError:  # there is nowhere to write: each process compiles it
        return cast("Function", numba.njit(nogil=True, fastmath=fastmath)(function))
