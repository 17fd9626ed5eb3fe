"""A log-linear choice: what both directions, length and agreement say of each candidate, weighted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from bidibeam.errors import check_choice, check_finite
from bidibeam.hypotheses import Direction, Ranked, Ranking
from bidibeam.protocols import Requirements, Similarity
from bidibeam.scores import Signed
from bidibeam.strategies.baselines import LARGEST_EXPONENT, LARGEST_WEIGHT
from bidibeam.strategies.bidia import Agreement, Answerer, BidiA
from bidibeam.strategies.ranking import number
from bidibeam.strategies.reasons import compare_next, count_digits, name_entry, tell_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bidibeam.hypotheses import Beams, Hypothesis


@dataclass(frozen=True)
class LogLinear(Signed):
    """Rank candidates by a weighted sum of both directions' log-probabilities, length and agreement.

    The score is (regular_weight * log P of the regular direction + reverse_weight * log P of the reverse)
    / lp + length_weight * |Y| + agreement_weight * agreement, where lp = ((5 + |Y|) / 6)^length_exponent.
    Agreement is BidiA's, with the beam of the other direction. So VBS, tuned VBS, BidiS and BidiA are points
    of it, where the search normalises by the same lp.

    Cost per source: that of BidiS, or, with candidates or agreement of both beams, of BidiA, and teacher
    forcing of the candidates by the direction that did not write them.

    Args:
        regular_weight: What the regular direction's log-probability weighs; `bidibeam tune` finds all five.
        reverse_weight: What the reverse direction's weighs.
        length_weight: What each token is worth.
        agreement_weight: What agreement weighs; without a similarity there is none.
        length_exponent: The exponent of lp.
        candidates: Whose hypotheses may answer. A text that both beams hold is one candidate, by the better
            of its two scores.
        similarity: Compares a candidate with the hypotheses of the other beam; None to leave agreement out.
        agreement: What of a candidate's similarities counts, as in BidiA.
    """

    regular_weight: float = 1.0
    reverse_weight: float = 1.0
    length_weight: float = 0.0
    agreement_weight: float = 1.0
    length_exponent: float = 0.6
    candidates: Literal["regular", "reverse", "both"] = "regular"
    similarity: Similarity | None = None
    agreement: Agreement = "expected"
    recipe: ClassVar[Mapping[str, str]] = {"strategy": "loglinear"}

    def __post_init__(self) -> None:
        for name in ("regular_weight", "reverse_weight", "length_weight", "agreement_weight"):
            check_finite(name, getattr(self, name), LARGEST_WEIGHT)
        check_finite("length_exponent", self.length_exponent, LARGEST_EXPONENT)
        check_choice("candidates", self.candidates, (*Direction, "both"))
        check_choice("agreement", self.agreement, get_args(Agreement))

    @property
    def requirements(self) -> Requirements:
        """The candidates, scored by both directions, and the other beam to agree with."""
        directions = tuple(Direction) if self.similarity is not None else self.directions
        return Requirements(directions, log_prob=True, scored=self.directions)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Whose hypotheses may answer."""
        return tuple(Direction) if self.candidates == "both" else (Direction(self.candidates),)

    def rank(self, beams: Beams) -> Ranking:
        """Ranks the candidates; ties go to the regular beam, then the better place."""
        agreed = {(entry.direction, entry.place): entry for entry in self.rank_by_agreement(beams)}
        entries = []
        for direction in self.directions:
            for place, hypothesis in enumerate(beams.of(direction)):
                score, partner = self.score(hypothesis, direction), None
                if (agreement := agreed.get((direction, place))) is not None:
                    score += self.agreement_weight * agreement.score
                    partner = agreement.partner
                entries.append(Ranked(hypothesis, direction, place, score, partner))
        ranking = Ranking.of(entries)
        if len(self.directions) == 1:
            return ranking
        first: dict[str, Ranked] = {}
        for entry in ranking:
            first.setdefault(entry.hypothesis.text, entry)
        return Ranking(tuple(first.values()))

    def reason(self, beams: Beams, ranking: Ranking) -> str:  # noqa: ARG002
        """Returns why the first entry is the first."""
        first, digits = ranking.entries[0], max(2, count_digits(ranking))
        terms = [f"{value:.{digits}f} ({what})" for what, value in self._list_terms(first)]
        total = " = ".join(filter(None, [f"{first.score:.{digits}f}", " + ".join(terms)]))
        highest = f"weighted sum{tell_range(ranking)}, {total}"
        return f"{name_entry(first)} has the highest {highest}{compare_next(ranking)}"

    def _list_terms(self, entry: Ranked) -> list[tuple[str, float]]:
        """Returns what an entry's score adds up, each with what it is; what weighs 0 is left out."""
        hypothesis = entry.hypothesis
        regular, reverse = _read_both(hypothesis, entry.direction)
        inverse = self._invert_penalty(hypothesis)
        terms = [
            (self.regular_weight, "regular score", self.regular_weight * regular * inverse),
            (self.reverse_weight, "reverse score", self.reverse_weight * reverse * inverse),
            (self.length_weight, f"{hypothesis.length} tokens", self.length_weight * hypothesis.length),
        ]
        if self.similarity is not None:
            agreed = entry.score - self.score(hypothesis, entry.direction)
            terms.append((self.agreement_weight, "agreement", agreed))
        return [(f"{weight:g} * {what}", value) for weight, what, value in terms if weight]

    def rank_by_agreement(self, beams: Beams) -> Ranking:
        """Ranks the candidates, and perhaps others, by agreement alone; none without a similarity."""
        if self.similarity is None:
            return Ranking()
        answer: Answerer = "regular" if self.candidates == "regular" else "either"
        return BidiA(self.similarity, answer, self.agreement).rank(beams)

    def score(self, hypothesis: Hypothesis, direction: Direction) -> float:
        """Returns the score of what one direction wrote, but for agreement."""
        regular, reverse = _read_both(hypothesis, direction)
        weighted = self.regular_weight * regular + self.reverse_weight * reverse
        return weighted * self._invert_penalty(hypothesis) + self.length_weight * hypothesis.length

    def _invert_penalty(self, hypothesis: Hypothesis) -> float:
        inverse: float = ((5.0 + hypothesis.length) / 6.0) ** -self.length_exponent
        return inverse


def _read_both(hypothesis: Hypothesis, direction: Direction) -> tuple[float, float]:
    """Returns the log-probabilities by the regular and the reverse direction of what one of them wrote."""
    own, other = number(hypothesis, "log_prob"), number(hypothesis, "other_log_prob")
    return (own, other) if direction is Direction.REGULAR else (other, own)
