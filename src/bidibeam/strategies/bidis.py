"""BidiS: the reverse decoder scores what the regular one wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bidibeam.hypotheses import Direction, Ranked, Ranking
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature
from bidibeam.strategies.likelihood import check_finite
from bidibeam.strategies.ranking import normalisation, number

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Hypothesis


@dataclass(frozen=True)
class BidiS:
    """Rank the regular beam by score(regular) + lambda * score(reverse), both length-normalised.

    Cost per source: one beam search, and one forced pass of the reverse decoder over its hypotheses.
    Reference: Colombo et al. (2021), arXiv:2110.03389, section 3.1.

    Args:
        lambda_: What the reverse decoder's opinion weighs; `bidibeam tune` finds it.

    Raises:
        SettingsError: If it is not a finite number.
    """

    lambda_: float = 1.0

    def __post_init__(self) -> None:
        check_finite("lambda", self.lambda_)

    @property
    def requirements(self) -> Requirements:
        """The regular beam, scored by both directions."""
        return Requirements((Direction.REGULAR,), log_prob=True, score=True, other_weight=self.lambda_)

    @property
    def signature(self) -> Signature:
        """Its name and lambda."""
        return Signature.of_settings(self, strategy="bidis")

    def rank(self, beams: Beams) -> Ranking:
        """The regular hypotheses, best first.

        Those that the reverse decoder was not asked about are left out, unless that is all of them: a search
        for the reply alone does not ask about those that cannot win.
        """
        scored = [
            Ranked(hypothesis, Direction.REGULAR, place, self._score(hypothesis))
            for place, hypothesis in enumerate(beams.regular)
            if hypothesis.other_log_prob is not None
        ]
        if not scored and len(beams.regular):
            number(beams.regular.best, "other_log_prob")
        return Ranking.of(scored)

    def _score(self, hypothesis: Hypothesis) -> float:
        return number(hypothesis, "score") + self.lambda_ * normalised_other(hypothesis)


def normalised_other(hypothesis: Hypothesis) -> float:
    """The other direction's log-probability, normalised for length as its own score is."""
    return number(hypothesis, "other_log_prob") * normalisation(hypothesis)
