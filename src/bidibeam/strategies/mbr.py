"""Minimum Bayes risk: agreement within one beam, the baseline of agreement between two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from bidibeam.errors import check_choice
from bidibeam.hypotheses import Direction, Ranked, Ranking
from bidibeam.protocols import Requirements, Similarity
from bidibeam.scores import Signed
from bidibeam.strategies.bidia import name_similarity, similarity_matrix, sum_agreement
from bidibeam.strategies.reasons import compare_next, count_digits, name_entry, tell_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bidibeam.hypotheses import Beams

Weighting = Literal["expected", "mean"]


@dataclass(frozen=True)
class Mbr(Signed):
    """Rank the regular beam by each hypothesis' similarity to all of that beam: minimum Bayes risk.

    Cost per source: one beam search, and a similarity for every pair of its hypotheses.
    Reference: Kumar and Byrne (2004).

    Args:
        similarity: Compares a hypothesis with those of its own beam, itself included.
        agreement: "expected" weighs them by the beam's posterior (its log-probabilities, normalised within
            the beam), "mean" weighs them alike.
    """

    similarity: Similarity
    agreement: Weighting = "expected"
    recipe: ClassVar[Mapping[str, str]] = {"strategy": "mbr"}

    def __post_init__(self) -> None:
        check_choice("agreement", self.agreement, get_args(Weighting))

    @property
    def requirements(self) -> Requirements:
        """The regular beam, and its log-probabilities if those are weights."""
        return Requirements((Direction.REGULAR,), log_prob=self.agreement == "expected")

    def rank(self, beams: Beams) -> Ranking:
        """Ranks the regular hypotheses, the most like all others first; ties keep beam order."""
        hypotheses = beams.regular.hypotheses
        matrix = similarity_matrix(self.similarity, hypotheses, hypotheses)  # (hypotheses, hypotheses)
        risks = sum_agreement(matrix, hypotheses, self.agreement)
        return Ranking.of(
            Ranked(hypothesis, Direction.REGULAR, place, value)
            for place, (hypothesis, value) in enumerate(zip(hypotheses, risks, strict=True))
        )

    def reason(self, beams: Beams, ranking: Ranking) -> str:  # noqa: ARG002
        """Returns how like its whole beam the chosen hypothesis is."""
        first = ranking.entries[0]
        name, value = name_similarity(self.similarity), f"{first.score:.{count_digits(ranking)}f}"
        return (
            f"{name_entry(first)} has the highest {self.agreement} {name} with its own beam"
            f"{tell_range(ranking)}, {value}{compare_next(ranking)}"
        )
