"""Clipped n-gram matches of every pair of two lists at once, and the BLEU that follows from them.

An n-gram's k-th occurrence in a sequence is a feature of its own, so that clipped counts become sizes of
intersections: each sequence is a set of bits, one a feature, and a pair costs one `and` with its population
count for each 64 features. Features are numbered by what the judged sequences hold; what is in none of them
cannot match. An n-gram is looked up by the number of its first n - 1 tokens' n-gram and its last token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from numba.extending import intrinsic

from bidibeam.compiling import compiled
from bidibeam.similarities.tokens import worth_a_thread
from bidibeam.turns import away
from bidibeam.workers import in_parts

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix
    from bidibeam.similarities.tokens import NumberedLists, NumberedTokens, Numbers

    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
    Wholes = np.ndarray[tuple[int], np.dtype[np.int64]]
    Counts = np.ndarray[tuple[int, int, int], np.dtype[np.int64]]

NO_SMOOTHING, FLOOR, ADD_ONE = 0, 1, 2
MAX_ORDER = 16
"""Products of that many lengths stay within a float's range."""

_BITS = np.uint64
_ONE = _BITS(1)
_SPREAD = _BITS(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: multiplying by it scatters keys


def _count_bits(_context: Any, _bits: Any) -> Any:  # pragma: no cover
    """The processor's own population count."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return numba.uint64(numba.uint64), generate


_population = intrinsic(_count_bits)


class Matches(NamedTuple):
    """What modified precisions are made of.

    Attributes:
        numerators: (order, judged, others), clipped matches.
        denominators: (order, judged), n-grams of each judged sequence, at least 1.
    """

    numerators: Counts
    denominators: np.ndarray[tuple[int, int], np.dtype[np.int64]]


def count_matches(tokens: NumberedTokens, order: int) -> Matches:
    """Count the n-grams of 1 to `order` tokens that pairs have in common."""
    lengths = np.diff(tokens.offsets[: tokens.judged + 1]).astype(np.int64)
    denominators = np.maximum(1, lengths - np.arange(order)[:, np.newaxis])  # (order, judged)
    return Matches(_count_matches(tokens.ids, tokens.offsets, tokens.judged, order), denominators)


def score_bleu(
    tokens: NumberedTokens, order: int, smoothing: int, *, weights: Floats, penalties: Floats
) -> Matrix:
    """BLEU of every pair, (judged, others).

    Args:
        tokens: The sequences.
        order: N, the longest n-grams.
        smoothing: NO_SMOOTHING, FLOOR (nothing matched counts as a tenth) or ADD_ONE (above order 1).
        weights: (order), or empty: all orders alike.
        penalties: (judged), what the scores of each are multiplied by.
    """
    return _score_bleu(tokens.ids, tokens.offsets, tokens.judged, order, smoothing, weights, penalties)


def closest_by_bleu(
    lists: NumberedLists,
    tokens: NumberedTokens,
    order: int,
    smoothing: int,
    *,
    weights: Floats,
    penalties: Floats,
) -> tuple[Wholes, Wholes, Floats]:
    """Each comparison's first highest entry of `score_bleu`: its row, its column and its value.

    Args:
        lists: What to compare.
        tokens: Those of `lists.sequences`.
        order: As in `score_bleu`.
        smoothing: As in `score_bleu`.
        weights: As in `score_bleu`.
        penalties: (sequences), what the scores of each are multiplied by where it is judged.
    """

    def found(first: int, last: int) -> tuple[Wholes, Wholes, Floats]:
        cuts = lists.cuts[2 * first : 2 * last + 1]
        ids, offsets = tokens.ids, tokens.offsets
        return _closest_by_bleu(lists.places, cuts, ids, offsets, order, smoothing, weights, penalties)

    with away():
        rows, columns, values = zip(
            *in_parts(found, len(lists.cuts) // 2, least=worth_a_thread(lists.cuts)), strict=True
        )
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


@compiled
def _count_matches(ids: Numbers, offsets: Numbers, judged: int, order: int) -> Counts:
    sequences = offsets.size - 1
    others = sequences - judged
    judged_tokens = offsets[judged]  # as many features as an order can have
    size, shift = 2, 63
    while size < 2 * judged_tokens:
        size, shift = 2 * size, shift - 1
    keys = np.empty(size, dtype=_BITS)
    first_feature = np.empty(size, dtype=np.int32)  # of the key's n-gram; -1 where a slot is free
    next_feature = np.empty(judged_tokens, dtype=np.int32)  # the next occurrence's; -1 if none has had one
    last_feature = np.empty(judged_tokens, dtype=np.int32)  # by first feature: the current sequence's latest
    bits = np.empty(((judged_tokens + 63) // 64, sequences), dtype=_BITS)
    grams = np.zeros(offsets[sequences], dtype=np.int32)  # by place: what begins there; -1 if none judged has
    matches = np.zeros((order, judged, others), dtype=np.int64)
    for n in range(order):
        features = 0
        first_feature[:] = -1
        bits[:] = _BITS(0)
        for sequence in range(sequences):
            is_judged = sequence < judged
            for place in range(offsets[sequence], offsets[sequence + 1] - n):
                if grams[place] < 0:
                    continue
                key = (_BITS(grams[place]) << _BITS(32)) | _BITS(ids[place + n])
                slot = np.int64((key * _SPREAD) >> _BITS(shift))
                while first_feature[slot] >= 0 and keys[slot] != key:
                    slot = (slot + 1) & (size - 1)
                gram = first_feature[slot]
                if gram < 0 and is_judged:
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
                    if feature < 0 and is_judged:
                        feature = features
                        features += 1
                        next_feature[before] = feature
                        next_feature[feature] = -1
                if feature >= 0:
                    last_feature[gram] = feature
                    bits[feature >> 6, sequence] |= _ONE << _BITS(feature & 63)
        for word in range((features + 63) // 64):
            for row in range(judged):
                for column in range(others):
                    common = bits[word, row] & bits[word, judged + column]
                    matches[n, row, column] += np.int64(_population(common))
    return matches


@compiled
def _score_bleu(
    ids: Numbers,
    offsets: Numbers,
    judged: int,
    order: int,
    smoothing: int,
    weights: Floats,
    penalties: Floats,
) -> Matrix:
    matches = _count_matches(ids, offsets, judged, order)
    others = matches.shape[2]
    scores = np.empty((judged, others))
    numerators, denominators, log_scores = np.empty(others), np.empty(others), np.empty(others)
    for row in range(judged):
        numerators[:] = 1.0
        denominators[:] = 1.0
        log_scores[:] = 0.0
        for n in range(order):
            added = 1.0 if smoothing == ADD_ONE and n > 0 else 0.0
            total = max(1, offsets[row + 1] - offsets[row] - n) + added
            for column in range(others):
                matched = matches[n, row, column] + added
                is_floored = smoothing == FLOOR and matched == 0
                numerators[column] *= 1.0 if is_floored else matched
                denominators[column] *= 10 * total if is_floored else total
            if weights.size:
                for column in range(others):
                    if weights[n] > 0:
                        log_scores[column] += weights[n] * np.log(numerators[column] / denominators[column])
                    numerators[column] = denominators[column] = 1.0
        for column in range(others):
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


@compiled
def _hopeful(judged: Numbers, others: Numbers, offsets: Numbers, order: int, penalties: Floats) -> Wholes:
    """The rows that can hold the first highest score.

    No score is above its row's penalty, and a sequence of at least `order` tokens scores just that against
    itself. Rows with a lower penalty cannot reach it then, and equal ones further down come too late.
    """
    surest, sure = -1, -1.0
    for row, sequence in enumerate(judged):
        is_long = offsets[sequence + 1] - offsets[sequence] >= order
        if is_long and penalties[sequence] > sure and (others == sequence).any():
            surest, sure = row, penalties[sequence]
    rows, found = np.empty(judged.size, np.int64), 0
    for row, sequence in enumerate(judged):
        if penalties[sequence] > sure or (penalties[sequence] == sure and row <= surest):
            rows[found] = row
            found += 1
    return rows[:found]


@compiled
def _joined(sequences: Numbers, ids: Numbers, offsets: Numbers) -> tuple[Numbers, Numbers]:
    """The tokens of some sequences end to end, and where each begins."""
    new_offsets = np.zeros(sequences.size + 1, offsets.dtype)
    for place, sequence in enumerate(sequences):
        new_offsets[place + 1] = new_offsets[place] + offsets[sequence + 1] - offsets[sequence]
    new_ids = np.empty(new_offsets[-1], ids.dtype)
    for place, sequence in enumerate(sequences):
        new_ids[new_offsets[place] : new_offsets[place + 1]] = ids[offsets[sequence] : offsets[sequence + 1]]
    return new_ids, new_offsets


@compiled
def _closest_by_bleu(
    places: Numbers,
    cuts: Numbers,
    ids: Numbers,
    offsets: Numbers,
    order: int,
    smoothing: int,
    weights: Floats,
    penalties: Floats,
) -> tuple[Wholes, Wholes, Floats]:
    comparisons = cuts.size // 2
    best_rows, best_columns = np.empty(comparisons, np.int64), np.empty(comparisons, np.int64)
    values = np.empty(comparisons)
    for comparison in range(comparisons):
        start, middle, end = cuts[2 * comparison : 2 * comparison + 3]
        judged, others = places[start:middle], places[middle:end]
        rows = _hopeful(judged, others, offsets, order, penalties)
        judged = judged[rows]
        new_ids, new_offsets = _joined(np.concatenate((judged, others)), ids, offsets)
        scores = _score_bleu(new_ids, new_offsets, judged.size, order, smoothing, weights, penalties[judged])
        place = scores.argmax()
        best_rows[comparison] = rows[place // others.size]
        best_columns[comparison] = place % others.size
        values[comparison] = scores[place // others.size, place % others.size]
    return best_rows, best_columns, values
