"""Functions as machine code, compiled by Numba when they are first called and kept on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

Function = TypeVar("Function", bound="Callable[..., Any]")


def compiled(function: Function) -> Function:
    """The function as machine code that frees the interpreter's lock."""
    try:
        return cast("Function", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # nowhere to write: it is compiled again in each process
        return cast("Function", numba.njit(nogil=True)(function))
