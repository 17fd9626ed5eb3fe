"""Word mover's distances between lists of bags, compiled: exact ones, and bounds below them.

A bag's words move to the other bag's, each with its share of the mass, so that mass moves the least far. To
keep counts whole numbers, a word's share is its count times the other bag's total, and the sum is divided at
the end. What both bags hold of a word stays where it is and is set aside first: the triangle inequality makes
that a best plan. The rest is planned (`plans`), unless a bound shows that it cannot win (`closeness`).

Bounds come from distances computed the quickest way, and are lowered by more than their rounding. Distances
that count are added up in one order, pair by pair, so that no value depends on the company a pair is in.

Reference: Kusner et al. (2015).
"""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bidibeam.compiling import compiled
from bidibeam.similarities.plans import COST, DEMAND, SENDER, SUPPLY, TAKER, bound, plan
from bidibeam.similarities.points import quick_square, squared_distance
from bidibeam.similarities.spaces import Bags

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix
    from bidibeam.similarities.plans import Marks, Tables

    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
    Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]

QUICK, EXACT = range(2)  # costs
BEYOND = 2**62  # comes after every word


class Pairs(NamedTuple):
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
def unknown_costs(words: int, other_words: int) -> Tables:
    """Costs between so many words, of which none is known yet."""
    return np.full((2, words, other_words), -1.0)


@compiled
def pairs_of(one: Bags, other: Bags, costs: Tables) -> Pairs:
    """Two lists of bags, ready to be compared; the `rows` of both are those of `points`.

    Costs are by the numbers that both have for their words, and are filled in.
    """
    size = 1
    for bags in (one, other):
        for bag in range(len(bags.totals)):
            size = max(size, bags.starts[bag + 1] - bags.starts[bag])
    amounts, marks, tables = np.empty((5, size)), np.empty((5, size), np.int64), np.empty((2, size, size))
    return Pairs(one, other, costs, amounts, marks, tables)


@compiled
def _look_up(pairs: Pairs, exactly: bool, senders: int, takers: int) -> None:
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
                    square = quick_square(points[rows[sender]], other_points[other_rows[taker]])
                costs[sender, taker] = sqrt(square)
            tables[COST, row, column] = costs[sender, taker]


@compiled
def compare(
    pairs: Pairs, row: int, columns: tuple[int, int], exactly: bool, found: Vector, is_open: Flags
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
                moved = plan(amounts, marks, tables, senders, takers)
            else:
                moved = bound(amounts, tables, senders, takers)
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
    costs = unknown_costs(len(one.rows), len(other.rows))
    pairs = pairs_of(_with_own_points(one), _with_own_points(other), costs)
    for row in range(found.shape[0]):
        compare(pairs, row, (0, found.shape[1]), exactly, found[row], is_open[row])
    return found, is_open.sum()


def distances(one: Bags, other: Bags) -> tuple[Matrix, int]:
    """Every distance, (bags, other bags), and how many of them took a plan.

    A bag without words is infinitely far from all but its twins.
    """
    return _compare_all(one, other, True)


def bounds(one: Bags, other: Bags) -> Matrix:
    """What every distance is at least."""
    return _compare_all(one, other, False)[0]
