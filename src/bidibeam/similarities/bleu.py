"""BLEU of one hypothesis against another: how many of its n-grams the other has too."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from bidibeam.errors import SettingsError
from bidibeam.protocols import ClosestPair
from bidibeam.scores import FACT, Signature
from bidibeam.similarities.brevity import DEFAULT_MAX_LENGTH, check_max_length, penalties_of
from bidibeam.similarities.ngrams import (
    ADD_ONE,
    FLOOR,
    MAX_ORDER,
    NO_SMOOTHING,
    closest_by_bleu,
    score_bleu,
)
from bidibeam.similarities.tokens import number_lists, number_tokens
from bidibeam.work import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Comparison, Matrix

    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
    Numbers = np.ndarray[tuple[int], np.dtype[np.int32]]

SMOOTHINGS = {"floor": FLOOR, "none": NO_SMOOTHING, "add-1": ADD_ONE}


@dataclass(frozen=True)
class Bleu:
    """The geometric mean of modified n-gram precisions, with no brevity penalty; 0 where no word matches.

    Args:
        order: N, the longest n-grams.
        weights: One for each order, summing to 1; all alike if there are none.
        smoothing: What to do with an order that has no match. "floor" counts it as a tenth of one; "none"
            leaves it, so that the score is 0; "add-1" adds one to matches and n-grams above order 1.

    Reference: Papineni et al. (2002); Chen and Cherry (2014) number the smoothings 1, none and 2.

    Raises:
        SettingsError: If a setting is out of range.
    """

    order: int = 4
    weights: tuple[float, ...] | None = field(default=None, metadata={FACT: "order_weights"})
    smoothing: Literal["floor", "none", "add-1"] = "floor"

    is_parallel: ClassVar[bool] = True
    least_share: ClassVar[int] = 64
    name: ClassVar[str] = "bleu"

    def __post_init__(self) -> None:
        if (
            isinstance(self.order, bool)
            or not isinstance(self.order, int)
            or not 1 <= self.order <= MAX_ORDER
        ):
            raise SettingsError(f"order must be a whole number from 1 to {MAX_ORDER}, not {self.order!r}.")
        if self.weights is not None:
            object.__setattr__(self, "weights", _checked_weights(self.weights, self.order))
        if self.smoothing not in SMOOTHINGS:
            raise SettingsError(f"smoothing must be one of {', '.join(SMOOTHINGS)}, not {self.smoothing!r}.")

    @property
    def signature(self) -> Signature:
        """Its name and settings."""
        return Signature.of_settings(self, similarity=self.name)

    def pairwise(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Matrix:
        """Each judged hypothesis against each other one as its reference, from 0 to 1."""
        count(compared_pairs=len(judged) * len(others))
        tokens = number_tokens([each.tokens for each in judged], [each.tokens for each in others])
        lengths = tokens.offsets[1 : len(judged) + 1] - tokens.offsets[: len(judged)]  # (judged,)
        return score_bleu(
            tokens,
            self.order,
            SMOOTHINGS[self.smoothing],
            weights=self._order_weights,
            penalties=self._penalties(lengths),
        )

    def closest(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> ClosestPair:
        """The first highest entry of `pairwise`, row by row; neither list is empty."""
        matrix = self.pairwise(judged, others)
        row, column = divmod(int(matrix.argmax()), len(others))
        return ClosestPair(row, column, float(matrix[row, column]))

    def closest_pairs(self, comparisons: Sequence[Comparison]) -> list[ClosestPair]:
        """What `closest` finds for each comparison."""
        lists = number_lists(comparisons)
        count(compared_pairs=sum(len(judged) * len(others) for judged, others in comparisons))
        tokens = number_tokens(lists.sequences, [])
        lengths = tokens.offsets[1:] - tokens.offsets[:-1]  # (sequences,)
        found = closest_by_bleu(
            lists,
            tokens,
            self.order,
            SMOOTHINGS[self.smoothing],
            weights=self._order_weights,
            penalties=self._penalties(lengths),
        )
        return list(map(ClosestPair, *(each.tolist() for each in found)))

    @cached_property
    def _order_weights(self) -> Floats:
        """As the kernel takes them: none if all orders weigh alike."""
        is_uniform = self.weights is None or len(set(self.weights)) == 1
        return np.array(() if is_uniform else self.weights, dtype=np.float64)

    def _penalties(self, lengths: Numbers) -> Floats:
        """What the scores of judged hypotheses of these lengths are multiplied by."""
        return np.ones(len(lengths))


@dataclass(frozen=True)
class BleuT(Bleu):
    """BLEU_T: BLEU times BP_T of the judged hypothesis.

    Args:
        order: As in `Bleu`.
        weights: As in `Bleu`.
        smoothing: As in `Bleu`.
        max_length: T of BP_T.

    Reference: Colombo et al. (2021), arXiv:2110.03389.

    Raises:
        SettingsError: If a setting is out of range.
    """

    max_length: int = field(default=DEFAULT_MAX_LENGTH, metadata={FACT: "T"})

    name: ClassVar[str] = "bleu_t"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_max_length(self.max_length)

    def _penalties(self, lengths: Numbers) -> Floats:
        return penalties_of(lengths, self.max_length)


def sentence_bleus(hypotheses: Sequence[Sequence[str]], reference_tokens: Sequence[str]) -> Floats:
    """Ordinary sentence BLEU-4 of each hypothesis against one reference, all as tokens.

    Precisions without a match are floored; the brevity penalty is exp(1 - r / c), at most 1.
    """
    lengths = np.array([max(1, len(tokens)) for tokens in hypotheses], dtype=np.float64)  # an empty one has 0
    penalties = np.minimum(1.0, np.exp(1.0 - len(reference_tokens) / lengths))
    tokens = number_tokens(hypotheses, [reference_tokens])
    return score_bleu(tokens, 4, FLOOR, weights=np.empty(0), penalties=penalties)[:, 0]


def _checked_weights(weights: Sequence[float], order: int) -> tuple[float, ...]:
    try:
        found = tuple(map(float, weights))
    except (TypeError, ValueError):
        found = ()
    if len(found) != order or min(found) < 0 or not math.isclose(math.fsum(found), 1, abs_tol=1e-9):
        raise SettingsError(
            f"weights must be {order} numbers of at least 0, one for each order, that sum to 1; "
            f"received {weights!r}."
        )
    return found
