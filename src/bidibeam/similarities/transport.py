"""Word mover's distances between bags of words, compiled: exact ones, and bounds below them.

A bag's words move to the other bag's, each with its share of the mass, so that mass moves the least far. To
keep counts whole numbers, a word's share is its count times the other bag's total, and the sum is divided at
the end. What both bags hold of a word stays where it is and is set aside first: the triangle inequality makes
that a best plan. The rest is planned by successive shortest paths, unless a bound shows that it cannot win.

Bounds come from distances computed the quickest way, and are lowered by more than their rounding. Distances
that count are added up in one order, pair by pair, so that no value depends on the company a pair is in.

Where it matters, functions hand plain arrays to each other: each array inside a tuple costs a call the time
to count its users.

Reference: Kusner et al. (2015).
"""

from __future__ import annotations

from functools import partial
from math import inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np

from bidibeam.similarities.kernels import compiled
from bidibeam.similarities.spaces import Bags

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix

    Numbers = np.ndarray[tuple[int], np.dtype[np.int32]]
    Whole = np.ndarray[tuple[int], np.dtype[np.int64]]
    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
    Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
    Marks = np.ndarray[tuple[int, int], np.dtype[np.int64]]
    Tables = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]

SIMILARITY, RATIO, LITERAL_MIN, LITERAL_MAX = range(4)

SUPPLY, DEMAND, SENDER_PRICE, TAKER_PRICE, REACH = range(5)  # rows of a pair's amounts
SENDER, TAKER, VIA, ENTERED, IS_SCANNED = range(5)  # rows of its marks
COST, FLOW = range(2)  # its tables
QUICK, EXACT = range(2)  # costs

MARGIN = 1e-9  # far more than sums lose to rounding
BEYOND = 2**62  # comes after every word


@compiled
def squared_distance(points: Matrix, row: int, other_points: Matrix, other_row: int) -> float:
    """The square of the Euclidean distance, exactly 0 for equal points.

    Four sums at once, which the processor adds in one step. Their order is written out: left to the compiler,
    the last bit would depend on the function that this one is made part of.
    """
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    size = points.shape[1]
    whole = size - size % 4
    for axis in range(0, whole, 4):
        first += (points[row, axis] - other_points[other_row, axis]) ** 2
        second += (points[row, axis + 1] - other_points[other_row, axis + 1]) ** 2
        third += (points[row, axis + 2] - other_points[other_row, axis + 2]) ** 2
        fourth += (points[row, axis + 3] - other_points[other_row, axis + 3]) ** 2
    for axis in range(whole, size):
        first += (points[row, axis] - other_points[other_row, axis]) ** 2
    return (first + second) + (third + fourth)


@partial(numba.njit, nogil=True, fastmath={"reassoc", "contract"})
def _quick_square(point: Vector, other_point: Vector) -> float:
    """The same three times as fast, because the compiler may add as it likes; for bounds alone."""
    square = 0.0
    for axis in range(len(point)):
        square += (point[axis] - other_point[axis]) ** 2
    return square


@compiled
def squared_distances(points: Matrix, other_points: Matrix) -> Matrix:
    """The same for every pair, (points, other points)."""
    found = np.empty((len(points), len(other_points)))
    for row in range(found.shape[0]):
        for column in range(found.shape[1]):
            found[row, column] = squared_distance(points, row, other_points, column)
    return found


@compiled
def _bound(amounts: Matrix, tables: Tables, senders: int, takers: int) -> float:
    """What it costs if each word goes to the nearest, however full that is; the dearer of both ways.

    A little less than that, so that no rounding lifts it above what a plan costs.
    """
    forth, back, supply, dearest = 0.0, 0.0, 0.0, 0.0
    for column in range(takers):
        amounts[REACH, column] = inf
    for row in range(senders):
        nearest = inf
        for column in range(takers):
            cost = tables[COST, row, column]
            nearest, dearest = min(nearest, cost), max(dearest, cost)
            amounts[REACH, column] = min(amounts[REACH, column], cost)
        supply += amounts[SUPPLY, row]
        forth += amounts[SUPPLY, row] * nearest
    for column in range(takers):
        back += amounts[DEMAND, column] * amounts[REACH, column]
    return max(0.0, max(forth, back) - MARGIN * supply * dearest)


@compiled
def _start(amounts: Matrix, tables: Tables, senders: int, takers: int) -> None:
    """Set prices that no cost undercuts, and send what costs just the price."""
    for column in range(takers):
        price = inf
        for row in range(senders):
            price = min(price, tables[COST, row, column])
        amounts[TAKER_PRICE, column] = price
    for row in range(senders):
        price = inf
        for column in range(takers):
            price = min(price, tables[COST, row, column] - amounts[TAKER_PRICE, column])
        amounts[SENDER_PRICE, row] = price
        for column in range(takers):
            sent = 0.0
            if tables[COST, row, column] - amounts[TAKER_PRICE, column] == price:
                sent = min(amounts[SUPPLY, row], amounts[DEMAND, column])
            tables[FLOW, row, column] = sent
            amounts[SUPPLY, row] -= sent
            amounts[DEMAND, column] -= sent


@compiled
def _look_from(row: int, so_far: float, amounts: Matrix, marks: Marks, tables: Tables, takers: int) -> None:
    """See which takers are nearer by way of a sender."""
    for column in range(takers):
        if not marks[IS_SCANNED, column]:
            excess = tables[COST, row, column] - amounts[SENDER_PRICE, row] - amounts[TAKER_PRICE, column]
            if so_far + excess < amounts[REACH, column]:
                amounts[REACH, column], marks[VIA, column] = so_far + excess, row


@compiled
def _find_route(source: int, amounts: Matrix, marks: Marks, tables: Tables, senders: int, takers: int) -> int:
    """Find the cheapest way from a sender to a taker with room, others giving way, and mend the prices.

    Returns:
        The taker, or -1 if none has room.
    """
    for column in range(takers):
        amounts[REACH, column], marks[IS_SCANNED, column] = inf, 0
    for row in range(senders):
        marks[ENTERED, row] = -1  # the taker from which the search comes to a sender
    _look_from(source, 0.0, amounts, marks, tables, takers)
    while True:
        nearest, found = inf, -1
        for column in range(takers):
            if not marks[IS_SCANNED, column] and amounts[REACH, column] < nearest:
                nearest, found = amounts[REACH, column], column
        if found < 0:
            return -1
        if amounts[DEMAND, found] > 0.0:
            break
        marks[IS_SCANNED, found] = 1
        for row in range(senders):
            if row != source and marks[ENTERED, row] < 0 and tables[FLOW, row, found] > 0.0:
                marks[ENTERED, row] = found
                _look_from(row, nearest, amounts, marks, tables, takers)
    amounts[SENDER_PRICE, source] += nearest
    for row in range(senders):
        if marks[ENTERED, row] >= 0:
            amounts[SENDER_PRICE, row] += nearest - amounts[REACH, marks[ENTERED, row]]
    for column in range(takers):
        if marks[IS_SCANNED, column]:
            amounts[TAKER_PRICE, column] -= nearest - amounts[REACH, column]
    return found


@compiled
def _send(source: int, taker: int, amounts: Matrix, marks: Marks, tables: Tables) -> None:
    """Send as much as the route just found has room for."""
    sent = min(amounts[SUPPLY, source], amounts[DEMAND, taker])
    row = marks[VIA, taker]
    while row != source:
        sent = min(sent, tables[FLOW, row, marks[ENTERED, row]])
        row = marks[VIA, marks[ENTERED, row]]
    amounts[SUPPLY, source] -= sent
    amounts[DEMAND, taker] -= sent
    column = taker
    row = marks[VIA, column]
    tables[FLOW, row, column] += sent
    while row != source:
        column = marks[ENTERED, row]
        tables[FLOW, row, column] -= sent
        row = marks[VIA, column]
        tables[FLOW, row, column] += sent


@compiled
def _plan(amounts: Matrix, marks: Marks, tables: Tables, senders: int, takers: int) -> float:
    """What a best plan costs."""
    _start(amounts, tables, senders, takers)
    for source in range(senders):
        while amounts[SUPPLY, source] > 0.0:
            taker = _find_route(source, amounts, marks, tables, senders, takers)
            if taker < 0:  # what is left is rounding's: demand is as great as supply
                break
            _send(source, taker, amounts, marks, tables)
    total = 0.0
    for row in range(senders):
        for column in range(takers):
            total += tables[FLOW, row, column] * tables[COST, row, column]
    return total


class _Pairs(NamedTuple):
    """Two lists of bags, costs between their words, and memory for one pair after the other.

    The bags' `rows` are those of `points`.
    """

    one: Bags
    other: Bags
    costs: Tables  # (quick or exact, words, other words), -1 where not yet known
    amounts: Matrix
    marks: Marks
    tables: Tables


@compiled
def _pairs(one: Bags, other: Bags) -> _Pairs:
    size = 1
    for bags in (one, other):
        for bag in range(len(bags.totals)):
            size = max(size, bags.starts[bag + 1] - bags.starts[bag])
    costs = np.full((2, len(one.rows), len(other.rows)), -1.0)
    amounts, marks, tables = np.empty((5, size)), np.empty((5, size), np.int64), np.empty((2, size, size))
    return _Pairs(one, other, costs, amounts, marks, tables)


@compiled
def _look_up(pairs: _Pairs, exactly: bool, senders: int, takers: int) -> None:
    """Write down what the words that are left cost each other, computing what is not yet known."""
    costs, tables, marks = pairs.costs[EXACT if exactly else QUICK], pairs.tables, pairs.marks
    points, rows = pairs.one.points, pairs.one.rows
    other_points, other_rows = pairs.other.points, pairs.other.rows
    for row in range(senders):
        for column in range(takers):
            sender, taker = marks[SENDER, row], marks[TAKER, column]
            if costs[sender, taker] < 0.0:
                if exactly:
                    square = squared_distance(points, rows[sender], other_points, other_rows[taker])
                else:
                    square = _quick_square(points[rows[sender]], other_points[other_rows[taker]])
                costs[sender, taker] = sqrt(square)
            tables[COST, row, column] = costs[sender, taker]


@compiled
def _compare(
    pairs: _Pairs, row: int, columns: tuple[int, int], exactly: bool, found: Vector, is_open: Flags
) -> None:
    """Write a row's distances, or bounds below them, and which pairs have something to move."""
    amounts, marks, tables = pairs.amounts, pairs.marks, pairs.tables
    one_keys, one_words, one_masses = pairs.one.keys, pairs.one.words, pairs.one.masses
    keys, words, masses, starts = pairs.other.keys, pairs.other.words, pairs.other.masses, pairs.other.starts
    totals, twins = pairs.other.totals, pairs.other.twins
    start, end = pairs.one.starts[row], pairs.one.starts[row + 1]
    one_total, one_twin = pairs.one.totals[row], pairs.one.twins[row]
    for column in range(columns[0], columns[1]):
        left, right, right_end = start, starts[column], starts[column + 1]
        senders, takers = 0, 0
        while left < end or right < right_end:
            key = one_keys[left] if left < end else BEYOND
            other_key = keys[right] if right < right_end else BEYOND
            excess = 0.0
            if key <= other_key:
                excess += one_masses[left] * totals[column]
            if other_key <= key:
                excess -= masses[right] * one_total
            if excess > 0.0:
                marks[SENDER, senders], amounts[SUPPLY, senders] = one_words[left], excess
                senders += 1
            elif excess < 0.0:
                marks[TAKER, takers], amounts[DEMAND, takers] = words[right], -excess
                takers += 1
            left += key <= other_key
            right += other_key <= key
        is_open[column] = senders > 0 and takers > 0
        if is_open[column]:
            _look_up(pairs, exactly, senders, takers)
            if exactly:
                moved = _plan(amounts, marks, tables, senders, takers)
            else:
                moved = _bound(amounts, tables, senders, takers)
            found[column] = moved / (one_total * totals[column])
        else:  # equal bags, or one without words
            are_equal = (one_total > 0.0) == (totals[column] > 0.0) and one_twin == twins[column]
            found[column] = 0.0 if are_equal else inf


@compiled
def _with_own_points(bags: Bags) -> Bags:
    """The same with `rows` of `points`, and not of the space."""
    starts, words, keys, masses, totals, twins, rows, points = bags
    return Bags(starts, words, keys, masses, totals, twins, np.arange(len(rows)), points)


@compiled
def _compare_all(one: Bags, other: Bags, exactly: bool) -> tuple[Matrix, int]:
    found = np.empty((len(one.totals), len(other.totals)))
    is_open = np.empty(found.shape, np.bool_)
    pairs = _pairs(_with_own_points(one), _with_own_points(other))
    for row in range(found.shape[0]):
        _compare(pairs, row, (0, found.shape[1]), exactly, found[row], is_open[row])
    return found, is_open.sum()


def distances(one: Bags, other: Bags) -> tuple[Matrix, int]:
    """Every distance, (bags, other bags), and how many of them took a plan.

    A bag without words is infinitely far from all but its twins.
    """
    return _compare_all(one, other, True)


def bounds(one: Bags, other: Bags) -> Matrix:
    """What every distance is at least."""
    return _compare_all(one, other, False)[0]


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
def _closest(one: Bags, other: Bags, penalties: Vector, form: int) -> tuple[int, float, int]:
    """Go from the most hopeful pair to the next, until the best one found can no longer be beaten.

    A row hopes for as much as its penalty allows. When that is the highest hope, its pairs are bounded, and
    it hopes for as much as they can be. When a pair's hope is the highest, the pair is solved.
    """
    rows, columns = len(one.totals), len(other.totals)
    pairs = _pairs(one, other)
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
        _compare(pairs, row, (first, end), is_bounded, found, is_open)
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
def _part(bags: Bags, chosen: Numbers, number_of: Whole) -> Bags:
    """Some of the bags, with their words numbered anew; `rows` are those of `points`.

    Args:
        bags: The bags.
        chosen: Which of them.
        number_of: As long as their `rows`: -1, and so it is left.
    """
    starts = np.zeros(len(chosen) + 1, np.int64)
    for place, bag in enumerate(chosen):
        starts[place + 1] = starts[place] + bags.starts[bag + 1] - bags.starts[bag]
    words, keys, masses = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64), np.empty(starts[-1])
    rows = np.empty(starts[-1], np.int64)
    different = 0
    for place, bag in enumerate(chosen):
        shift = bags.starts[bag] - starts[place]
        for at in range(starts[place], starts[place + 1]):
            word = bags.words[at + shift]
            if number_of[word] < 0:
                number_of[word], rows[different] = different, word
                different += 1
            words[at], keys[at], masses[at] = number_of[word], bags.keys[at + shift], bags.masses[at + shift]
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
    number_of = np.full(len(bags.rows), -1)
    for comparison in range(comparisons):
        start, middle, end = cuts[2 * comparison : 2 * comparison + 3]
        judged, others = places[start:middle], places[middle:end]
        one, other = _part(bags, judged, number_of), _part(bags, others, number_of)
        place, values[comparison], solved = _closest(one, other, penalties[judged], form)
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
    return _closest_of_each(bags, places, cuts, penalties, form)
