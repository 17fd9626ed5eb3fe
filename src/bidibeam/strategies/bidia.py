"""BidiA: answer with what both directions say.

A similarity's results are checked: anybody may have written it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from bidibeam.errors import SimilarityError, check_choice, wrapping
from bidibeam.hypotheses import Direction, Ranked, Ranking
from bidibeam.protocols import ClosestPair, ClosestPairFinder, Requirements, Similarity
from bidibeam.scores import Signature, Signed
from bidibeam.strategies.ranking import number
from bidibeam.strategies.reasons import compare_next, count_digits, name_entry, name_hypothesis, tell_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bidibeam.hypotheses import Beams, Hypothesis
    from bidibeam.protocols import Matrix

Answerer = Literal["regular", "either"]
Agreement = Literal["closest", "expected", "mean"]


@dataclass(frozen=True)
class BidiA(Signed):
    """Rank hypotheses by how well they agree with the beam of the other direction.

    Cost per source: two beam searches of half the size, and a similarity for every pair across.
    Reference: Colombo et al. (2021), arXiv:2110.03389, section 3.2: the regular member of the closest pair.

    Args:
        similarity: Compares a hypothesis with those of the other beam.
        answer: Who may answer: "regular" hypotheses, or "either" direction's, each compared with the other's.
        agreement: What of a hypothesis' similarities counts: the "closest", their "mean", or that which is
            "expected" under the other beam's posterior (its log-probabilities, normalised within the beam).
    """

    similarity: Similarity
    answer: Answerer = "regular"
    agreement: Agreement = "closest"
    recipe: ClassVar[Mapping[str, str]] = {"strategy": "bidia"}

    def __post_init__(self) -> None:
        check_choice("answer", self.answer, get_args(Answerer))
        check_choice("agreement", self.agreement, get_args(Agreement))

    @property
    def requirements(self) -> Requirements:
        """Both beams, and their log-probabilities if those are weights."""
        return Requirements((Direction.REGULAR, Direction.REVERSE), log_prob=self.agreement == "expected")

    def rank(self, beams: Beams) -> Ranking:
        """Ranks those that may answer, most agreed upon first; ties go to the regular beam, then the better.

        Where the other beam is empty nothing is agreed upon, and the search's own order stays.
        """
        entries: list[Ranked] = []
        for direction in self._directions:
            hypotheses, references = beams.of(direction).hypotheses, beams.of(direction.other).hypotheses
            matrix = similarity_matrix(self.similarity, hypotheses, references)  # (hypotheses, references)
            partners = matrix.argmax(1).tolist() if references else [None] * len(hypotheses)
            agreement = sum_agreement(matrix, references, self.agreement)
            entries.extend(
                Ranked(hypothesis, direction, place, value, partner)
                for place, (hypothesis, value, partner) in enumerate(
                    zip(hypotheses, agreement, partners, strict=True)
                )
            )
        return Ranking.of(entries)

    def choose(self, beams: Beams) -> Ranked | None:
        """Returns the first of `rank`; by the similarity's shortcut where the closest pair decides."""
        has_shortcut = self.agreement == "closest" and hasattr(self.similarity, "closest")
        if not has_shortcut or not beams.regular.hypotheses or not beams.reverse.hypotheses:
            return next(iter(self.rank(beams)), None)
        best: Ranked | None = None
        for direction, places in self._candidates(beams):
            own, references = beams.of(direction).hypotheses, beams.of(direction.other).hypotheses
            hypotheses = own if len(places) == len(own) else [own[place] for place in places]
            row, column, value = find_closest(self.similarity, hypotheses, references)  # type: ignore[arg-type]
            if best is None or value > best.score:
                best = Ranked(hypotheses[row], direction, places[row], value, column)
        return best

    def reason(self, beams: Beams, ranking: Ranking) -> str:
        """Returns why the first entry is the first."""
        first, is_pair = ranking.entries[0], self.agreement == "closest"
        other, name = first.direction.other, name_similarity(self.similarity)
        if first.partner is None:
            return f"{name_entry(first)} leads its own beam, and the {other.value} beam is empty."
        partner, value = name_hypothesis(other, first.partner), f"{first.score:.{count_digits(ranking)}f}"
        if is_pair:
            said = f"agrees most{tell_range(ranking)}, with {partner}: {name} {value}"
            if (plain := getattr(self.similarity, "without_length", None)) is not None:
                pair = [first.hypothesis], [beams.of(other)[first.partner]]
                said += f" ({similarity_matrix(plain, *pair)[0, 0]:.2f} without the length term BP_T)"
        else:
            highest = f"{self.agreement} {name} with the {other.value} beam{tell_range(ranking)}"
            said = f"has the highest {highest}, {value}, and is closest to {partner}"
        return f"{name_entry(first)} {said}{compare_next(ranking, with_partner=is_pair)}"

    @property
    def _directions(self) -> tuple[Direction, ...]:
        return (Direction.REGULAR,) if self.answer == "regular" else (Direction.REGULAR, Direction.REVERSE)

    def _candidates(self, beams: Beams) -> list[tuple[Direction, Sequence[int]]]:
        """Returns the directions and places that may come first: those that finished, or all if none did."""
        finished = [
            (direction, [place for place, each in enumerate(beams.of(direction)) if each.finished])
            for direction in self._directions
        ]
        return [(direction, places) for direction, places in finished if places] or [
            (direction, range(len(beams.of(direction)))) for direction in self._directions
        ]


def sum_agreement(matrix: Matrix, references: Sequence[Hypothesis], how: Agreement) -> list[float]:
    """Returns one number for each row of (hypotheses, references); 0 where there are no references."""
    if not references:
        return [0.0] * len(matrix)
    if how == "closest":
        agreement = matrix.max(1)
    elif how == "mean":
        agreement = matrix.mean(1)
    else:
        log_probs = np.array([number(each, "log_prob") for each in references])  # (references,)
        posterior = np.exp(log_probs - log_probs.max())  # (references,)
        # A product and a sum keep equal rows equal, which matrix multiplication does not.
        agreement = (matrix * (posterior / posterior.sum())).sum(1)
    values: list[float] = agreement.tolist()
    return values


def similarity_matrix(
    similarity: Similarity, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]
) -> Matrix:
    """Returns the whole matrix, (hypotheses, references); the similarity is not called if a list is empty."""
    if not hypotheses or not references:
        return np.zeros((len(hypotheses), len(references)))
    result = _call(similarity, similarity.pairwise, hypotheses, references)
    try:
        matrix = np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise SimilarityError(
            f"{_name(similarity)} answered with {type(result).__name__}, which is no matrix of numbers "
            f"({error}). It must return one number for each pair."
        ) from error
    if matrix.shape != (len(hypotheses), len(references)):
        raise SimilarityError(
            f"{_name(similarity)} answered with shape {matrix.shape} for {len(hypotheses)} hypotheses "
            f"against {len(references)}. It must return one row for each of the first, one column for each "
            "of the second."
        )
    if not np.isfinite(matrix).all():
        row, column = (int(index) for index in np.argwhere(~np.isfinite(matrix))[0])
        raise SimilarityError(
            f"{_name(similarity)} answered with {matrix[row, column]} for {hypotheses[row].text!r} and "
            f"{references[column].text!r}. It must return a finite number for every pair."
        )
    return matrix


def find_closest(
    similarity: ClosestPairFinder, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]
) -> ClosestPair:
    """Returns the highest entry of the matrix, the first of equal ones, by the similarity's shortcut."""
    result = _call(similarity, similarity.closest, hypotheses, references)
    try:
        row, column, value = int(result[0]), int(result[1]), float(result[2])
    except (TypeError, ValueError, IndexError):
        row, column, value = -1, -1, math.nan
    if not (0 <= row < len(hypotheses) and 0 <= column < len(references) and math.isfinite(value)):
        raise SimilarityError(
            f"{_name(similarity)} answered with {result!r} as the closest pair of {len(hypotheses)} "
            f"hypotheses and {len(references)}. It must return two places, counted from 0, and a finite "
            "number."
        )
    return ClosestPair(row, column, value)


def _call(similarity: object, method: Callable[..., Any], *lists: Sequence[Hypothesis]) -> Any:
    def tell(error: Exception) -> str:
        failure = f"{_name(similarity)} failed with {type(error).__name__}: {error}."
        called = "It is called with two lists of hypotheses, each with .text and .tokens"
        return f"{failure} {called}; the traceback shows where it failed."

    with wrapping(SimilarityError, tell):
        return method(*lists)


def _name(similarity: object) -> str:
    return f"The similarity {name_similarity(similarity)!r}"


def name_similarity(similarity: object) -> str:
    """Returns what messages call a similarity."""
    signature = getattr(similarity, "signature", None)
    return signature.facts[0][1] if isinstance(signature, Signature) else type(similarity).__name__
