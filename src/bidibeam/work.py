"""Counted work: what a decoder did, in units that no machine changes.

with counting() as work:
    decoder.decode(sources)
print(work.projected_rows)
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock, local
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(slots=True)
class Work:
    """What was done while it was counted."""

    projected_rows: int = 0  # decoder states multiplied with the whole output projection: most of a search
    compared_pairs: int = 0  # pairs of hypotheses whose similarity was asked for
    exact_transports: int = 0  # optimal transports solved for them; the others were settled by a bound

    def __str__(self) -> str:
        parts = [f"{self.projected_rows:,} rows projected"] if self.projected_rows else []
        if self.compared_pairs:
            parts.append(f"{self.compared_pairs:,} pairs compared")
        if self.exact_transports:
            parts.append(f"{self.exact_transports:,} transports solved exactly")
        return ", ".join(parts) or "nothing counted"


class StoppedError(Exception):
    """Work was given up, since nobody wants it any more."""


_LOCK = Lock()
_OPEN: list[Work] = []
_OWN = local()


@contextmanager
def wanted_while(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """Give up the work of this thread, by StoppedError, at the first step at which nobody wants it.

    A step is what is counted: one of our own search, a matrix of similarities.
    """
    _OWN.is_wanted = is_wanted
    try:
        yield
    finally:
        del _OWN.is_wanted


@contextmanager
def counting() -> Iterator[Work]:
    """Count the work that this process does in the block, in whichever thread."""
    work = Work()
    with _LOCK:
        _OPEN.append(work)
    try:
        yield work
    finally:
        with _LOCK:
            _OPEN[:] = [other for other in _OPEN if other is not work]


def count(*, projected_rows: int = 0, compared_pairs: int = 0, exact_transports: int = 0) -> None:
    """Add to every open count; give up work of this thread that nobody wants."""
    is_wanted = getattr(_OWN, "is_wanted", None)
    if is_wanted is not None and not is_wanted():
        raise StoppedError
    if not _OPEN:
        return
    with _LOCK:
        for work in _OPEN:
            work.projected_rows += projected_rows
            work.compared_pairs += compared_pairs
            work.exact_transports += exact_transports
