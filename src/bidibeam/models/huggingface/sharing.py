"""Attention of a source's rows to what they share, on one thread of a CPU: two products of tiles a head."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from bidibeam.compiling import compiled, fast
from bidibeam.models.huggingface.machine import are_fast, over, pointer_to
from bidibeam.models.huggingface.rowwise import are_ours
from bidibeam.models.huggingface.tiles import WIDTH, multiply
from bidibeam.search.summary import exponential

Array = np.ndarray[Any, np.dtype[Any]]

_LOWEST, _NOTHING = np.float32(-1e38), np.float32(1e-30)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


FEW_POSITIONS = 64
"""Up to so many positions it pays; then torch's own attention is as fast, and faster."""


def are_read_fast(query: Tensor, keys: Tensor) -> bool:
    """Whether `read_shared` takes these numbers, and is the fastest way."""
    return are_ours(query) and keys.shape[2] <= FEW_POSITIONS and are_fast()


def read_shared(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scaling: float) -> Tensor:
    """Attend from rows to their source's: the shape of the query.

    Args:
        query: (rows, heads, head size), rows of a source together; float32, as are all.
        keys: (sources, key heads, positions, head size).
        values: The same.
        mask: (sources, positions), where there is something.
        scaling: What products are multiplied by.
    """
    query, keys, values = query.contiguous(), keys.contiguous(), values.contiguous()
    mask = None if mask is None else mask.contiguous()
    out = torch.empty_like(query)
    rows, heads, size = query.shape
    sources, groups, positions, _ = keys.shape
    nothing = _zeros(max(-(-positions // WIDTH), -(-size // WIDTH)) * WIDTH)
    _read(
        query.data_ptr(),
        keys.data_ptr(),
        values.data_ptr(),
        0 if mask is None else mask.data_ptr(),
        out.data_ptr(),
        nothing.data_ptr(),
        rows,
        heads,
        size,
        sources,
        groups,
        positions,
        scaling,
    )
    return out


@cache
def _zeros(count: int) -> Tensor:
    """What is added where nothing is."""
    return torch.zeros(count, dtype=torch.float32, device="cpu")


@compiled
def _read(
    query: int,
    keys: int,
    values: int,
    mask: int,
    out: int,
    nothing: int,
    rows: int,
    heads: int,
    size: int,
    sources: int,
    groups: int,
    positions: int,
    scaling: float,
) -> None:  # pragma: no cover
    """Addresses, then shapes, as `read_shared` has them."""
    each, shared = rows // sources, heads // groups
    by_position, by_size = -(-positions // WIDTH), -(-size // WIDTH)  # tiles
    padded = by_position * WIDTH
    key_tiles = np.zeros((by_position, size, WIDTH), np.float32)
    value_tiles = np.zeros((by_size, positions, WIDTH), np.float32)
    weights = np.empty((each, padded), np.float32)
    shifts = np.empty(padded, np.float32)
    weighed = weights.ctypes.data  # an address keeps no array alive: that of one that is used to the end
    for source in range(sources):
        is_there = numba.carray(pointer_to(mask + source * positions), positions if mask else 0, np.bool_)
        for place in range(padded):
            is_in = place < positions and (mask == 0 or is_there[place])
            shifts[place] = _ZERO if is_in else _LOWEST
        for group in range(groups):
            place = 4 * (source * groups + group) * positions * size
            _pack_keys(numba.carray(pointer_to(keys + place), (positions, size), np.float32), key_tiles)
            _pack_values(numba.carray(pointer_to(values + place), (positions, size), np.float32), value_tiles)
            for head in range(group * shared, (group + 1) * shared):
                here, step = 4 * (source * each * heads + head) * size, heads * size
                multiply(
                    query + here,
                    key_tiles.ctypes.data,
                    nothing,
                    nothing,
                    weighed,
                    step,
                    0,
                    padded,
                    each,
                    size,
                    padded,
                )
                for row in range(each):
                    _weigh(weights[row], shifts, np.float32(scaling))
                multiply(
                    weighed,
                    value_tiles.ctypes.data,
                    nothing,
                    nothing,
                    out + here,
                    padded,
                    0,
                    step,
                    each,
                    positions,
                    size,
                )


@compiled
def _pack_keys(keys: Array, tiles: Array) -> None:  # pragma: no cover
    """(positions, size) as a matrix of (size, positions)."""
    for position in range(keys.shape[0]):
        key, tile, column = keys[position], tiles[position // WIDTH], position % WIDTH
        for place in range(keys.shape[1]):
            tile[place, column] = key[place]


@compiled
def _pack_values(values: Array, tiles: Array) -> None:  # pragma: no cover
    """(positions, size) as a matrix of the same."""
    size = values.shape[1]
    for position in range(values.shape[0]):
        value = values[position]
        for first in range(0, size, WIDTH):
            here, row = value[first : min(first + WIDTH, size)], tiles[first // WIDTH, position]
            for place in range(len(here)):
                row[place] = here[place]


@fast
def _weigh(weights: Array, shifts: Array, scaling: Any) -> None:  # pragma: no cover
    """The softmax of products, where they are; 0 where they are shifted far down."""
    top = _LOWEST
    for place in range(len(weights)):
        weights[place] = weights[place] * scaling + shifts[place]
        top = max(top, weights[place])
    exponentials(weights, top)
    total = np.float32(0.0)
    for place in range(len(weights)):
        total += weights[place]
    inverse = over(_ONE, total)
    for place in range(len(weights)):
        weights[place] *= inverse


@partial(compiled, fastmath={"contract"})
def exponentials(weights: Array, top: Any) -> None:  # pragma: no cover
    """What is left of numbers, less the largest, as exponents; 0 for very small ones, which would be slow."""
    for place in range(len(weights)):
        found = exponential(weights[place] - top)
        weights[place] = _ZERO if found < _NOTHING else found
