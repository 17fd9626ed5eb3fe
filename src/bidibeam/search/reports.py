"""News of a search from the device to the host, without making the device wait."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from bidibeam.errors import ScorerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

BROKEN = -1
"""The width reported for a source whose logits were not numbers."""


def sent(values: Sequence[int], device: torch.device) -> Tensor:
    """Whole numbers on a device, (values,), without waiting for what it does before it reads them."""
    numbers = torch.tensor(values, dtype=torch.long)
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers


@dataclass(frozen=True, slots=True)
class Arriving:
    """Tensors on their way to main memory."""

    tensors: tuple[Tensor, ...]
    has_arrived: torch.cuda.Event | None = None

    def read(self) -> tuple[Tensor, ...]:
        """Wait until they are there."""
        if self.has_arrived is not None:
            self.has_arrived.synchronize()
        return self.tensors


def fetched(*tensors: Tensor) -> Arriving:
    """Bring tensors of one device to main memory, without waiting for them."""
    if not tensors[0].is_cuda:
        return Arriving(tuple(tensor.cpu() for tensor in tensors))
    copies = tuple(tensor.to("cpu", non_blocking=True) for tensor in tensors)  # into pinned memory
    has_arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    has_arrived.record()
    return Arriving(copies, has_arrived)


@dataclass(frozen=True, slots=True)
class _Report:
    step: int
    sources: Sequence[int]
    widths: Arriving  # (sources,)

    def read(self) -> dict[int, int]:
        (arrived,) = self.widths.read()
        widths = dict(zip(self.sources, arrived.tolist(), strict=True))
        if BROKEN in widths.values():
            for source in (source for source, width in widths.items() if width == BROKEN):
                raise ScorerError(
                    f"The model's logits for source {source} were NaN or infinite at step {self.step}, so "
                    "the search cannot go on. The weights are probably damaged: use an earlier checkpoint or "
                    "train with a lower learning rate."
                )
        return widths


class Reports:
    """Each source's live beams after each step, as the host gets to know them.

    On a CPU that is at once. A GPU works behind the host, and asking it for the latest number would leave it
    without work; so the host reads the report of the step before, for which it need not wait. A source that
    is done then takes one more step with an empty beam, which changes nothing.

    Args:
        device: Where the search runs.
    """

    def __init__(self, device: torch.device) -> None:
        self._delay = 1 if device.type == "cuda" else 0
        self._queue: deque[_Report] = deque()

    def exchange(self, step: int, sources: Sequence[int], widths: Tensor) -> dict[int, int] | None:
        """Send a step's widths, (sources,), and get the latest by source; None if none has come yet.

        Raises:
            ScorerError: If a source is reported broken.
        """
        self._queue.append(_Report(step, sources, fetched(widths)))
        return self._queue.popleft().read() if len(self._queue) > self._delay else None

    def drain(self) -> None:
        """Read what is still on its way.

        Raises:
            ScorerError: If a source is reported broken; if asked again, again.
        """
        while self._queue:
            self._queue[0].read()
            self._queue.popleft()
