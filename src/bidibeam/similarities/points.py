"""Distances between points, compiled."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numba
import numpy as np

from bidibeam.compiling import compiled

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix

    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


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
def quick_square(point: Vector, other_point: Vector) -> float:
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
