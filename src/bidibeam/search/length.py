"""Length penalties: how a log-probability becomes a score that is fair to long replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from bidibeam.registry import Registry

if TYPE_CHECKING:
    from bidibeam.protocols import Length, LengthPenalty

LENGTH_PENALTIES: Registry[LengthPenalty] = Registry(
    "length formula",
    group="bidibeam.length_penalties",
    locations={
        "gnmt": "bidibeam.search.length:GNMTPenalty",
        "power": "bidibeam.search.length:PowerPenalty",
    },
)

# Both formulas multiply by the inverse, because CPU and GPU round a division by a scalar differently.


@dataclass(frozen=True, slots=True)
class GNMTPenalty:
    """Divides a log-probability by lp = (5 + |Y|)^exponent / 6^exponent.

    Reference: Wu et al. (2016), arXiv:1609.08144, section 7.
    """

    exponent: float

    def score(self, log_prob: Tensor, length: Length) -> Tensor:
        """Returns the scores of hypotheses with |Y| = `length`, in the shape of `log_prob`."""
        return log_prob * ((5.0 + length) / 6.0) ** -self.exponent

    def bound(self, log_prob: Tensor, shortest: Length, longest: Length) -> Tensor:
        """Returns the best scores reachable by ending with |Y| between `shortest` and `longest`.

        A log-probability can only fall, and lp changes one way with length: up for a positive exponent,
        so that the longest end is the best case, down for a negative one, where it is the shortest.
        """
        return self.score(log_prob, longest if self.exponent >= 0 else shortest)


@dataclass(frozen=True, slots=True)
class PowerPenalty(GNMTPenalty):
    """Divides by lp = |Y|^exponent, as Hugging Face and fairseq do; 1 gives the mean per token."""

    def score(self, log_prob: Tensor, length: Length) -> Tensor:
        """Returns the scores of hypotheses with |Y| = `length`, in the shape of `log_prob`; 0 counts as 1."""
        base = length.clamp(min=1) if isinstance(length, Tensor) else float(max(length, 1))
        return log_prob * base**-self.exponent
