"""The length penalty of Hugging Face and fairseq."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class PowerPenalty:
    """Divides a log-probability by lp = |Y|^exponent; an exponent of 1 gives the mean per token."""

    exponent: float

    def score(self, log_prob: Tensor, length: int) -> Tensor:
        """The scores of hypotheses with |Y| = `length`, in the shape of `log_prob`; 0 counts as 1."""
        # One product with the inverse, because CPU and GPU round a division by a scalar differently.
        inverse: float = float(max(length, 1)) ** -self.exponent
        return log_prob * inverse

    def bound(self, log_prob: Tensor, shortest: int, longest: int) -> Tensor:
        """The best scores reachable by ending with |Y| between `shortest` and `longest`."""
        return self.score(log_prob, longest if self.exponent >= 0 else shortest)
