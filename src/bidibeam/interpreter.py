"""The interpreter's own habits, where they cost as much as the work: garbage, and how threads change over."""

from __future__ import annotations

import gc
import sys
import time
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


SELDOM, LATEST_S = 100, 10.0
"""How many times as long as a look through all objects takes passes before the next; and at most how long."""
SHORT_S = 0.002
"""After work as short as that the collector is left to itself."""
OWN_FROZEN = 5_000
"""Objects that the interpreter may have frozen; with NumPy loaded there are three times as many."""


class _Collector:
    """The collector after work that made many objects and hardly a cycle.

    Those are young, and it would walk them at once, and again when some of them are old. So they pass for
    old, and all objects are looked through by a clock: its own count of what is due begins anew with that.

    Args:
        now: The clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._due_s = now() + LATEST_S
        self._is_settled = self._is_taken = False

    def settle(self) -> None:
        """Collect now, and keep what is alive from the collector, until it is gone over."""
        gc.collect()
        self._is_settled = self._is_settled or not _is_something_frozen()
        gc.freeze()

    def go_over(self, since_s: float) -> None:
        """After work that began then; that, or other work, still keeps the collector off."""
        now_s = self.now()
        if now_s - since_s < SHORT_S or not _is_frozen_quickly() or self._is_somebody_elses():
            return
        if now_s < self._due_s:
            gc.freeze()
            gc.unfreeze()
            return
        self._due_s = now_s + LATEST_S  # for others, meanwhile
        gc.collect()
        took_s = self.now() - now_s
        self._due_s = now_s + took_s + min(SELDOM * took_s, LATEST_S)

    def _is_somebody_elses(self) -> bool:
        """Whether others keep objects from the collector, which then stay so.

        To count them takes as long as there are many: where there were once, there are for good.
        """
        if not self._is_settled:
            self._is_taken = self._is_taken or _is_something_frozen()
        return self._is_taken


def _is_something_frozen() -> bool:
    """Whether somebody froze all there was; Python 3.12 itself freezes some hundred objects."""
    return gc.get_freeze_count() > OWN_FROZEN


def _is_frozen_quickly() -> bool:
    """Whether to freeze all objects takes no time; where there is no interpreter's lock it does."""
    is_locked: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    return is_locked


def _turn(is_wanted: float) -> None:
    """Turn the collector on or off."""
    if is_wanted:
        gc.enable()
    else:
        gc.disable()


_COLLECTOR = _Collector()
_COLLECTING = _Lowered(gc.isenabled, _turn)
_TURN_S = _Lowered(sys.getswitchinterval, sys.setswitchinterval)


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave cyclic garbage alone for a while, in every thread.

    A batch of beams is tens of thousands of small objects. Making them sets off collections, each of which
    walks everything that is alive and finds nothing: beside a GPU they took as long as the search. So would
    the one that is due afterwards.
    """
    began_s = _COLLECTOR.now()
    _COLLECTING.lower(False)
    try:
        yield
    finally:
        try:
            _COLLECTOR.go_over(began_s)
        finally:
            _COLLECTING.restore(False)


def settle() -> None:
    """Prepare for long work: until the first hypotheses were made, what was loaded is not looked through.

    It would be, a third of a second each time, whenever enough was read; from then on it is by the clock.
    """
    _COLLECTOR.settle()


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
