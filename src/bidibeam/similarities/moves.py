"""Which words an optimal transport moves where: what a word mover's distance is the sum of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bidibeam.similarities.transport import find_flows, squared_distances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.similarities.word_vectors import Bags


class Move(NamedTuple):
    """A word, what it becomes, the share of all that moves so, and how far; a distance of 0 if it stays."""

    word: str
    other: str
    share: float
    distance: float


def find_moves(one: Bags, other: Bags, words: Sequence[str]) -> list[Move]:
    """Returns the moves of an optimal transport between the only bags of two lists, the costliest first.

    What both bags hold of a word stays, as in `transport`. There are no moves from or to a bag without words.
    The shares sum to 1, and shares times distances to the word mover's distance.
    """
    if not len(one.words) or not len(other.words):
        return []
    whole = one.totals[0] * other.totals[0]
    supply, demand = one.masses * other.totals[0], other.masses * one.totals[0]  # counts stay whole numbers
    rows, columns = np.nonzero(one.keys[:, np.newaxis] == other.keys)  # the words of both
    stays = np.minimum(supply[rows], demand[columns])
    supply[rows] -= stays
    demand[columns] -= stays
    kept = [words[key] for key in one.keys[rows]]
    moves = [Move(word, word, mass / whole, 0.0) for word, mass in zip(kept, stays.tolist(), strict=True)]
    senders, receivers = np.flatnonzero(supply), np.flatnonzero(demand)
    if len(senders) and len(receivers):
        vectors, others = one.vectors[one.words[senders]], other.vectors[other.words[receivers]]
        costs = np.sqrt(squared_distances(vectors, others))  # (senders, receivers)
        flows = find_flows(costs, supply[senders], demand[receivers])  # (senders, receivers)
        for row, column in zip(*np.nonzero(flows), strict=True):
            pair = words[one.keys[senders[row]]], words[other.keys[receivers[column]]]
            moves.append(Move(*pair, float(flows[row, column] / whole), float(costs[row, column])))
    return sorted(moves, key=lambda move: -move.share * move.distance)
