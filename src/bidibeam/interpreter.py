"""The interpreter's own habits, where they cost as much as the work: garbage, and turns of threads."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


class _Lowered:
    """A setting of the whole interpreter that blocks in any threads lower for a while.

    As long as a block is open it has the lowest value that any of them wants, and after the last of them that
    of before the first.

    Args:
        read: What it is.
        write: Set it.
    """

    def __init__(self, read: Callable[[], float], write: Callable[[float], None]) -> None:
        self._read, self._write = read, write
        self._lock = Lock()
        self._before = read()
        self._wanted: list[float] = []

    def lower(self, value: float) -> None:
        """Open a block."""
        with self._lock:
            if not self._wanted:
                self._before = self._read()
            self._wanted.append(value)
            self._write(min((self._before, *self._wanted)))

    def restore(self, value: float) -> None:
        """Close a block that wanted this value."""
        with self._lock:
            self._wanted.remove(value)
            self._write(min((self._before, *self._wanted)))


def _collect(is_wanted: float) -> None:
    """Turn the collector on or off. What was made while it was off is then old, so that none walks it."""
    if not is_wanted:
        gc.disable()
    elif not gc.isenabled():
        if not gc.get_freeze_count():  # somebody else's frozen objects stay so
            gc.freeze()
            gc.unfreeze()
        gc.enable()


_COLLECTING = _Lowered(gc.isenabled, _collect)
_TURN_S = _Lowered(sys.getswitchinterval, sys.setswitchinterval)


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave cyclic garbage alone for a while, in every thread.

    A batch of beams is tens of thousands of small objects. Making them sets off collections, each of which
    walks everything that is alive and finds nothing: beside a GPU they took as long as the search. So would
    the one that is due afterwards.
    """
    _COLLECTING.lower(False)
    try:
        yield
    finally:
        _COLLECTING.restore(False)


@contextmanager
def taking_turns(longest_s: float = 0.0002) -> Iterator[None]:
    """Let threads take turns more often than every 5 ms, Python's default.

    A thread that feeds a device is away for a moment at every step, and would then have to wait for its turn
    longer than the step takes.
    """
    _TURN_S.lower(longest_s)
    try:
        yield
    finally:
        _TURN_S.restore(longest_s)
