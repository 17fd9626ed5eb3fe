"""What it costs to move one bag of words to another, compiled: a best plan's cost, and a bound below it.

A pair's words that have something to send, and those that take it, are rows and columns. Plans are found by
successive shortest paths.

Where it matters, functions hand plain arrays to each other: each array inside a tuple costs a call the time
to count its users.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from bidibeam.compiling import compiled

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix

    Marks = np.ndarray[tuple[int, int], np.dtype[np.int64]]
    Tables = np.ndarray[tuple[int, int, int], np.dtype[np.float64]]

SUPPLY, DEMAND, SENDER_PRICE, TAKER_PRICE, REACH = range(5)  # rows of a pair's amounts
SENDER, TAKER, VIA, ENTERED, IS_SCANNED = range(5)  # rows of its marks
COST, FLOW = range(2)  # its tables

MARGIN = 1e-9  # far more than sums lose to rounding


@compiled
def bound(amounts: Matrix, tables: Tables, senders: int, takers: int) -> float:
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
def plan(amounts: Matrix, marks: Marks, tables: Tables, senders: int, takers: int) -> float:
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
