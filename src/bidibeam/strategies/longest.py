"""The longest hypothesis: how far length alone goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bidibeam.hypotheses import Direction
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature
from bidibeam.strategies.ranking import ranking_by

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Ranking


@dataclass(frozen=True)
class Longest:
    """Rank the regular beam by number of tokens; ties keep the beam's order."""

    @property
    def requirements(self) -> Requirements:
        """The regular beam."""
        return Requirements((Direction.REGULAR,))

    @property
    def signature(self) -> Signature:
        """Its name."""
        return Signature.of_settings(self, strategy="longest")

    def rank(self, beams: Beams) -> Ranking:
        """The regular hypotheses, longest first."""
        return ranking_by(beams, Direction.REGULAR, lambda hypothesis: float(len(hypothesis.tokens)))
