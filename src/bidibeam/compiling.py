"""Functions as machine code, compiled by Numba when they are first called and kept on disk."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import cache
from pathlib import Path
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
        if not self.is_done and module.startswith(("bidibeam.search", "bidibeam.models")):
            self.is_done = True
            _logger.warning("Compiling kernels; this happens once, they are kept ...")

    def on_end(self, event: Any) -> None:
        """After it."""


announcer = _Announcer()
event.register("numba:compile", announcer)

SHARED = Path(__file__).parent / "search" / "summary.py"
"""Where functions are that kernels of other folders call, too."""


def is_on() -> bool:
    """Whether Numba compiles: kernels that have something of the machine's in them are none without it."""
    return not numba.config.DISABLE_JIT


def compiled(function: Function, *, fastmath: bool | set[str] = False) -> Function:
    """The function as machine code that frees the interpreter's lock.

    What is kept on disk is made anew when a file in the function's folder changes, or `SHARED`: its code has
    that of the functions there that it calls.

    Args:
        function: What to compile.
        fastmath: Whether sums may be taken in any order, which is faster and differs in the last bits; or
            which of LLVM's liberties may be taken.
    """
    try:
        made = numba.njit(cache=True, nogil=True, fastmath=fastmath)(function)
    except RuntimeError:  # nowhere to write: it is compiled again in each process
        return cast("Function", numba.njit(nogil=True, fastmath=fastmath)(function))
    with suppress(AttributeError):  # another Numba, which looks at the function's own file alone
        made._cache._cache_file._source_stamp = _stamp(Path(function.__code__.co_filename).parent)
    return cast("Function", made)


def fast(function: Function) -> Function:
    """The same with sums in any order: faster, and different in the last bits."""
    return compiled(function, fastmath=True)


@cache
def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Tells a folder's sources from what they were."""
    found = ((path.name, path.stat()) for path in (*sorted(folder.glob("*.py")), SHARED))
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)
