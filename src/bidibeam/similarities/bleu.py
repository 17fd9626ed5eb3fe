"""BLEU of every hypothesis against every reference, and BLEU_T, which the paper makes of it.

Clipped n-gram matches of all pairs are counted at once. An n-gram's k-th occurrence in a sequence is one
feature, so that clipped counts become sizes of intersections: each sequence is a set of bits, one per
feature, and a pair costs one `and` with its population count for each 64 features. Only features of
hypotheses are numbered; others cannot match. An n-gram is looked up by the number of its first n - 1 tokens'
n-gram and its last token.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, chain, count
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from bidibeam import work
from bidibeam.errors import SettingsError, check_choice, check_setting
from bidibeam.protocols import ClosestPair
from bidibeam.scores import FACT, Signed
from bidibeam.similarities.compiling import compile_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Matrix

    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
    Numbers = np.ndarray[tuple[int], np.dtype[np.int32]]
    Counts = np.ndarray[tuple[int, int, int], np.dtype[np.int64]]

NO_SMOOTHING, FLOOR, ADD_ONE = 0, 1, 2
SMOOTHINGS = {"floor": FLOOR, "none": NO_SMOOTHING, "add-1": ADD_ONE}

MAX_ORDER = 16
"""Products of that many lengths stay within a float's range."""

LARGEST_MAX_LENGTH = 1_000_000
MEDIAN: Literal["median"] = "median"
"""T where nothing is known of how long replies are: as long as those that hypotheses are compared with."""

_BITS = np.uint64
_ONE = _BITS(1)
_SPREAD = _BITS(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: multiplying by it scatters keys
_PAIRS, _FOURS, _BYTES = _BITS(0x5555555555555555), _BITS(0x3333333333333333), _BITS(0x0F0F0F0F0F0F0F0F)


class NumberedTokens(NamedTuple):
    """Two lists of token sequences end to end; equal tokens have equal numbers, counted from 0."""

    ids: Numbers  # (tokens of all)
    offsets: Numbers  # (hypotheses + references + 1), where each sequence begins, and where the last ends
    hypothesis_count: int


def number_tokens(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> NumberedTokens:
    """Number the tokens of both lists, with one dictionary lookup per token."""
    sequences = [*hypotheses, *references]
    offsets = np.fromiter(accumulate(map(len, sequences), initial=0), np.int32, len(sequences) + 1)
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    ids = np.fromiter(map(numbers.__getitem__, chain.from_iterable(sequences)), np.int32, offsets[-1])
    return NumberedTokens(ids, offsets, len(hypotheses))


@compile_kernel
def _count_bits(bits: np.uint64) -> np.uint64:
    """The population count, in a form that LLVM recognises."""
    bits -= (bits >> _ONE) & _PAIRS
    bits = (bits & _FOURS) + ((bits >> _BITS(2)) & _FOURS)
    bits = (bits + (bits >> _BITS(4))) & _BYTES
    return (bits * _BITS(0x0101010101010101)) >> _BITS(56)


@compile_kernel
def count_matches(ids: Numbers, offsets: Numbers, hypotheses: int, order: int) -> Counts:
    """Counts the n-grams of 1 to `order` tokens that each pair shares: (order, hypotheses, references).

    The first three arguments are those of `NumberedTokens`.
    """
    sequences = offsets.size - 1
    references = sequences - hypotheses
    hypothesis_tokens = offsets[hypotheses]  # as many features as an order can have
    size, shift = 2, 63
    while size < 2 * hypothesis_tokens:
        size, shift = 2 * size, shift - 1
    keys = np.empty(size, dtype=_BITS)
    first_feature = np.empty(size, dtype=np.int32)  # of the key's n-gram; -1 where a slot is free
    next_feature = np.empty(hypothesis_tokens, dtype=np.int32)  # the next occurrence's; -1 if there is none
    last_feature = np.empty(hypothesis_tokens, dtype=np.int32)  # by first: the current sequence's latest
    bits = np.empty(((hypothesis_tokens + 63) // 64, sequences), dtype=_BITS)
    grams = np.zeros(offsets[sequences], dtype=np.int32)  # n-gram at each token; -1 if no hypothesis has it
    matches = np.zeros((order, hypotheses, references), dtype=np.int64)
    for n in range(order):
        features = 0
        first_feature[:] = -1
        bits[:] = _BITS(0)
        for sequence in range(sequences):
            is_hypothesis = sequence < hypotheses
            for place in range(offsets[sequence], offsets[sequence + 1] - n):
                if grams[place] < 0:
                    continue
                key = (_BITS(grams[place]) << _BITS(32)) | _BITS(ids[place + n])
                slot = np.int64((key * _SPREAD) >> _BITS(shift))
                while first_feature[slot] >= 0 and keys[slot] != key:
                    slot = (slot + 1) & (size - 1)
                gram = first_feature[slot]
                if gram < 0 and is_hypothesis:
                    gram = features
                    features += 1
                    keys[slot] = key
                    first_feature[slot] = gram
                    next_feature[gram] = -1
                grams[place] = gram
                if gram < 0:
                    continue
                feature = gram
                if (bits[gram >> 6, sequence] >> _BITS(gram & 63)) & _ONE:
                    before = last_feature[gram]
                    feature = next_feature[before]
                    if feature < 0 and is_hypothesis:
                        feature = features
                        features += 1
                        next_feature[before] = feature
                        next_feature[feature] = -1
                if feature >= 0:
                    last_feature[gram] = feature
                    bits[feature >> 6, sequence] |= _ONE << _BITS(feature & 63)
        for word in range((features + 63) // 64):
            for row in range(hypotheses):
                for column in range(references):
                    common = bits[word, row] & bits[word, hypotheses + column]
                    matches[n, row, column] += np.int64(_count_bits(common))
    return matches


@compile_kernel
def _score_bleu(
    ids: Numbers,
    offsets: Numbers,
    hypotheses: int,
    order: int,
    smoothing: int,
    weights: Floats,
    penalties: Floats,
) -> Matrix:
    """Returns BLEU of every pair, (hypotheses, references), each multiplied by its hypothesis' penalty.

    FLOOR counts no match as a tenth, ADD_ONE adds one above order 1. No weights: all orders alike.
    """
    matches = count_matches(ids, offsets, hypotheses, order)
    references = matches.shape[2]
    scores = np.empty((hypotheses, references))
    numerators, denominators = np.empty(references), np.empty(references)
    log_scores = np.empty(references)
    for row in range(hypotheses):
        numerators[:] = 1.0
        denominators[:] = 1.0
        log_scores[:] = 0.0
        for n in range(order):
            added = 1.0 if smoothing == ADD_ONE and n > 0 else 0.0
            total = max(1, offsets[row + 1] - offsets[row] - n) + added
            for column in range(references):
                matched = matches[n, row, column] + added
                is_floored = smoothing == FLOOR and matched == 0
                numerators[column] *= 1.0 if is_floored else matched
                denominators[column] *= 10 * total if is_floored else total
            if weights.size:
                for column in range(references):
                    if weights[n] > 0:
                        log_scores[column] += weights[n] * np.log(numerators[column] / denominators[column])
                    numerators[column] = denominators[column] = 1.0
        for column in range(references):
            # Products of whole numbers are exact, so equal scores are equal to the last bit.
            score = numerators[column] / denominators[column]
            if weights.size:
                score = np.exp(log_scores[column])
            elif order == 4:
                score = np.sqrt(np.sqrt(score))
            elif order > 1:
                score = score ** (1 / order)
            scores[row, column] = score * penalties[row] if matches[0, row, column] else 0.0
    return scores


@dataclass(frozen=True)
class Bleu(Signed):
    """The geometric mean of modified n-gram precisions, with no brevity penalty; 0 where no word matches.

    Args:
        order: N, the longest n-grams.
        weights: One for each order, summing to 1; all alike if there are none.
        smoothing: What to do with an order that has no match. "floor" counts it as a tenth of one; "none"
            leaves it, so that the score is 0; "add-1" adds one to matches and n-grams above order 1.

    Reference: Papineni et al. (2002); Chen and Cherry (2014) number the smoothings 1, none and 2.
    """

    order: int = 4
    weights: tuple[float, ...] | None = field(default=None, metadata={FACT: "order_weights"})
    smoothing: Literal["floor", "none", "add-1"] = "floor"

    is_parallel: ClassVar[bool] = True
    recipe: ClassVar[Mapping[str, str]] = {"similarity": "bleu"}

    def __post_init__(self) -> None:
        is_order = type(self.order) is int and 1 <= self.order <= MAX_ORDER
        check_setting(is_order, "order", self.order, f"a whole number from 1 to {MAX_ORDER}")
        if self.weights is not None:
            object.__setattr__(self, "weights", _check_weights(self.weights, self.order))
        check_choice("smoothing", self.smoothing, SMOOTHINGS)

    def pairwise(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        """Score each hypothesis against each reference, from 0 to 1."""
        work.count(compared_pairs=len(hypotheses) * len(references))
        tokens = number_tokens([each.tokens for each in hypotheses], [each.tokens for each in references])
        lengths = np.diff(tokens.offsets[: len(hypotheses) + 1])  # (hypotheses,)
        smoothing = SMOOTHINGS[self.smoothing]
        penalties = self._penalties(lengths, np.diff(tokens.offsets[len(hypotheses) :]))
        return _score_bleu(*tokens, self.order, smoothing, self._order_weights, penalties)

    def closest(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> ClosestPair:
        """Return the first highest entry of `pairwise`, row by row; neither list is empty."""
        return ClosestPair.of(self.pairwise(hypotheses, references))

    @cached_property
    def _order_weights(self) -> Floats:
        """As the kernel takes them: none if all orders weigh alike."""
        is_uniform = self.weights is None or len(set(self.weights)) == 1
        return np.array(() if is_uniform else self.weights, dtype=np.float64)

    def _penalties(self, lengths: Numbers, reference_lengths: Numbers) -> Floats:  # noqa: ARG002
        """What the scores of hypotheses of these lengths are multiplied by."""
        return np.ones(len(lengths))


@dataclass(frozen=True)
class BleuT(Bleu):
    """BLEU_T: BLEU times BP_T of the hypothesis.

    Args:
        max_length: T of BP_T, or "median" for the median length of those that hypotheses are compared with.

    Reference: Colombo et al. (2021), arXiv:2110.03389.
    """

    max_length: int | Literal["median"] = field(default=MEDIAN, metadata={FACT: "T"})

    recipe: ClassVar[Mapping[str, str]] = {"similarity": "bleu_t"}

    @property
    def without_length(self) -> Bleu:
        """The same similarity without BP_T."""
        return Bleu(self.order, self.weights, self.smoothing)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_max_length(self.max_length)

    def _penalties(self, lengths: Numbers, reference_lengths: Numbers) -> Floats:
        return brevity_penalties(lengths, find_length(self.max_length, reference_lengths))


def brevity_penalties(lengths: Numbers, max_length: int) -> Floats:
    """BP_T = exp(1 - T / c), at most 1, where c is a hypothesis' number of tokens; 0 for an empty one.

    The paper's penalty keeps two models from agreeing on nothing but "i don't know".
    """
    return _penalties_by_length(max_length)[np.minimum(lengths, max_length)]


@lru_cache(maxsize=32)  # a server is asked for any T
def _penalties_by_length(max_length: int) -> Floats:
    """BP_T of 0 tokens to T."""
    with np.errstate(divide="ignore"):
        return np.exp(1.0 - max_length / np.arange(max_length + 1, dtype=np.float64))


def find_length(max_length: int | Literal["median"], reference_lengths: Numbers) -> int:
    """T in tokens; the median is the lower one, and at least 1."""
    if isinstance(max_length, int):
        return max_length
    if not len(reference_lengths):
        return 1
    return max(1, int(np.sort(reference_lengths)[(len(reference_lengths) - 1) // 2]))


def check_max_length(value: object) -> None:
    """Refuse a T that no hypothesis can have."""
    is_length = type(value) is int and 1 <= value <= LARGEST_MAX_LENGTH
    rule = f"a whole number from 1 to {LARGEST_MAX_LENGTH:,}, or {MEDIAN}"
    check_setting(is_length or value == MEDIAN, "max_length (T)", value, rule)


def _check_weights(weights: Sequence[float], order: int) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, weights))
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != order or min(numbers) < 0 or not math.isclose(math.fsum(numbers), 1, abs_tol=1e-9):
        raise SettingsError(
            f"weights must be {order} numbers of at least 0, one for each order, that sum to 1; "
            f"received {weights!r}."
        )
    return numbers
