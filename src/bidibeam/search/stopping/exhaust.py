"""Never stop early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import SearchProgress


@dataclass(frozen=True, slots=True)
class Exhaust:
    """The live beam stays B up to the maximum length; the B best of all that finished are kept."""

    reads_scores: ClassVar[bool] = False

    def live_beams(self, beam_size: int, finished: Tensor) -> Tensor:
        """B for every source, (sources,)."""
        return finished.new_full(finished.shape, beam_size)

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Nowhere, (sources,)."""
        return progress.finished < 0
