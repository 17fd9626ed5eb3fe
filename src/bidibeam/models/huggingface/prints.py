"""Whether matrices still are what they were: a number for each row of each, at the speed of memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from bidibeam.compiling import compiled
from bidibeam.models.huggingface.machine import pointer_to, prefetch

Array = np.ndarray[Any, np.dtype[Any]]


AHEAD = 64
"""How many lines of a cache ahead memory is asked for what comes: it answers late, but many at once."""


def printed(weights: Sequence[Tensor]) -> Tensor:
    """A print of each row of float32 matrices on a CPU that have as many columns: (all rows,), int64.

    Rows that differ have the same print with a probability of 2^-32, whatever the difference (NH, the
    universal hash of UMAC). A parameter's version would not do: it stays the same where `parameter.data` is
    written to.
    """
    width = weights[0].shape[1]
    prints = torch.empty(sum(map(len, weights)), dtype=torch.long)
    secrets, first = _secrets(width), 0
    for weight in weights:
        weight, last = weight.contiguous(), first + len(weight)
        _print(weight.data_ptr(), len(weight), width, secrets, prints[first:last].numpy())
        first = last
    return prints


@cache
def _secrets(width: int) -> Array:
    """As many numbers as pairs in a row, (2, pairs), by chance, and the same each time."""
    return np.random.default_rng(width).integers(1 << 32, size=(2, -(-width // 2)), dtype=np.uint64)


@compiled
def _print(address: int, rows: int, width: int, secrets: Array, prints: Array) -> None:  # pragma: no cover
    """Sums of products of two 32 bit numbers each, which stand side by side."""
    pairs, low = width // 2, np.uint64(0xFFFFFFFF)
    ones, others = secrets[0], secrets[1]
    for row in range(rows):
        start = address + 4 * row * width
        for place in range(0, 4 * width, 64):
            prefetch(start + 64 * AHEAD + place)
        words = numba.carray(pointer_to(start), pairs, np.uint64)
        total = np.uint64(0)
        for pair in range(pairs):
            both = words[pair]
            total += ((both + ones[pair]) & low) * (((both >> np.uint64(32)) + others[pair]) & low)
        if width % 2:
            last = np.uint64(numba.carray(pointer_to(start), width, np.uint32)[width - 1])
            total += ((last + ones[pairs]) & low) * others[pairs]
        prints[row] = total
