"""What a GPU does in one kernel of a decoder's step where torch takes five, in Triton.

Additive attention has a hidden layer for every hypothesis and every position of its source. Here it is never
written to memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_POSITIONS = 128
"""Of a source: what a program holds at once."""
UNITS, TILE = 16, 2048
"""Hidden units of attention that a program looks at at once, and numbers."""


@triton.jit
def _tanh(numbers):  # type: ignore[no-untyped-def]
    return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * numbers))


@triton.jit(do_not_specialize=["beams", "positions", "first_sources"])  # type: ignore[untyped-decorator]
def _attend(  # type: ignore[no-untyped-def]
    query,
    keys,
    v,
    mask,
    weights,
    beams,
    positions,
    first_sources,
    query_stride,
    size,
    some_beams: tl.constexpr,
    width: tl.constexpr,
    units: tl.constexpr,
):
    """Some hypotheses of one source: their weights of its positions."""
    source = tl.program_id(0).to(tl.int64)
    beam = tl.program_id(1) * some_beams + tl.arange(0, some_beams)
    position = tl.arange(0, width)
    is_beam, is_there = beam < beams, position < positions
    v += tl.where(source < first_sources, 0, size)
    energies = tl.zeros((some_beams, width), tl.float32)
    for first in range(0, size, units):
        unit = first + tl.arange(0, units)
        is_unit = unit < size
        asked = tl.load(
            query + (source * beams + beam)[:, None] * query_stride + unit[None, :],
            mask=is_beam[:, None] & is_unit[None, :],
            other=0.0,
        )  # (some beams, units)
        key = tl.load(
            keys + (source * positions + position)[:, None] * size + unit[None, :],
            mask=is_there[:, None] & is_unit[None, :],
            other=0.0,
        )  # (width, units)
        shares = tl.load(v + unit, mask=is_unit, other=0.0)
        hidden = _tanh(asked[:, None, :] + key[None, :, :])  # (some beams, width, units)
        energies += tl.sum(hidden * shares[None, None, :], axis=2)
    energies += tl.load(mask + source * positions + position, mask=is_there, other=float("-inf"))[None, :]
    energies = tl.exp(energies - tl.max(energies, axis=1)[:, None])
    out = weights + (source * beams + beam)[:, None] * positions + position[None, :]
    shared = energies / tl.sum(energies, axis=1)[:, None]
    tl.store(out, shared, mask=is_beam[:, None] & is_there[None, :])


@triton.jit(do_not_specialize=["count"])  # type: ignore[untyped-decorator]
def _update(gates, from_state, state, new, count, state_stride, size: tl.constexpr, chunk: tl.constexpr):  # type: ignore[no-untyped-def]
    """PyTorch's GRU equations, for some numbers of the new states."""
    index = tl.program_id(0).to(tl.int64) * chunk + tl.arange(0, chunk)
    is_there = index < count
    row, unit = index // size, index % size
    given, own = gates + row * 3 * size + unit, from_state + row * state_stride + unit
    reset = tl.load(given, mask=is_there, other=0.0) + tl.load(own, mask=is_there, other=0.0)
    update = tl.load(given + size, mask=is_there, other=0.0) + tl.load(own + size, mask=is_there, other=0.0)
    candidate = tl.load(own + 2 * size, mask=is_there, other=0.0) / (1.0 + tl.exp(-reset))
    candidate = _tanh(tl.load(given + 2 * size, mask=is_there, other=0.0) + candidate)
    before = tl.load(state + index, mask=is_there, other=0.0)
    update = 1.0 / (1.0 + tl.exp(-update))
    tl.store(new + index, candidate + update * (before - candidate), mask=is_there)


def attention_weights(query: Tensor, keys: Tensor, v: Tensor, mask: Tensor, first_sources: int) -> Tensor:
    """Additive attention of one or two decoders, float32.

    Args:
        query: (sources * beams, units), of which the units are contiguous.
        keys: (sources, positions, units), contiguous; at most `MOST_POSITIONS`.
        v: (decoders, units), contiguous.
        mask: (sources, 1, positions), 0 at real positions and -inf at padding; contiguous.
        first_sources: How many of the sources are the first decoder's.

    Returns:
        (sources, beams, positions).
    """
    sources, positions, size = keys.shape
    beams = len(query) // sources
    weights = query.new_empty(sources, beams, positions)
    width = max(16, triton.next_power_of_2(positions))
    some = max(1, TILE // (UNITS * width))
    grid = (sources, triton.cdiv(beams, some))
    numbers = (beams, positions, first_sources, query.stride(0), size, some, width, UNITS)
    _attend[grid](query, keys, v, mask, weights, *numbers, num_warps=2)
    return weights


def updated(gates: Tensor, from_state: Tensor, state: Tensor) -> Tensor:
    """New states, (rows, size), float32.

    Args:
        gates: What the input says, (rows, 3 * size), contiguous.
        from_state: What the states before say, (rows, 3 * size), of which a row is contiguous.
        state: The states before, (rows, size), contiguous.
    """
    new = torch.empty_like(state)
    count, chunk = new.numel(), 1024
    _update[(triton.cdiv(count, chunk),)](
        gates, from_state, state, new, count, from_state.stride(0), state.shape[1], chunk, num_warps=4
    )
    return new
