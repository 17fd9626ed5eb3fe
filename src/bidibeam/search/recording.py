"""Work of a GPU, recorded once and played back: the interpreter then costs nothing."""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Result = TypeVar("Result")
Made = TypeVar("Made")

MOST_MADE = 4
"""Things that a recorder keeps, those that were used last. Each holds a search's memory."""
MOST_SEEN = 1000
"""Keys that a recorder remembers to have come once."""

_LOG = logging.getLogger(__name__)
_RECORDING = Lock()


class Tape:
    """Work that a GPU does part by part, on the same memory each time.

    A part reads and writes where it did when it was recorded: whoever plays first copies new inputs there,
    and reads results before the next play of the same parts. Parts are to be played in the order in which
    they were recorded, since a later one may write where an earlier one has left off.

    Args:
        device: The GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = _recording_stream(device)
        self._pool = torch.cuda.graph_pool_handle()
        self._parts: list[torch.cuda.CUDAGraph] = []

    def record(self, part: Callable[[], Result]) -> Result:
        """Record what the call asks of the GPU, which does nothing yet; its result, where it will be.

        Raises:
            RuntimeError: If it asks for something that cannot be recorded, to wait for one.
        """
        graph = torch.cuda.CUDAGraph()
        with _RECORDING, torch.cuda.stream(self._stream):  # threads share the stream
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                result = part()
            finally:
                graph.capture_end()
        self._parts.append(graph)
        return result

    def play(self, number: int) -> None:
        """Have the GPU do a part again, in the current stream."""
        self._parts[number].replay()


@lru_cache
def _recording_stream(device: torch.device) -> torch.cuda.Stream:
    """Always the same one: libraries keep memory for every stream that they have met."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class Recorder(Generic[Made]):
    """What was made for keys that came at least twice; the first time it might never pay.

    Args:
        most: How many things it keeps.
    """

    def __init__(self, most: int = MOST_MADE) -> None:
        self._most = most
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self._made: OrderedDict[Hashable, Made | None] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made | None:
        """What belongs to a key; None when it comes first, and where the GPU would not record."""
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
            if key not in self._seen:
                self._seen[key] = None
                while len(self._seen) > MOST_SEEN:
                    self._seen.popitem(last=False)
                return None
            made: Made | None = None
            try:
                made = make()
            except RuntimeError as error:
                _LOG.debug("not recorded: %s", error)
            self._made[key] = made
            if len(self._made) > self._most:
                if torch.cuda.is_available():
                    torch.cuda.synchronize()  # it may still be playing
                self._made.popitem(last=False)
            return made
