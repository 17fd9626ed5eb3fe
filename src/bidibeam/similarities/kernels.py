"""Functions as machine code, compiled by Numba when they are first called and kept on disk."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
from numba.core import event

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")

_logger = logging.getLogger(__name__)


class _Announcer(event.Listener):  # type: ignore[misc]
    """Says, once a process, that one of our kernels is being compiled: the call takes seconds."""

    def __init__(self) -> None:
        self.is_done = False

    def on_start(self, event: Any) -> None:
        """Before a function is compiled; one that was found on disk is not."""
        module = event.data["dispatcher"].py_func.__module__ or ""
        if not self.is_done and module.startswith("bidibeam."):
            self.is_done = True
            _logger.warning("Compiling the similarity's kernels; this happens once, they are kept ...")

    def on_end(self, event: Any) -> None:
        """After it."""


announcer = _Announcer()
event.register("numba:compile", announcer)


def compiled(function: Function) -> Function:
    """The function as machine code that frees the interpreter's lock."""
    try:
        return cast("Function", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # nowhere to write: it is compiled again in each process
        return cast("Function", numba.njit(nogil=True)(function))
