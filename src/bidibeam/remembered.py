"""What is made for one batch of sources, and asked for again before it is answered.

remembered = Remembered()
with remembered.active():
    search(sources)  # an encoder reads them
with remembered.active():
    judge(sources)  # and need not read them again
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Made = TypeVar("Made")


class Remembered:
    """What `once` made where this was active, as long as it lives. Nothing that it is made of may change."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], tuple[tuple[object, ...], Any]] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Remember, in this thread, what is made in the block."""
        before, _OWN.current = _OWN.current, self
        try:
            yield
        finally:
            _OWN.current = before

    def once(self, make: Callable[[], Made], of: tuple[object, ...]) -> Made:
        """See `once`."""
        key = tuple(map(id, of))
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = (of, make())  # what it is made of stays, and so do its numbers
        made: Made = known[1]
        return made


class _OfThread(local):
    current: Remembered | None = None


_OWN = _OfThread()


def once(make: Callable[[], Made], *of: object) -> Made:
    """What is made of these very objects: where something remembers, once."""
    return make() if _OWN.current is None else _OWN.current.once(make, of)
