"""BidiS: the reverse decoder scores what the regular one wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bidibeam.errors import check_finite
from bidibeam.hypotheses import Direction, Ranked, Ranking
from bidibeam.protocols import Requirements
from bidibeam.scores import Signed
from bidibeam.strategies.baselines import LARGEST_WEIGHT
from bidibeam.strategies.ranking import normalisation, number
from bidibeam.strategies.reasons import compare_next, count_digits, name_entry, tell_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bidibeam.hypotheses import Beams, Hypothesis


@dataclass(frozen=True)
class BidiS(Signed):
    """Rank the regular beam by score(regular) + lambda * score(reverse), both length-normalised.

    Cost per source: one beam search, and teacher forcing of its hypotheses by the reverse decoder.
    Reference: Colombo et al. (2021), arXiv:2110.03389, section 3.1.

    Args:
        lambda_: The weight of the reverse decoder's score; `bidibeam tune` finds it.
    """

    lambda_: float = 1.0
    recipe: ClassVar[Mapping[str, str]] = {"strategy": "bidis"}

    def __post_init__(self) -> None:
        check_finite("lambda", self.lambda_, LARGEST_WEIGHT)

    @property
    def requirements(self) -> Requirements:
        """The regular beam, scored by both directions."""
        return Requirements((Direction.REGULAR,), log_prob=True, score=True, other_weight=self.lambda_)

    def rank(self, beams: Beams) -> Ranking:
        """Ranks the regular hypotheses that the reverse decoder scored, best first.

        A search for the reply alone does not score those that cannot win. If none is scored, one is missing.
        """
        scored = [
            Ranked(
                each, Direction.REGULAR, place, number(each, "score") + self.lambda_ * normalise_other(each)
            )
            for place, each in enumerate(beams.regular)
            if each.other_log_prob is not None
        ]
        if not scored and len(beams.regular):
            number(beams.regular.best, "other_log_prob")
        return Ranking.of(scored)

    def reason(self, beams: Beams, ranking: Ranking) -> str:  # noqa: ARG002
        """Returns why the first entry is the first."""
        first, digits = ranking.entries[0], count_digits(ranking)
        own, other = number(first.hypothesis, "score"), normalise_other(first.hypothesis)
        terms = f"{own:.{digits}f} + {self.lambda_:g} * {other:.{digits}f} = {first.score:.{digits}f}"
        highest = f"regular + lambda * reverse score{tell_range(ranking)}, {terms}"
        return f"{name_entry(first)} has the highest {highest}{compare_next(ranking)}"


def normalise_other(hypothesis: Hypothesis) -> float:
    """Returns the other direction's log-probability, normalised as the hypothesis' own score is."""
    return number(hypothesis, "other_log_prob") * normalisation(hypothesis)
