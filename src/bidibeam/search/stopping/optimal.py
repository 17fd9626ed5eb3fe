"""Stop when going on could change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import SearchProgress


@dataclass(frozen=True, slots=True)
class Optimal:
    """The live beam stays B; over when no live hypothesis can still enter the B best.

    It answers as `exhaust` does, often much sooner: what a live hypothesis can still reach is bounded
    by its log-probability now and the kindest length penalty to come.
    Reference: Huang et al. (2017), arXiv:1709.04109 (without the penalty).
    """

    def live_beams(self, beam_size: int, finished: Tensor) -> Tensor:
        """B for every source, (sources,)."""
        return finished.new_full(finished.shape, beam_size)

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Where the worst kept score is out of reach, (sources,). A tie would come too late to enter."""
        reachable = progress.penalty.bound(
            progress.live_log_probs, progress.shortest, progress.longest
        )  # (sources, beams)
        return progress.kept_scores[:, -1] >= reachable.amax(1)  # (sources,)
