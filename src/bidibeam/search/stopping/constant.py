"""The rule of most toolkits: the beam stays full until B hypotheses have ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import SearchProgress


@dataclass(frozen=True, slots=True)
class Constant:
    """The live beam stays B; over when B have finished, of which the B best are kept.

    What fairseq does, and Hugging Face with `early_stopping=True`.
    """

    reads_scores: ClassVar[bool] = False

    def live_beams(self, beam_size: int, finished: Tensor) -> Tensor:
        """B for every source, (sources,)."""
        return finished.new_full(finished.shape, beam_size)

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Where B hypotheses have ended, (sources,)."""
        return progress.finished >= progress.beam_size
