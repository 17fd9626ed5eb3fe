"""Vanilla beam search's own choice, the most likely reply, and the same with its length settings tuned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature
from bidibeam.strategies.ranking import best_by, number, ranking_by

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Hypothesis, Ranked, Ranking

LARGEST_EXPONENT = 10
"""As in a search; far beyond it, powers of a length overflow."""

LARGEST_WEIGHT = 10_000


@dataclass(frozen=True)
class Vbs:
    """VBS: rank the regular beam by length-normalised log-probability, as the search did."""

    @property
    def requirements(self) -> Requirements:
        """The regular beam with its scores."""
        return Requirements((Direction.REGULAR,), score=True)

    @property
    def signature(self) -> Signature:
        """Its name."""
        return Signature.of_settings(self, strategy="vbs")

    def rank(self, beams: Beams) -> Ranking:
        """The regular hypotheses, most likely first."""
        return ranking_by(beams, Direction.REGULAR, _score)

    def choose(self, beams: Beams) -> Ranked | None:
        """The most likely."""
        return best_by(beams, Direction.REGULAR, _score)


@dataclass(frozen=True)
class ReverseVbs:
    """VBS with the reverse decoder in the regular one's place."""

    @property
    def requirements(self) -> Requirements:
        """The reverse beam with its scores."""
        return Requirements((Direction.REVERSE,), score=True)

    @property
    def signature(self) -> Signature:
        """Its name."""
        return Signature.of_settings(self, strategy="reverse-vbs")

    def rank(self, beams: Beams) -> Ranking:
        """The reverse hypotheses, most likely first."""
        return ranking_by(beams, Direction.REVERSE, _score)

    def choose(self, beams: Beams) -> Ranked | None:
        """The most likely."""
        return best_by(beams, Direction.REVERSE, _score)


@dataclass(frozen=True)
class VbsTuned:
    """VBS with other length settings than the search's: what agreement must beat to be more than length.

    The score is log P / lp + word_reward * |Y|, lp = (5 + |Y|)^length_exponent / 6^length_exponent.

    Args:
        length_exponent: The exponent a of lp; `bidibeam tune` finds it.
        word_reward: What each token is worth, in natural logarithms; found likewise.

    Raises:
        SettingsError: If one is not a finite number, or the exponent is far out.
    """

    length_exponent: float
    word_reward: float

    def __post_init__(self) -> None:
        check_finite("length_exponent", self.length_exponent)
        check_finite("word_reward", self.word_reward)
        if abs(self.length_exponent) > LARGEST_EXPONENT:
            raise SettingsError(
                f"length_exponent must lie between -{LARGEST_EXPONENT} and {LARGEST_EXPONENT}, "
                f"not {self.length_exponent!r}."
            )

    @property
    def requirements(self) -> Requirements:
        """The regular beam with its log-probabilities."""
        return Requirements((Direction.REGULAR,), log_prob=True)

    @property
    def signature(self) -> Signature:
        """Its name and both settings."""
        return Signature.of_settings(self, strategy="vbs-tuned")

    def rank(self, beams: Beams) -> Ranking:
        """The regular hypotheses, best first."""
        return ranking_by(beams, Direction.REGULAR, self._score)

    def _score(self, hypothesis: Hypothesis) -> float:
        inverse: float = ((5.0 + hypothesis.length) / 6.0) ** -self.length_exponent
        return number(hypothesis, "log_prob") * inverse + self.word_reward * hypothesis.length


def _score(hypothesis: Hypothesis) -> float:
    return number(hypothesis, "score")


def check_finite(name: str, value: object) -> None:
    """Refuse what is no finite number, or one so large that sums with it mean nothing.

    Raises:
        SettingsError: If so.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SettingsError(f"{name} must be a finite number, not {value!r}.")
    if abs(value) > LARGEST_WEIGHT:
        raise SettingsError(
            f"{name} must lie between -{LARGEST_WEIGHT:,} and {LARGEST_WEIGHT:,}, not {value!r}."
        )
