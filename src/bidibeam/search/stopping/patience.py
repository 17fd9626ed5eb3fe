"""The constant beam with more, or less, patience."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bidibeam.errors import SettingsError

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import SearchProgress


@dataclass(frozen=True, slots=True)
class Patience:
    """The live beam stays B; over when `factor` times B have finished, of which the B best are kept.

    A factor of 1 is the constant rule; below 1 fewer than B hypotheses may come back.
    Reference: Kasai et al. (2022), arXiv:2204.05424.
    """

    reads_scores: ClassVar[bool] = False

    factor: float = 2.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor > 0):
            raise SettingsError(f"--stopping patience needs a factor above 0, not {self.factor:g}.")

    def live_beams(self, beam_size: int, finished: Tensor) -> Tensor:
        """B for every source, (sources,)."""
        return finished.new_full(finished.shape, beam_size)

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Where `factor` times B hypotheses have ended, (sources,)."""
        return progress.finished >= math.ceil(self.factor * progress.beam_size)
