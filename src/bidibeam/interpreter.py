"""The interpreter's own habits, where they cost as much as the work: garbage, and turns of threads."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import TypeVar

Item = TypeVar("Item")


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


MANY = 10_000
"""Objects, made while none was collected, that it would take long to walk."""


def _collect(is_wanted: float) -> None:
    """Turn the collector on or off; of what was made meanwhile, if it is much, none is walked."""
    if not is_wanted:
        gc.disable()
    elif not gc.isenabled():
        if gc.get_count()[0] > MANY and not _is_something_frozen():
            gc.freeze()
            gc.unfreeze()
        gc.enable()


def _is_something_frozen() -> bool:
    """Whether somebody else keeps objects from the collector, which then stay so.

    To count them takes as long as there are many: where there were some once, there are for good.
    """
    global _FROZEN
    _FROZEN = _FROZEN or gc.get_freeze_count() > 0
    return _FROZEN


_FROZEN = False


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


class _OfThread(local):
    turns: Turns | None = None


_OWN = _OfThread()


class Turns:
    """Threads of which one at a time does the interpreter's work, in the order in which they ask.

    The interpreter lets one thread work at a time anyway, but changes over at moments of its own choosing:
    one that feeds a device would wait for another at each of its hundred small calls. Here a thread keeps its
    turn until it waits for something (`away`), or can spare a moment (`pause`).
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_taken = False
        self._waiting: deque[Lock] = deque()

    @contextmanager
    def mine(self) -> Iterator[None]:
        """This thread's turn, when it comes."""
        self.acquire()
        _OWN.turns = self
        try:
            yield
        finally:
            _OWN.turns = None
            self.release()

    def acquire(self, blocking: bool = True) -> bool:
        """Wait for a turn, or say whether it came at once."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            if not blocking:
                return False
            called = Lock()
            called.acquire()
            self._waiting.append(called)
        return called.acquire()

    def release(self) -> None:
        """Hand the turn to whoever has waited longest."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)


@contextmanager
def away() -> Iterator[None]:
    """Leave this thread's turn to others, if it has one, while it waits for something."""
    turns = _OWN.turns
    if turns is None:
        yield
        return
    turns.release()
    try:
        yield
    finally:
        turns.acquire()


@contextmanager
def holding(lock: Turns | Lock) -> Iterator[None]:
    """Hold a lock that is held across an `away`: whoever waits for it must not keep the turn."""
    if not lock.acquire(blocking=False):
        with away():
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def pause() -> None:
    """Let others go first, if this thread has the turn and somebody waits for it."""
    if _OWN.turns is not None and _OWN.turns.is_wanted:
        with away():
            pass


def pausing(items: Iterable[Item], every: int) -> Iterator[Item]:
    """The items, with a `pause` now and then."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % every == 0:
            pause()
