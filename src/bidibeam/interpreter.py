"""The interpreter's own habits, where they cost as much as the work: garbage, and turns of threads."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave cyclic garbage alone for a while, in every thread.

    A batch of beams is tens of thousands of small objects. Making them sets off collections, each of which
    walks everything that is alive and finds nothing: beside a GPU they took as long as the search.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def taking_turns(longest_s: float = 0.0002) -> Iterator[None]:
    """Let threads take turns more often than every 5 ms, Python's default.

    A thread that feeds a device is away for a moment at every step, and would then have to wait for its turn
    longer than the step takes.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(longest_s, before))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
