"""BidiA: answer with what both directions say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction, Ranked, Ranking
from bidibeam.protocols import ClosestPairFinder, Needs, Similarity
from bidibeam.scores import Signature
from bidibeam.selection.agreement import closest_pair, similarities
from bidibeam.selection.ranking import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.hypotheses import Beams, Hypothesis
    from bidibeam.protocols import Matrix

Answer = Literal["regular", "either"]
Agreement = Literal["closest", "expected", "mean"]


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
        for flag, value, known in (
            ("--answer", self.answer, get_args(Answer)),
            ("--agreement", self.agreement, get_args(Agreement)),
        ):
            if value not in known:
                raise SettingsError(f"{flag} must be one of {', '.join(known)}, not {value!r}.")

    @property
    def needs(self) -> Needs:
        """Both beams, and their log-probabilities if those are weights."""
        return Needs((Direction.REGULAR, Direction.REVERSE), log_prob=self.agreement == "expected")

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
        finder = self._finder
        if finder is None or self.agreement != "closest" or not len(beams.regular) or not len(beams.reverse):
            return next(iter(self.rank(beams)), None)
        allowed = [(direction, _places(beams.of(direction).hypotheses)) for direction in self._answering]
        if any(finished for _, (finished, _) in allowed):
            found = [
                _closest(finder, beams, direction, finished)
                for direction, (finished, _) in allowed
                if finished
            ]
        else:
            found = [_closest(finder, beams, direction, every) for direction, (_, every) in allowed]
        return max(found, key=lambda entry: entry.score)

    @cached_property
    def _finder(self) -> ClosestPairFinder | None:
        """The similarity, if it has the shortcut; asked once, because asking takes as long as comparing."""
        return self.similarity if isinstance(self.similarity, ClosestPairFinder) else None

    @property
    def _answering(self) -> tuple[Direction, ...]:
        return (Direction.REGULAR,) if self.answer == "regular" else (Direction.REGULAR, Direction.REVERSE)

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


def _closest(finder: ClosestPairFinder, beams: Beams, direction: Direction, places: Sequence[int]) -> Ranked:
    """The best of some of a direction's hypotheses."""
    own, others = beams.of(direction).hypotheses, beams.of(direction.other).hypotheses
    judged = own if len(places) == len(own) else [own[place] for place in places]
    pair = closest_pair(finder, judged, others)
    place = places[pair.judged]
    return Ranked(own[place], direction, place, pair.value, pair.other)


def _places(hypotheses: Sequence[Hypothesis]) -> tuple[list[int], list[int]]:
    """The places of those that finished, and of all."""
    every = list(range(len(hypotheses)))
    return [place for place in every if hypotheses[place].finished], every
