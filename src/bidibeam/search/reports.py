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
class _Report:
    step: int
    sources: Sequence[int]
    widths: Tensor  # (sources,), on its way to main memory
    has_arrived: torch.cuda.Event | None

    def read(self) -> dict[int, int]:
        if self.has_arrived is not None:
            self.has_arrived.synchronize()
        widths = dict(zip(self.sources, self.widths.tolist(), strict=True))
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
        has_arrived = None
        if widths.is_cuda:
            widths = widths.to("cpu", non_blocking=True)  # into pinned memory
            has_arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            has_arrived.record()
        self._queue.append(_Report(step, sources, widths, has_arrived))
        return self._queue.popleft().read() if len(self._queue) > self._delay else None

    def drain(self) -> None:
        """Read what is still on its way.

        Raises:
            ScorerError: If a source is reported broken.
        """
        while self._queue:
            self._queue.popleft().read()
