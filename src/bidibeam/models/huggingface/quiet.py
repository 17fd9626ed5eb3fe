"""What transformers reports while it works for us, switched off: its notes and its progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from threading import Lock

from transformers.utils import logging


class SharedSwitch:
    """A switch of the whole process, off while any thread is inside; the last one to leave restores it.

    Args:
        turn_off: Turns it off, and returns what restores it.
    """

    def __init__(self, turn_off: Callable[[], Callable[[], None]]) -> None:
        self._turn_off, self._lock, self._inside = turn_off, Lock(), 0
        self._restore: Callable[[], None] = lambda: None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside the block it is off."""
        with self._lock:
            if not self._inside:
                self._restore = self._turn_off()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._restore()


def _silence() -> Callable[[], None]:
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    return partial(logging.set_verbosity, level)


def _hide_bars() -> Callable[[], None]:
    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    return logging.enable_progress_bar if was_enabled else lambda: None


without_notes, without_progress_bars = SharedSwitch(_silence), SharedSwitch(_hide_bars)


@contextmanager
def quiet_transformers(*, is_local: bool = True) -> Iterator[None]:
    """Inside the block, no reports of transformers' own; progress bars only where something is downloaded."""
    with without_notes(), without_progress_bars() if is_local else nullcontext():
        yield
