"""News of a search from the device to the host, without making the device wait."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bidibeam.errors import ScorerError
from bidibeam.turns import away

if TYPE_CHECKING:
    from torch import Tensor

    Numbers = np.ndarray[Any, np.dtype[np.int64]]

BROKEN = -1
"""The width reported for a source whose logits were not numbers."""


def sent(values: Numbers, device: torch.device) -> Tensor:
    """Whole numbers on a device, (values,), without waiting for what it does before it reads them."""
    numbers = torch.from_numpy(values)
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers


@dataclass(frozen=True, slots=True)
class Arriving:
    """Tensors on their way to main memory."""

    tensors: tuple[Tensor, ...]
    has_arrived: torch.cuda.Event | None = None

    def read(self) -> tuple[Tensor, ...]:
        """Wait until they are there."""
        if self.has_arrived is not None and not self.has_arrived.query():  # type: ignore[no-untyped-call]
            with away():
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
    sources: Numbers
    widths: Arriving  # (sources,)

    def read(self, count: int) -> Numbers:
        (arrived,) = self.widths.read()
        widths: Numbers = arrived.numpy()
        if len(widths) < count:  # else they are all there are, in order
            widths = np.zeros(count, dtype=np.int64)
            widths[self.sources] = arrived.numpy()
        if widths.min() == BROKEN:
            raise ScorerError(
                f"The model's logits for source {widths.argmin()} were NaN or infinite at step {self.step}, "
                "so the search cannot go on. The weights are probably damaged: use an earlier checkpoint or "
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
        count: How many sources it has.
    """

    def __init__(self, device: torch.device, count: int) -> None:
        self._delay, self._count = 1 if device.type == "cuda" else 0, count
        self._queue: deque[_Report] = deque()

    def exchange(self, step: int, sources: Numbers, widths: Tensor) -> Numbers | None:
        """Send the widths of a step's sources, and get the latest known.

        Args:
            step: The step.
            sources: Those that took it, by their place in the whole batch.
            widths: Theirs, (sources,).

        Returns:
            Every source's, (all sources,), 0 for those that are done, not to be changed; None if none
            has come yet.

        Raises:
            ScorerError: If a source is reported broken.
        """
        report = _Report(step, sources, fetched(widths))
        if not self._delay:
            return report.read(self._count)
        self._queue.append(report)
        return self._queue.popleft().read(self._count) if len(self._queue) > self._delay else None

    def drain(self) -> None:
        """Read what is still on its way.

        Raises:
            ScorerError: If a source is reported broken; if asked again, again.
        """
        while self._queue:
            self._queue[0].read(self._count)
            self._queue.popleft()
