"""BidiA: answer with what both directions say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction, Ranked, Ranking
from bidibeam.protocols import ClosestPairFinder, Requirements, Similarity
from bidibeam.scores import Signature
from bidibeam.strategies.agreement import closest_pairs, similarities
from bidibeam.strategies.choosing import least_share
from bidibeam.strategies.ranking import number
from bidibeam.workers import shared_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.hypotheses import Beams, Hypothesis
    from bidibeam.protocols import Comparison, Matrix

Answer = Literal["regular", "either"]
Agreement = Literal["closest", "expected", "mean"]

_IS_FINISHED = attrgetter("finished")


@dataclass(frozen=True)
class BidiA:
    """Rank hypotheses by how well they agree with the beam of the other direction.

    Cost per source: two beam searches of half the size, and a similarity for every pair across.
    Reference: Colombo et al. (2021), arXiv:2110.03389, section 3.2: the regular member of the closest pair.

    Args:
        similarity: Compares a hypothesis with those of the other beam.
        answer: Who may answer: "regular" hypotheses, or "either" direction's, each judged against the other.
        agreement: What of a hypothesis' similarities counts: the "closest", their "mean", or that which is
            "expected" under the other beam's posterior (its log-probabilities, normalised within the beam).

    Raises:
        SettingsError: If answer or agreement is unknown.
    """

    similarity: Similarity
    answer: Answer = "regular"
    agreement: Agreement = "closest"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("answer", self.answer, get_args(Answer)),
            ("agreement", self.agreement, get_args(Agreement)),
        ):
            if value not in known:
                raise SettingsError(f"{name} must be one of {', '.join(known)}, not {value!r}.")

    @property
    def requirements(self) -> Requirements:
        """Both beams, and their log-probabilities if those are weights."""
        return Requirements((Direction.REGULAR, Direction.REVERSE), log_prob=self.agreement == "expected")

    @property
    def signature(self) -> Signature:
        """Its name, the similarity's own signature, and the options."""
        return Signature.of_settings(self, strategy="bidia")

    def rank(self, beams: Beams) -> Ranking:
        """Those that may answer, most agreed upon first; ties go to the regular beam, then to the better.

        Where the other beam is empty nothing is agreed upon, and the search's own order stays.
        """
        entries: list[Ranked] = []
        for direction in self._answering:
            judged, others = beams.of(direction).hypotheses, beams.of(direction.other).hypotheses
            matrix = similarities(self.similarity, judged, others)  # (judged, others)
            partners = matrix.argmax(1).tolist() if others else [None] * len(judged)
            agreed = self._agreed(matrix, others)
            entries.extend(
                Ranked(hypothesis, direction, place, value, partner)
                for place, (hypothesis, value, partner) in enumerate(
                    zip(judged, agreed, partners, strict=True)
                )
            )
        return Ranking.of(entries)

    def choose(self, beams: Beams) -> Ranked | None:
        """The first of `rank`; by the closest pair alone where that decides and the similarity finds it."""
        return self.choose_many([beams])[0]

    def choose_many(self, batch: Sequence[Beams]) -> list[Ranked | None]:
        """What `choose` finds for each source; the closest pairs of all are looked for together."""
        finder = self._finder
        if finder is None or self.agreement != "closest":
            return shared_out(
                lambda beams: next(iter(self.rank(beams)), None), batch, least=least_share(self)
            )
        chosen: list[Ranked | None] = [None] * len(batch)
        asked: list[tuple[int, Direction, Sequence[int]]] = []
        comparisons: list[Comparison] = []
        for source, beams in enumerate(batch):
            if not beams.regular.hypotheses or not beams.reverse.hypotheses:
                chosen[source] = next(iter(self.rank(beams)), None)
                continue
            for direction, places in self._allowed(beams):
                own, others = beams.of(direction).hypotheses, beams.of(direction.other).hypotheses
                judged = own if len(places) == len(own) else [own[place] for place in places]
                asked.append((source, direction, places))
                comparisons.append((judged, others))
        for (source, direction, places), pair in zip(asked, closest_pairs(finder, comparisons), strict=True):
            best = chosen[source]
            if best is None or pair.value > best.score:
                place = places[pair.judged]
                hypothesis = batch[source].of(direction)[place]
                chosen[source] = Ranked(hypothesis, direction, place, pair.value, pair.other)
        return chosen

    @cached_property
    def _finder(self) -> ClosestPairFinder | None:
        """The similarity, if it has the shortcut; asked once, because asking takes as long as comparing."""
        return self.similarity if isinstance(self.similarity, ClosestPairFinder) else None

    @cached_property
    def _answering(self) -> tuple[Direction, ...]:
        return (Direction.REGULAR,) if self.answer == "regular" else (Direction.REGULAR, Direction.REVERSE)

    def _allowed(self, beams: Beams) -> list[tuple[Direction, Sequence[int]]]:
        """Whose hypotheses may come first, and their places: those that finished, or all if none did."""
        finished = [
            (direction, places)
            for direction in self._answering
            if (places := _finished(beams.of(direction).hypotheses))
        ]
        return finished or [(direction, range(len(beams.of(direction)))) for direction in self._answering]

    def _agreed(self, matrix: Matrix, others: Sequence[Hypothesis]) -> list[float]:
        """One number for each row of (judged, others)."""
        if not others:
            return [0.0] * len(matrix)
        if self.agreement == "closest":
            agreed = matrix.max(1)
        elif self.agreement == "mean":
            agreed = matrix.mean(1)
        else:
            log_probs = np.array([number(hypothesis, "log_prob") for hypothesis in others])  # (others,)
            posterior = np.exp(log_probs - log_probs.max())  # (others,)
            agreed = (matrix * (posterior / posterior.sum())).sum(1)  # equal rows stay equal, unlike with @
        values: list[float] = agreed.tolist()
        return values


def _finished(hypotheses: Sequence[Hypothesis]) -> Sequence[int]:
    """The places of those that finished."""
    if all(map(_IS_FINISHED, hypotheses)):
        return range(len(hypotheses))
    return [place for place, hypothesis in enumerate(hypotheses) if hypothesis.finished]
