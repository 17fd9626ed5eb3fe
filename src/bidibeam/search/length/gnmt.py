"""The length penalty of Wu et al., which the paper takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class GNMTPenalty:
    """Divides a log-probability by lp = (5 + |Y|)^exponent / 6^exponent.

    Reference: Wu et al. (2016), arXiv:1609.08144, section 7.
    """

    exponent: float

    def score(self, log_prob: Tensor, length: int) -> Tensor:
        """The scores of hypotheses with |Y| = `length`, in the shape of `log_prob`."""
        # One product with the inverse, because CPU and GPU round a division by a scalar differently.
        inverse: float = ((5.0 + length) / 6.0) ** -self.exponent
        return log_prob * inverse

    def bound(self, log_prob: Tensor, shortest: int, longest: int) -> Tensor:
        """The best scores reachable by ending with |Y| between `shortest` and `longest`.

        A log-probability can only fall, and lp changes one way with length: up for a positive exponent,
        so that the longest end is the best case, down for a negative one, where it is the shortest.
        """
        return self.score(log_prob, longest if self.exponent >= 0 else shortest)
