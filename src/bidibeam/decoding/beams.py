"""A live model's hypotheses for every direction that a strategy requires."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bidibeam.decoding.rescoring import score_by_other
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bidibeam.hypotheses import Beams
    from bidibeam.models.base import Model
    from bidibeam.protocols import Requirements
    from bidibeam.search.settings import SearchSettings


@dataclass(frozen=True)
class ModelGenerator:
    """Fills in hypotheses by searching a model.

    Args:
        model: The model.
        searches: How to search, by direction; a direction without settings is not searched.
        scored: The directions whose hypotheses the other direction scores too (`other_log_prob`).
        other_weight: If not None, only the reply is wanted, and only those hypotheses are scored that can be
            it; see `Requirements.other_weight`.
    """

    model: Model
    searches: Mapping[Direction, SearchSettings]
    scored: Sequence[Direction] = ()
    other_weight: float | None = None

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        """Search for every source in one batch, and keep their order."""
        filled, sources = list(beams), [line.source for line in beams]
        for direction, settings in self.searches.items() if beams else ():
            lists = self.model.n_best(direction, sources, settings)
            if direction in self.scored:
                scorer = self.model.sequence_scorer(direction.other)
                lists = score_by_other(scorer, sources, lists, weight=self.other_weight)
            filled = [
                line.with_hypotheses(direction, nbest) for line, nbest in zip(filled, lists, strict=True)
            ]
        return filled


def split_beam(
    requirements: Requirements, settings: SearchSettings, strategy: str, *, parameter: str = "beam_size"
) -> dict[Direction, SearchSettings]:
    """Share the beam out among a strategy's directions, the first taking the odd hypothesis.

    Args:
        requirements: What the strategy must be given.
        settings: How to search, with the whole beam.
        strategy: The strategy's name, for the message.
        parameter: What the caller calls the beam size.

    Raises:
        SettingsError: If there is less than one hypothesis for each direction.
    """
    parts = len(requirements.directions)
    small, larger = divmod(settings.beam_size, parts)
    if not small:
        raise SettingsError(
            f"{parameter} must be at least {parts} for {strategy}, which shares it out among the directions, "
            f"not {settings.beam_size}."
        )
    return {
        direction: replace(settings, beam_size=small + (index < larger))
        for index, direction in enumerate(requirements.directions)
    }
