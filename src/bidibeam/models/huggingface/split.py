"""Products of float32 on a GPU's matrix units, which read shorter numbers: each number as the sum of two.

A float32 is such a number (TF32), another one for what that leaves, and a rest that does not count. Of the
four products of two such sums, three count. Added up in float32 they are about as near to the true product as
a plain one is, and there sooner: in one kernel with the bias, and with what is added besides.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS, DEPTH = 128, 64, 32
"""Of a block: those of a product that are found at once, and how much of the sums is read at once."""
GROUP = 8
"""Blocks of rows that go through the columns together, so that what they read stays in a cache."""


@triton.jit  # type: ignore[untyped-decorator]
def _times(  # type: ignore[no-untyped-def]
    rows,
    weight,
    bias,
    more,
    out,
    count,
    width,
    depth,
    row_step,
    more_step,
    out_step,
    has_bias: tl.constexpr,
    has_more: tl.constexpr,
    high: tl.constexpr,
    wide: tl.constexpr,
    deep: tl.constexpr,
    group: tl.constexpr,
):
    """One block of the product."""
    number, columns = tl.program_id(0), tl.cdiv(width, wide)
    first = number // (group * columns) * group
    size = min(tl.cdiv(count, high) - first, group)
    within = number % (group * columns)
    row = (first + within % size) * high + tl.arange(0, high)
    column = within // size * wide + tl.arange(0, wide)
    place = tl.arange(0, deep)
    left = rows + (row % count).to(tl.int64)[:, None] * row_step + place[None, :]
    right = weight + (column % width).to(tl.int64)[:, None] * depth + place[None, :]
    sums = tl.zeros((high, wide), tl.float32)
    for _ in range(0, depth, deep):
        sums = tl.dot(tl.load(left), tl.trans(tl.load(right)), sums, input_precision="tf32x3")
        left += deep
        right += deep
    is_there = (row < count)[:, None] & (column < width)[None, :]
    line = row.to(tl.int64)[:, None]
    if has_bias:
        sums += tl.load(bias + column, mask=column < width, other=0.0)[None, :]
    if has_more:
        sums += tl.load(more + line * more_step + column[None, :], mask=is_there, other=0.0)
    tl.store(out + line * out_step + column[None, :], sums, mask=is_there)


def times(
    rows: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, more: Tensor | None = None
) -> Tensor:
    """Rows times a matrix, plus a bias, plus as many rows more, written to `out`.

    Args:
        rows: (rows, in), float32 on a GPU, as are all.
        weight: (out, in), contiguous, in a multiple of `DEPTH`.
        bias: (out,), contiguous.
        out: (rows, out), each row contiguous.
        more: The same.
    """
    rows = rows if rows.stride(1) == 1 else rows.contiguous()
    if more is not None and more.stride(1) != 1:
        more = more.contiguous()
    width, depth = weight.shape
    _times[(blocks(len(rows), width),)](
        rows,
        weight,
        weight if bias is None else bias,
        weight if more is None else more,
        out,
        len(rows),
        width,
        depth,
        rows.stride(0),
        0 if more is None else more.stride(0),
        out.stride(0),
        has_bias=bias is not None,
        has_more=more is not None,
        high=ROWS,
        wide=COLUMNS,
        deep=DEPTH,
        group=GROUP,
        num_warps=4,
        num_stages=3,
    )
    return out


def blocks(count: int, width: int) -> int:
    """How many blocks the product of so many rows has."""
    return -(-count // ROWS) * -(-width // COLUMNS)


def is_taken(count: int, weight: Tensor) -> bool:
    """Whether so many rows gain by it: where they fill blocks, of which there is one for each processor."""
    if weight.shape[1] % DEPTH or not weight.is_contiguous() or weight.dtype != torch.float32 or count < ROWS:
        return False
    processors: int = torch.cuda.get_device_properties(weight.device).multi_processor_count
    return blocks(count, len(weight)) >= processors
