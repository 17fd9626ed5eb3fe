"""Word mover's distances between bags of words: exact ones, lower bounds, and the closest pair of two lists.

A bag's words move to the other bag's, each with its share of the mass, so that mass moves the least far. To
keep counts whole numbers, a word's share is its count times the other bag's total, and the sum is divided at
the end. What both bags hold of a word stays where it is and is set aside first: by the triangle inequality an
optimal transport does so. The rest is a transport problem between senders (rows) and receivers (columns). It
is solved by successive shortest paths, unless a bound shows that the pair cannot be the closest.

Bounds come from distances computed the quickest way, and are lowered by more than their rounding. Exact
distances are added up in one order, pair by pair, so that no value depends on what else is compared.

Kernels hand plain arrays to each other where it matters: an array inside a tuple costs each call a reference
count.

Reference: Kusner et al. (2015).
"""

from __future__ import annotations

from functools import partial
from math import inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bidibeam.similarities.compiling import compile_kernel
from bidibeam.similarities.word_vectors import Bags

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix

    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
    Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
    Marks = np.ndarray[tuple[int, int], np.dtype[np.int64]]
    Tables = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]

SIMILARITY, RATIO, LITERAL_MIN, LITERAL_MAX = range(4)  # how a distance becomes a similarity

SUPPLY, DEMAND, SENDER_PRICE, RECEIVER_PRICE, REACH = range(5)  # rows of `amounts`
SENDER, RECEIVER, VIA, ENTERED, IS_SCANNED = range(5)  # rows of `marks`
COST, FLOW = range(2)  # of `tables`
QUICK, EXACT = range(2)  # of `costs`

MARGIN = 1e-9  # far more than sums lose to rounding
BEYOND = 2**62  # comes after every word


@compile_kernel
def _squared_distance(vectors: Matrix, row: int, other_vectors: Matrix, other_row: int) -> float:
    """The squared Euclidean distance, exactly 0 for equal vectors.

    Four sums at once, which the processor adds in one step. Their order is written out: left to the compiler,
    the last bit would depend on the function that this one is inlined into.
    """
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    size = vectors.shape[1]
    whole = size - size % 4
    for axis in range(0, whole, 4):
        first += (vectors[row, axis] - other_vectors[other_row, axis]) ** 2
        second += (vectors[row, axis + 1] - other_vectors[other_row, axis + 1]) ** 2
        third += (vectors[row, axis + 2] - other_vectors[other_row, axis + 2]) ** 2
        fourth += (vectors[row, axis + 3] - other_vectors[other_row, axis + 3]) ** 2
    for axis in range(whole, size):
        first += (vectors[row, axis] - other_vectors[other_row, axis]) ** 2
    return (first + second) + (third + fourth)


@partial(compile_kernel, fastmath={"reassoc", "contract"})
def _quick_squared_distance(vector: Floats, other_vector: Floats) -> float:
    """The same three times as fast, because the compiler may add in any order; for bounds only."""
    square = 0.0
    for axis in range(len(vector)):
        square += (vector[axis] - other_vector[axis]) ** 2
    return square


@compile_kernel
def squared_distances(vectors: Matrix, other_vectors: Matrix) -> Matrix:
    """Returns the squared Euclidean distance of every pair, (vectors, other vectors)."""
    squares = np.empty((len(vectors), len(other_vectors)))
    for row in range(squares.shape[0]):
        for column in range(squares.shape[1]):
            squares[row, column] = _squared_distance(vectors, row, other_vectors, column)
    return squares


@compile_kernel
def _bound_cost(amounts: Matrix, tables: Tables, senders: int, receivers: int) -> float:
    """What it costs if each word goes to the nearest, however full that is; the dearer of both ways.

    A little less than that, so that no rounding lifts it above the cost of the optimal transport.
    """
    forth, back, supply, dearest = 0.0, 0.0, 0.0, 0.0
    for column in range(receivers):
        amounts[REACH, column] = inf
    for row in range(senders):
        nearest = inf
        for column in range(receivers):
            cost = tables[COST, row, column]
            nearest, dearest = min(nearest, cost), max(dearest, cost)
            amounts[REACH, column] = min(amounts[REACH, column], cost)
        supply += amounts[SUPPLY, row]
        forth += amounts[SUPPLY, row] * nearest
    for column in range(receivers):
        back += amounts[DEMAND, column] * amounts[REACH, column]
    return max(0.0, max(forth, back) - MARGIN * supply * dearest)


@compile_kernel
def _initialise(amounts: Matrix, tables: Tables, senders: int, receivers: int) -> None:
    """Sets prices that no cost undercuts, and sends what costs just the price."""
    for column in range(receivers):
        price = inf
        for row in range(senders):
            price = min(price, tables[COST, row, column])
        amounts[RECEIVER_PRICE, column] = price
    for row in range(senders):
        price = inf
        for column in range(receivers):
            price = min(price, tables[COST, row, column] - amounts[RECEIVER_PRICE, column])
        amounts[SENDER_PRICE, row] = price
        for column in range(receivers):
            sent = 0.0
            if tables[COST, row, column] - amounts[RECEIVER_PRICE, column] == price:
                sent = min(amounts[SUPPLY, row], amounts[DEMAND, column])
            tables[FLOW, row, column] = sent
            amounts[SUPPLY, row] -= sent
            amounts[DEMAND, column] -= sent


@compile_kernel
def _scan_sender(
    row: int, so_far: float, amounts: Matrix, marks: Marks, tables: Tables, receivers: int
) -> None:
    """Notes which receivers are nearer by way of a sender."""
    for column in range(receivers):
        if not marks[IS_SCANNED, column]:
            excess = tables[COST, row, column] - amounts[SENDER_PRICE, row] - amounts[RECEIVER_PRICE, column]
            if so_far + excess < amounts[REACH, column]:
                amounts[REACH, column], marks[VIA, column] = so_far + excess, row


@compile_kernel
def _find_path(
    source: int, amounts: Matrix, marks: Marks, tables: Tables, senders: int, receivers: int
) -> int:
    """Finds the shortest augmenting path from a sender, updates the prices, returns the receiver or -1."""
    for column in range(receivers):
        amounts[REACH, column], marks[IS_SCANNED, column] = inf, 0
    for row in range(senders):
        marks[ENTERED, row] = -1  # the receiver from which the search comes to a sender
    _scan_sender(source, 0.0, amounts, marks, tables, receivers)
    while True:
        distance, nearest = inf, -1
        for column in range(receivers):
            if not marks[IS_SCANNED, column] and amounts[REACH, column] < distance:
                distance, nearest = amounts[REACH, column], column
        if nearest < 0:
            return -1
        if amounts[DEMAND, nearest] > 0.0:
            break
        marks[IS_SCANNED, nearest] = 1
        for row in range(senders):
            if row != source and marks[ENTERED, row] < 0 and tables[FLOW, row, nearest] > 0.0:
                marks[ENTERED, row] = nearest
                _scan_sender(row, distance, amounts, marks, tables, receivers)
    amounts[SENDER_PRICE, source] += distance
    for row in range(senders):
        if marks[ENTERED, row] >= 0:
            amounts[SENDER_PRICE, row] += distance - amounts[REACH, marks[ENTERED, row]]
    for column in range(receivers):
        if marks[IS_SCANNED, column]:
            amounts[RECEIVER_PRICE, column] -= distance - amounts[REACH, column]
    return nearest


@compile_kernel
def _augment(source: int, receiver: int, amounts: Matrix, marks: Marks, tables: Tables) -> None:
    """Sends as much as the path just found has room for."""
    sent = min(amounts[SUPPLY, source], amounts[DEMAND, receiver])
    row = marks[VIA, receiver]
    while row != source:
        sent = min(sent, tables[FLOW, row, marks[ENTERED, row]])
        row = marks[VIA, marks[ENTERED, row]]
    amounts[SUPPLY, source] -= sent
    amounts[DEMAND, receiver] -= sent
    column = receiver
    row = marks[VIA, column]
    tables[FLOW, row, column] += sent
    while row != source:
        column = marks[ENTERED, row]
        tables[FLOW, row, column] -= sent
        row = marks[VIA, column]
        tables[FLOW, row, column] += sent


@compile_kernel
def _solve(amounts: Matrix, marks: Marks, tables: Tables, senders: int, receivers: int) -> float:
    """Returns the cost of the optimal transport."""
    _initialise(amounts, tables, senders, receivers)
    for source in range(senders):
        while amounts[SUPPLY, source] > 0.0:
            receiver = _find_path(source, amounts, marks, tables, senders, receivers)
            if receiver < 0:  # what is left is due to rounding: demand is as great as supply
                break
            _augment(source, receiver, amounts, marks, tables)
    total = 0.0
    for row in range(senders):
        for column in range(receivers):
            total += tables[FLOW, row, column] * tables[COST, row, column]
    return total


@compile_kernel
def find_flows(costs: Matrix, supply: Floats, demand: Floats) -> Matrix:
    """Returns how much an optimal transport sends from where to where, (senders, receivers).

    Demand is as great as supply, and there is some of both.
    """
    senders, receivers = costs.shape
    size = max(senders, receivers)
    amounts, marks, tables = np.empty((5, size)), np.empty((5, size), np.int64), np.empty((2, size, size))
    amounts[SUPPLY, :senders], amounts[DEMAND, :receivers] = supply, demand
    tables[COST, :senders, :receivers] = costs
    _solve(amounts, marks, tables, senders, receivers)
    return tables[FLOW, :senders, :receivers].copy()


class Workspace(NamedTuple):
    """Two lists of bags, costs between their words, and memory that one pair after the other uses."""

    one: Bags
    other: Bags
    costs: Tables  # (quick or exact, words, other words), -1 where not yet known
    amounts: Matrix
    marks: Marks
    tables: Tables


@compile_kernel
def _make_workspace(one: Bags, other: Bags) -> Workspace:
    size = 1
    for bags in (one, other):
        for bag in range(len(bags.totals)):
            size = max(size, bags.starts[bag + 1] - bags.starts[bag])
    costs = np.full((2, len(one.vectors), len(other.vectors)), -1.0)
    amounts, marks, tables = np.empty((5, size)), np.empty((5, size), np.int64), np.empty((2, size, size))
    return Workspace(one, other, costs, amounts, marks, tables)


@compile_kernel
def _look_up_costs(space: Workspace, exactly: bool, senders: int, receivers: int) -> None:
    """Writes the distances between senders and receivers, computing those that are not yet known."""
    costs, tables, marks = space.costs[EXACT if exactly else QUICK], space.tables, space.marks
    vectors, other_vectors = space.one.vectors, space.other.vectors
    for row in range(senders):
        for column in range(receivers):
            sender, receiver = marks[SENDER, row], marks[RECEIVER, column]
            if costs[sender, receiver] < 0.0:
                if exactly:
                    square = _squared_distance(vectors, sender, other_vectors, receiver)
                else:
                    square = _quick_squared_distance(vectors[sender], other_vectors[receiver])
                costs[sender, receiver] = sqrt(square)
            tables[COST, row, column] = costs[sender, receiver]


@compile_kernel
def _compare_row(
    space: Workspace, row: int, columns: tuple[int, int], exactly: bool, distances: Floats, is_open: Flags
) -> None:
    """Writes a row's distances, or lower bounds of them, and which pairs have something to move."""
    amounts, marks, tables = space.amounts, space.marks, space.tables
    one_keys, one_words, one_masses = space.one.keys, space.one.words, space.one.masses
    keys, words, masses, starts = space.other.keys, space.other.words, space.other.masses, space.other.starts
    totals, twins = space.other.totals, space.other.twins
    start, end = space.one.starts[row], space.one.starts[row + 1]
    one_total, one_twin = space.one.totals[row], space.one.twins[row]
    for column in range(columns[0], columns[1]):
        left, right, right_end = start, starts[column], starts[column + 1]
        senders, receivers = 0, 0
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
                marks[RECEIVER, receivers], amounts[DEMAND, receivers] = words[right], -excess
                receivers += 1
            left += key <= other_key
            right += other_key <= key
        is_open[column] = senders > 0 and receivers > 0
        if is_open[column]:
            _look_up_costs(space, exactly, senders, receivers)
            if exactly:
                moved = _solve(amounts, marks, tables, senders, receivers)
            else:
                moved = _bound_cost(amounts, tables, senders, receivers)
            distances[column] = moved / (one_total * totals[column])
        else:  # equal bags, or one without words
            are_equal = (one_total > 0.0) == (totals[column] > 0.0) and one_twin == twins[column]
            distances[column] = 0.0 if are_equal else inf


@compile_kernel
def measure_distances(one: Bags, other: Bags) -> tuple[Matrix, int]:
    """Returns every distance, (bags, other bags), and for how many an optimal transport was solved.

    A bag without words is infinitely far from all but its twins.
    """
    distances = np.empty((len(one.totals), len(other.totals)))
    is_open = np.empty(distances.shape, np.bool_)
    space = _make_workspace(one, other)
    for row in range(distances.shape[0]):
        _compare_row(space, row, (0, distances.shape[1]), True, distances[row], is_open[row])
    return distances, is_open.sum()


@compile_kernel
def _to_similarity(distance: float, penalty: float, form: int) -> float:
    if distance == inf:
        return 0.0
    if form == SIMILARITY:
        return penalty / (1.0 + distance)
    if form == RATIO:
        return penalty / (penalty + distance) if distance > 0.0 else 1.0
    product = distance * penalty
    return product / (1.0 + product) if form == LITERAL_MAX else 1.0 / (1.0 + product)


@compile_kernel
def to_similarities(distances: Matrix, penalties: Floats, form: int) -> Matrix:
    """Returns distances as similarities, with a penalty for each row; 0 where infinitely far."""
    similarities = np.empty_like(distances)
    for row in range(similarities.shape[0]):
        for column in range(similarities.shape[1]):
            similarities[row, column] = _to_similarity(distances[row, column], penalties[row], form)
    return similarities


@compile_kernel
def _argmax(values: Floats) -> int:
    best = 0
    for place in range(1, len(values)):
        if values[place] > values[best]:
            best = place
    return best


@compile_kernel
def find_closest_pair(one: Bags, other: Bags, penalties: Floats, form: int) -> tuple[int, int, float, int]:
    """Finds the first highest entry of `to_similarities`, in any form but LITERAL_MAX; no list is empty.

    This is a best-first search by upper bounds. At first a row's bound is what its penalty allows. When that
    is the highest, the row's pairs are bounded, and the row by the highest of them. When a pair's bound is
    the highest, its optimal transport is solved. The search ends when no bound is above the best value.
    Returns row, column, similarity, and how many optimal transports were solved.
    """
    space = _make_workspace(one, other)
    rows, columns = len(one.totals), len(other.totals)
    distances, is_open = np.empty(columns), np.empty(columns, np.bool_)
    bounds = np.empty((rows, columns))
    row_bounds = np.array([_to_similarity(0.0, penalty, form) for penalty in penalties])
    highest = np.full(rows, -1)  # the column with the highest bound, once the pairs of the row are bounded
    best, place, solved = -1.0, 0, 0
    while True:
        row = _argmax(row_bounds)
        is_bounded = highest[row] >= 0
        first = highest[row] if is_bounded else 0
        if row_bounds[row] < best or (row_bounds[row] == best and row * columns + first > place):
            return place // columns, place % columns, best, solved
        end = first + 1 if is_bounded else columns
        _compare_row(space, row, (first, end), is_bounded, distances, is_open)
        solved += is_bounded
        for column in range(first, end):
            bounds[row, column] = _to_similarity(distances[column], penalties[row], form)
            if is_bounded or not is_open[column]:
                value, at = bounds[row, column], row * columns + column
                if value > best or (value == best and at < place):
                    best, place = value, at
                bounds[row, column] = -1.0
        highest[row] = _argmax(bounds[row])
        row_bounds[row] = bounds[row, highest[row]]
