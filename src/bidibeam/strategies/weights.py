"""Weights of a log-linear choice: a search that starts from the paper's rules and resists over-fitting."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.protocols import Array
    from bidibeam.strategies.outcomes import FlatBeams

POSITIVE = tuple(round(0.02 * 1.6**step, 3) for step in range(16))
"""0.02 to 23, each 1.6 times the one before."""
GRIDS: dict[str, tuple[float, ...]] = {
    "regular_weight": (0.0, *POSITIVE, 1.0),
    "reverse_weight": (0.0, *POSITIVE, 1.0),
    "length_weight": (*(-value for value in POSITIVE[:9]), 0.0, *POSITIVE[:13]),
    "agreement_weight": (0.0, *POSITIVE, 1.0, 50.0),
    "length_exponent": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 4.0),
}
"""The values of each weight that are tried while the others are held."""
SWEEPS = 4
BATCH = 24
"""Points whose scores are held at once."""


class Point(NamedTuple):
    """The weights of `LogLinear`, by the names of its fields."""

    regular_weight: float = 0.0
    reverse_weight: float = 0.0
    length_weight: float = 0.0
    agreement_weight: float = 0.0
    length_exponent: float = 0.6


class Features(NamedTuple):
    """What `LogLinear` weighs, (candidates,) each; agreement is None where nothing is compared."""

    regular: Array
    reverse: Array
    length: Array
    agreement: Array | None = None


class WeightSearch:
    """Finds weights with a high gain on all folds of the sources but one, or on all.

    Args:
        candidates: Who may answer.
        features: Their numbers.
        exponent: The length exponent of the rules to start from: that of the search.
    """

    def __init__(self, candidates: FlatBeams, features: Features, *, exponent: float) -> None:
        self._candidates, self._features, self._outcomes = candidates, features, candidates.outcomes
        self._exponent = exponent
        self._inverses: dict[float, Array] = {}  # (candidates,), 1 / lp by exponent
        self._sums: dict[Point, Array] = {}  # (folds, columns), of all points that were tried

    @property
    def starts(self) -> list[Point]:
        """The rules that are points here, the default first: BidiS, VBS, reverse VBS, BidiA, all of them."""
        weights = [(1.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)]
        if self._features.agreement is not None:
            weights += [(0.0, 0.0, 1.0), (1.0, 1.0, 1.0)]
        return [Point(regular, reverse, 0.0, agreed, self._exponent) for regular, reverse, agreed in weights]

    def choose(self, points: Sequence[Point]) -> Array:
        """Returns the choices by some points: (points, sources)."""
        regular, reverse, length, agreement = self._features
        parts = []
        for start in range(0, len(points), BATCH):
            batch = points[start : start + BATCH]
            weights = np.array(batch)[:, :, np.newaxis]  # (points, weights, 1)
            scores = weights[:, 0] * regular + weights[:, 1] * reverse
            scores *= np.stack([self._invert_penalty(point.length_exponent) for point in batch])
            scores += weights[:, 2] * length
            if agreement is not None:
                scores += weights[:, 3] * agreement
            parts.append(self._candidates.choose(scores))
        return np.concatenate(parts)

    def _invert_penalty(self, exponent: float) -> Array:
        if exponent not in self._inverses:
            self._inverses[exponent] = ((5.0 + self._features.length) / 6.0) ** -exponent
        return self._inverses[exponent]

    def gains(self, points: Sequence[Point], fold: int | None) -> Array:
        """Returns the gains of points on all folds but one; each point's choices are made once."""
        new = [point for point in dict.fromkeys(points) if point not in self._sums]
        if new:
            self._sums.update(zip(new, self._outcomes.sum_folds(self.choose(new)), strict=True))
        return self._outcomes.gains_without(np.stack([self._sums[point] for point in points]), fold)

    def find(self, fold: int | None = None) -> Point:
        """Returns the best point that is reached, on all folds but one, or on all.

        From the best rule, and from the best length settings with the regular score alone and with both, one
        weight after another moves to its best value, for as long as that helps.
        """
        starts = [self._best(self.starts, fold)]
        for reverse in (0.0, 1.0):
            lengths = [
                Point(1.0, reverse, reward, 0.0, exponent)
                for exponent in GRIDS["length_exponent"]
                for reward in GRIDS["length_weight"]
            ]
            starts.append(self._best(lengths, fold))
        return self._best([self._ascend(start, fold) for start in starts], fold)

    def _best(self, points: Sequence[Point], fold: int | None) -> Point:
        return points[int(np.argmax(self.gains(points, fold)))]

    def _ascend(self, point: Point, fold: int | None) -> Point:
        names = [name for name in GRIDS if self._features.agreement is not None or name != "agreement_weight"]
        for _ in range(SWEEPS):
            before = point
            for name in names:  # of equal points, it stays where it is
                point = self._best([point, *(point._replace(**{name: each}) for each in GRIDS[name])], fold)
            if point == before:
                break
        return point
