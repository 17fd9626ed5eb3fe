"""The rule that Hugging Face has by default: over when a longer reply is not expected to do better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import SearchProgress


@dataclass(frozen=True, slots=True)
class Heuristic:
    """The live beam stays B; over when B have finished and the best live one scores no better as it is.

    A longer reply could still score better where length is rewarded: `optimal` waits for that. What Hugging
    Face does with `early_stopping=False`.
    """

    def live_beams(self, beam_size: int, finished: Tensor) -> Tensor:
        """B for every source, (sources,)."""
        return finished.new_full(finished.shape, beam_size)

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Where B have finished and the best live one is not above the worst of them, (sources,)."""
        best = progress.penalty.score(progress.live_log_probs[:, 0], max(progress.shortest - 1, 1))
        worst = progress.kept_scores[:, -1]
        return (progress.finished >= progress.beam_size) & (best <= worst)
