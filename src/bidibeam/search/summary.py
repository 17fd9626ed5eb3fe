"""What a CPU reads once where torch reads it five times: the maxima and the log-sum-exp of rows of logits."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba.extending import intrinsic

from bidibeam.compiling import compiled
from bidibeam.search.candidates import BLOCK

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]

CHUNK = 32 * BLOCK
"""Logits read for their maxima and then again for their exponentials, while they are in the nearest cache."""

_LOWEST, _LEAST_BITS = np.finfo(np.float32).min, np.int32(-(1 << 31))
_ZERO = np.float32(0.0)
_SMALLEST, _TURNS, _WHOLE = np.float32(-87.0), np.float32(math.log2(math.e)), np.float32(3 << 22)
_LOG_2, _LOG_2_REST = np.float32(0.693359375), np.float32(-2.12194440e-4)
_POWERS = tuple(
    np.float32(one)
    for one in (
        1.39487005e-03,
        8.37521270e-03,
        4.16662165e-02,
        1.66664145e-01,
        5.00000011e-01,
        1.00000004e00,
        1.0,
    )
)
"""e^x for |x| <= log(2) / 2, to 3e-9: a polynomial through Chebyshev's points, the highest power first."""


def _bits_in_order(_context: Any, _bits: Any) -> Any:  # pragma: no cover
    """A float's bits as a whole number that ranks as the float does; and the other way round."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        (bits,) = arguments
        return builder.xor(bits, builder.and_(builder.ashr(bits, bits.type(31)), bits.type(0x7FFFFFFF)))

    return numba.int32(numba.int32), generate


def _number(_context: Any, _bits: Any) -> Any:  # pragma: no cover
    """The float that has these bits."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(numba.float32))

    return numba.float32(numba.int32), generate


def _power_of_two(_context: Any, _number: Any) -> Any:  # pragma: no cover
    """2^n, of the float n + `_WHOLE`, whose last bits are n."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], context.get_value_type(numba.int32))
        moved = builder.add(builder.shl(bits, bits.type(23)), bits.type(0x3F800000))
        return builder.bitcast(moved, arguments[0].type)

    return numba.float32(numba.float32), generate


in_order, number_of, _power = intrinsic(_bits_in_order), intrinsic(_number), intrinsic(_power_of_two)


@partial(numba.njit, nogil=True, fastmath={"contract"}, inline="always")
def exponential(number: Any) -> Any:  # pragma: no cover
    """e^x of a float32 that is at most 0, to 2 units of the last place; of what is below -87 that of -87.

    NaN stays. Numba's own calls a library, one number at a time; this is many numbers in one instruction.
    Whoever calls it may let products and sums be one (`fastmath={"contract"}`), which is faster.
    """
    number = _SMALLEST if number < _SMALLEST else number  # so that NaN is not less
    turned = number * _TURNS + _WHOLE
    turns = turned - _WHOLE  # a whole number
    rest = number - turns * _LOG_2  # exactly: the first part of log(2) is short
    rest = rest - turns * _LOG_2_REST
    found = _POWERS[0]
    for place in range(1, 7):
        found = found * rest + _POWERS[place]
    return found * _power(turned)


@partial(compiled, fastmath={"contract"})
def summarise(logits: Array, maxima: Array, log_sums: Array) -> None:  # pragma: no cover
    """Write the maximum of each block, (rows, blocks), and the log-sum-exps, (rows,).

    Maxima are those of whole numbers, which many instructions find at once, as they do not those of floats.
    """
    vocabulary = logits.shape[1]
    lanes = np.empty(BLOCK, np.float32)  # sums of every 64th exponential
    for row in range(len(logits)):
        line, best = logits[row], maxima[row].view(np.int32)
        bits = line.view(np.int32)
        for lane in range(BLOCK):
            lanes[lane] = _ZERO
        top = _LOWEST
        for start in range(0, vocabulary, CHUNK):
            stop = min(start + CHUNK, vocabulary)
            whole = stop - (stop - start) % BLOCK
            highest = _LEAST_BITS
            for first in range(start, stop, BLOCK):
                own = _LEAST_BITS
                if first < whole:
                    part = bits[first : first + BLOCK]
                    for place in range(BLOCK):
                        one = in_order(part[place])
                        own = one if one > own else own
                else:
                    part = bits[first:stop]
                    for place in range(len(part)):
                        one = in_order(part[place])
                        own = one if one > own else own
                best[first // BLOCK] = in_order(own)
                highest = own if own > highest else highest
            higher = number_of(in_order(highest))
            if not higher <= top:  # NaN is neither
                shrink = exponential(top - higher)
                for lane in range(BLOCK):
                    lanes[lane] *= shrink
                top = higher
            for first in range(start, whole, BLOCK):
                some = line[first : first + BLOCK]
                for lane in range(BLOCK):
                    lanes[lane] += exponential(some[lane] - top)
            rest = line[whole:stop]
            for lane in range(len(rest)):
                lanes[lane] += exponential(rest[lane] - top)
        total = 0.0
        for lane in range(BLOCK):
            total += lanes[lane]
        if total < 1.0:  # the largest term is 1, unless there is none; NaN stays
            total = 1.0
        log_sums[row] = top + math.log(total)
