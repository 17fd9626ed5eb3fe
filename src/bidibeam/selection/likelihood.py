"""Vanilla beam search's own choice: the most likely reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bidibeam.hypotheses import Direction, NBest

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams


def rank_by_score(nbest: NBest) -> NBest:
    """The finished hypotheses, then those cut off, each highest score first; ties keep their order."""
    order = sorted(nbest, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
    return NBest(tuple(order))


@dataclass(frozen=True)
class LikelihoodSelection:
    """VBS: rank one direction's hypotheses by their length-normalised log-probability.

    Args:
        direction: Whose hypotheses may answer.
    """

    direction: Direction = Direction.REGULAR

    def rank(self, beams: Beams) -> NBest:
        """The direction's hypotheses, best first; none if it found none."""
        return rank_by_score(beams.of(self.direction))
