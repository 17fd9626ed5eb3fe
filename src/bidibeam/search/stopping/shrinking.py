"""The paper's rule: each hypothesis that ends leaves its place in the beam empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import SearchProgress


@dataclass(frozen=True, slots=True)
class Shrinking:
    """The live beam is B less the finished hypotheses; over when B have finished.

    The cheapest rule: the beam gets narrower as it goes. It answers with the first B to finish, which
    need not be the best.
    Reference: Bahdanau et al. (2015), arXiv:1409.0473; the reading of Colombo et al. (2021).
    """

    reads_scores: ClassVar[bool] = False

    def live_beams(self, beam_size: int, finished: Tensor) -> Tensor:
        """B less those that have ended, (sources,)."""
        return beam_size - finished

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Where B hypotheses have ended, (sources,)."""
        return progress.finished >= progress.beam_size
