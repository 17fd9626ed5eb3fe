"""Distances as similarities, and the closest pair of two lists of bags without all of their distances.

Compiled, as what they are made of is.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from bidibeam.compiling import compiled
from bidibeam.similarities.spaces import Bags
from bidibeam.similarities.tokens import worth_a_thread
from bidibeam.similarities.transport import Pairs, compare, pairs_of, unknown_costs
from bidibeam.turns import away
from bidibeam.workers import in_parts

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix

    Numbers = np.ndarray[tuple[int], np.dtype[np.int32]]
    Whole = np.ndarray[tuple[int], np.dtype[np.int64]]
    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

SIMILARITY, RATIO, LITERAL_MIN, LITERAL_MAX = range(4)

MOST_SHARED, EACH = 512, 1024
"""What words cost each other is kept from one comparison to the next, since many have replies in common: of
up to so many words, and of up to so many pairs for each comparison. Otherwise each has its own."""


@compiled
def _closeness(distance: float, penalty: float, form: int) -> float:
    if distance == inf:
        return 0.0
    if form == SIMILARITY:
        return penalty / (1.0 + distance)
    if form == RATIO:
        return penalty / (penalty + distance) if distance > 0.0 else 1.0
    product = distance * penalty
    return product / (1.0 + product) if form == LITERAL_MAX else 1.0 / (1.0 + product)


@compiled
def closeness(distances: Matrix, penalties: Vector, form: int) -> Matrix:
    """Distances as similarities, with a penalty for each row; 0 where infinitely far."""
    found = np.empty_like(distances)
    for row in range(found.shape[0]):
        for column in range(found.shape[1]):
            found[row, column] = _closeness(distances[row, column], penalties[row], form)
    return found


@compiled
def _highest(values: Vector) -> int:
    found = 0
    for place in range(1, len(values)):
        if values[place] > values[found]:
            found = place
    return found


@compiled
def _closest(pairs: Pairs, penalties: Vector, form: int) -> tuple[int, float, int]:
    """Go from the most hopeful pair to the next, until the best one found can no longer be beaten.

    A row hopes for as much as its penalty allows. When that is the highest hope, its pairs are bounded, and
    it hopes for as much as they can be. When a pair's hope is the highest, the pair is solved.
    """
    rows, columns = len(pairs.one.totals), len(pairs.other.totals)
    found, is_open = np.empty(columns), np.empty(columns, np.bool_)
    hopes = np.empty((rows, columns))
    row_hopes = np.array([_closeness(0.0, penalty, form) for penalty in penalties])
    most_hopeful = np.full(rows, -1)  # a column, once the bounds of the row are known
    best, place, plans = -1.0, 0, 0
    while True:
        row = _highest(row_hopes)
        is_bounded = most_hopeful[row] >= 0
        first = most_hopeful[row] if is_bounded else 0
        if row_hopes[row] < best or (row_hopes[row] == best and row * columns + first > place):
            return place, best, plans
        end = first + 1 if is_bounded else columns
        compare(pairs, row, (first, end), is_bounded, found, is_open)
        plans += is_bounded
        for column in range(first, end):
            hopes[row, column] = _closeness(found[column], penalties[row], form)
            if is_bounded or not is_open[column]:
                value, at = hopes[row, column], row * columns + column
                if value > best or (value == best and at < place):
                    best, place = value, at
                hopes[row, column] = -1.0
        most_hopeful[row] = _highest(hopes[row])
        row_hopes[row] = hopes[row, most_hopeful[row]]


@compiled
def _part(bags: Bags, chosen: Numbers, number_of: Whole, are_shared: bool) -> Bags:
    """Some of the bags; `rows` are those of `points`.

    Args:
        bags: The bags.
        chosen: Which of them.
        number_of: As long as their `rows`: which number each word has, or -1 throughout, and so it is left.
        are_shared: Whether words keep their numbers, so that costs can be shared; else they are numbered
            anew, as few as they are.
    """
    starts = np.zeros(len(chosen) + 1, np.int64)
    for place, bag in enumerate(chosen):
        starts[place + 1] = starts[place] + bags.starts[bag + 1] - bags.starts[bag]
    words, keys, masses = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64), np.empty(starts[-1])
    rows = number_of if are_shared else np.empty(starts[-1], np.int64)
    different = 0
    for place, bag in enumerate(chosen):
        shift = bags.starts[bag] - starts[place]
        for at in range(starts[place], starts[place + 1]):
            word = bags.words[at + shift]
            if number_of[word] < 0:
                number_of[word], rows[different] = different, word
                different += 1
            words[at], keys[at], masses[at] = number_of[word], bags.keys[at + shift], bags.masses[at + shift]
    if not are_shared:
        rows = rows[:different]
        number_of[rows] = -1
    return Bags(starts, words, keys, masses, bags.totals[chosen], bags.twins[chosen], rows, bags.points)


@compiled
def _closest_of_each(
    bags: Bags, places: Numbers, cuts: Numbers, penalties: Vector, form: int
) -> tuple[Whole, Whole, Vector, int]:
    comparisons = cuts.size // 2
    rows, columns = np.empty(comparisons, np.int64), np.empty(comparisons, np.int64)
    values, plans = np.empty(comparisons), 0
    words = len(bags.rows)
    are_shared = words <= MOST_SHARED and words * words <= EACH * comparisons
    number_of = np.arange(words) if are_shared else np.full(words, -1)
    costs = unknown_costs(words, words) if are_shared else unknown_costs(0, 0)
    for comparison in range(comparisons):
        start, middle, end = cuts[2 * comparison : 2 * comparison + 3]
        judged, others = places[start:middle], places[middle:end]
        one = _part(bags, judged, number_of, are_shared)
        other = _part(bags, others, number_of, are_shared)
        if not are_shared:
            costs = unknown_costs(len(one.rows), len(other.rows))
        pairs = pairs_of(one, other, costs)
        place, values[comparison], solved = _closest(pairs, penalties[judged], form)
        rows[comparison], columns[comparison] = place // len(others), place % len(others)
        plans += solved
    return rows, columns, values, plans


def closest(
    bags: Bags, places: Numbers, cuts: Numbers, penalties: Vector, form: int
) -> tuple[Whole, Whole, Vector, int]:
    """Each comparison's first highest entry of `closeness`, in any form but LITERAL_MAX.

    Args:
        bags: Those that are compared.
        places: Which of them, list after list; no list is empty.
        cuts: (2 * comparisons + 1), where each list begins in `places`, as in `tokens.NumberedLists`.
        penalties: (bags), those of each where it is judged.
        form: What of distances and penalties counts.

    Returns:
        Their rows, columns and values, and how many plans it took to find them.
    """

    def found(first: int, last: int) -> tuple[Whole, Whole, Vector, int]:
        return _closest_of_each(bags, places, cuts[2 * first : 2 * last + 1], penalties, form)

    with away():
        rows, columns, values, plans = zip(
            *in_parts(found, len(cuts) // 2, least=worth_a_thread(cuts)), strict=True
        )
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(values), sum(plans)
