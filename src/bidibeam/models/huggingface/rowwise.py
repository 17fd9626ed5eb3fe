"""What a decoder does to each row apart from products, on one thread of a CPU: one pass instead of several.

With few rows, torch's own functions take longer to begin than to do it.
"""

from __future__ import annotations

import math
from functools import partial

import numba
import numpy as np
import torch
from torch import Tensor

from bidibeam.compiling import compiled, is_on
from bidibeam.models.huggingface.machine import over, pointer_to

_HALF, _ONE, _ROOT = np.float32(0.5), np.float32(1.0), np.float32(math.sqrt(0.5))
_FARTHEST, _LOWEST = np.float32(4.0), np.float32(-4.0)
"""Where the error function is 1 and -1 to the last bit."""
_ABOVE = tuple(
    np.float32(one)
    for one in (
        -2.72614225801306e-10,
        2.77068142495902e-08,
        -2.10102402082508e-06,
        -5.69250639462346e-05,
        -7.34990630326855e-04,
        -2.95459980854025e-03,
        -1.60960333262415e-02,
    )
)
_BELOW = tuple(
    np.float32(one)
    for one in (
        -1.45660718464996e-05,
        -2.13374055278905e-04,
        -1.68282697438203e-03,
        -7.37332916720468e-03,
        -1.42647390514189e-02,
    )
)
"""The error function is x times one polynomial in x^2 over another, the highest power first (Eigen's)."""


def are_ours(rows: Tensor) -> bool:
    """Whether rows are numbers that the functions here take, and one thread is to work on them."""
    is_plain = rows.dtype == torch.float32 and rows.is_cpu and rows.is_contiguous()
    return is_plain and torch.get_num_threads() == 1 and is_on()


def gelu_(rows: Tensor) -> Tensor:
    """GELU by the error function, where the numbers are."""
    _gelu(rows.data_ptr(), rows.numel())
    return rows


@partial(compiled, fastmath={"contract"})
def _gelu(address: int, count: int) -> None:  # pragma: no cover
    numbers = numba.carray(pointer_to(address), count, np.float32)
    for place in range(count):
        number = numbers[place]
        near = number * _ROOT
        near = _FARTHEST if near > _FARTHEST else near  # NaN is neither, and stays
        near = _LOWEST if near < _LOWEST else near
        square = near * near
        above, below = _ABOVE[0], _BELOW[0]
        for power in range(1, 7):
            above = above * square + _ABOVE[power]
        for power in range(1, 5):
            below = below * square + _BELOW[power]
        numbers[place] = _HALF * number * (_ONE + over(near * above, below))
