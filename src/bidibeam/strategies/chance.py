"""Any hypothesis: how good the beam is before anybody chooses."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature
from bidibeam.strategies.ranking import ranking_by

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Ranking


@dataclass(frozen=True)
class Chance:
    """Shuffle the regular beam; by seed and source id, so that neither order nor batches matter.

    Args:
        seed: Another seed, another shuffle.

    Raises:
        SettingsError: If the seed is not a whole number.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise SettingsError(f"seed must be a whole number, not {self.seed!r}.")

    @property
    def requirements(self) -> Requirements:
        """The regular beam."""
        return Requirements((Direction.REGULAR,))

    @property
    def signature(self) -> Signature:
        """Its name and seed."""
        return Signature.of_settings(self, strategy="random")

    def rank(self, beams: Beams) -> Ranking:
        """The regular hypotheses in a random order, finished ones first."""
        chance = Random(f"{self.seed}:{beams.id}")
        return ranking_by(beams, Direction.REGULAR, lambda _: chance.random())
