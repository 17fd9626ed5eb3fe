"""Threads that take turns, at the interpreter and at a device.

The interpreter lets one thread work at a time anyway, but changes over at moments of its own choosing: one
that feeds a device would wait for another at each of its hundred small calls. Here a thread keeps its turn
until it waits for something (`away`), or can spare a moment (`pause`). Whoever feeds the device goes before
the others (`first_in_line`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import TypeVar

Item = TypeVar("Item")


class Turns:
    """A line of threads, of which one at a time has the turn."""

    def __init__(self) -> None:
        self.lock = Lock()
        self._is_taken = False
        self._waiting: deque[Place] = deque()

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        """A copy has threads of its own."""
        return Turns, ()

    def place(self, *, first: bool = False) -> Place:
        """Take a place in the line, the last one or the first; it must be left, or nobody comes after it."""
        place = Place(self)
        with self.lock:
            if not self._is_taken:
                self._is_taken = True
                place.call()
            elif first:
                self._waiting.appendleft(place)
            else:
                self._waiting.append(place)
        return place

    def leave(self, place: Place) -> None:
        """Give up a place, or the turn, if it has come; what was left already stays so."""
        with self.lock:
            self._leave(place)

    def claim(self, place: Place) -> bool:
        """Say that a thread has come to wait at a place; whether it may, since nobody has given it up."""
        with self.lock:
            place.is_claimed = not place.is_left
        return place.is_claimed

    def abandon(self, place: Place) -> None:
        """Give up a place that no thread has claimed, and none will."""
        with self.lock:
            if not place.is_claimed:
                self._leave(place)

    def _leave(self, place: Place) -> None:
        if place.is_left:
            return
        place.is_left = True
        if not place.is_called:
            self._waiting.remove(place)
        elif self._waiting:
            self._waiting.popleft().call()
        else:
            self._is_taken = False

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    @contextmanager
    def mine(self, place: Place | None = None) -> Iterator[None]:
        """This thread's turn at the interpreter, when it comes: that of its place, or of a new one."""
        before, _OWN.place = _OWN.place, self.place() if place is None else place
        try:
            _OWN.place.wait_here()
            yield
        finally:
            if _OWN.place is not None:
                self.leave(_OWN.place)
            _OWN.place = before


class Place:
    """A place in a line, for one thread.

    Args:
        line: The line.
    """

    def __init__(self, line: Turns) -> None:
        self.line = line
        self.is_called = self.is_claimed = self.is_left = False
        self._wakes = Lock()
        self._wakes.acquire()
        self._left: tuple[Turns, bool] | None = None
        self._back: Place | None = None

    def call(self) -> None:
        """Say that the turn has come; whoever does has the line's lock.

        A thread that has left its turn at the interpreter gets a place in that line, too: by the time it has
        woken up to take one, others might have begun something long.
        """
        self.is_called = True
        if self._left is not None:
            turns, first = self._left
            self._back = turns.place(first=first)
        self._wakes.release()

    def wait(self) -> None:
        """Wait for the turn, at something other than the interpreter, whose turn is left to others meanwhile.

        So whoever has both locks took a device's line first, and then the interpreter's.
        """
        own = _OWN.place
        with self.line.lock:
            if self.is_called:
                return
            if own is not None:
                self._left = own.line, _OWN.is_first
        if own is not None:
            _OWN.place = None
            own.line.leave(own)
        self.wait_here()
        if self._back is not None:
            self._back.wait_here()
            _OWN.place = self._back

    def wait_here(self) -> None:
        """Wait for the turn once, and keep others."""
        self._wakes.acquire()


class _OfThread(local):
    place: Place | None = None
    is_first: bool = False


_OWN = _OfThread()


@contextmanager
def away() -> Iterator[None]:
    """Leave this thread's turn to others, if it has one, while it waits or does without the interpreter."""
    own, _OWN.place = _OWN.place, None
    if own is None:
        yield
        return
    own.line.leave(own)
    try:
        yield
    finally:
        again = own.line.place(first=_OWN.is_first)
        again.wait_here()
        _OWN.place = again


@contextmanager
def first_in_line() -> Iterator[None]:
    """Let this thread's turns come before those of others: it feeds a device, which would have to wait."""
    before, _OWN.is_first = _OWN.is_first, True
    try:
        yield
    finally:
        _OWN.is_first = before


@contextmanager
def in_line(turns: Turns) -> Iterator[Place]:
    """A place in a line, taken at once: who comes first has the first turn, whatever it does meanwhile."""
    place = turns.place()
    try:
        yield place
    finally:
        turns.leave(place)


@contextmanager
def holding(turns: Turns) -> Iterator[None]:
    """A turn at something other than the interpreter, as long as the block is open."""
    with in_line(turns) as place:
        place.wait()
        yield


def pause() -> None:
    """Let others go first, if this thread has the turn and somebody waits for it."""
    if _OWN.place is not None and _OWN.place.line.is_wanted:
        with away():
            pass


def pausing(items: Iterable[Item], every: int) -> Iterator[Item]:
    """The items, with a `pause` now and then."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % every == 0:
            pause()
