"""What a GPU reads once where torch reads it five times, in Triton, which comes with torch for CUDA."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LOWEST = torch.finfo(torch.float32).min


@triton.jit  # type: ignore[untyped-decorator]
def _summarise_row(  # type: ignore[no-untyped-def]
    logits,
    maxima,
    log_sums,
    vocabulary,
    stride,
    lowest: tl.constexpr,
    block: tl.constexpr,
    blocks: tl.constexpr,
):
    """One row: its block maxima, and its log-sum-exp, `blocks` blocks at a time."""
    row = tl.program_id(0).to(tl.int64)
    all_blocks = tl.cdiv(vocabulary, block)
    top = tl.full((), lowest, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    columns = tl.arange(0, blocks)[:, None] * block + tl.arange(0, block)[None, :]  # (blocks, block)
    for first in range(0, vocabulary, blocks * block):
        here = first + columns
        tile = tl.load(logits + row * stride + here, mask=here < vocabulary, other=float("-inf"))
        best = tl.max(tile, axis=1)  # (blocks,)
        places = first // block + tl.arange(0, blocks)
        tl.store(maxima + row * all_blocks + places, best, mask=places < all_blocks)
        higher = tl.maximum(top, tl.max(best, axis=0))
        total = total * tl.exp(top - higher) + tl.sum(tl.sum(tl.exp(tile - higher), axis=1), axis=0)
        top = higher
    total = tl.where(total < 1.0, 1.0, total)  # the largest term is 1, unless there is none; NaN stays
    tl.store(log_sums + row, top + tl.log(total))


def summarised(rows: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Block maxima, (rows, blocks), and log-sum-exps, (rows,), of (rows, vocabulary), float32, on a GPU.

    A row of -inf has the lowest finite sum, and one that is not all numbers NaN.
    """
    count, vocabulary = rows.shape
    maxima = rows.new_empty(count, -(-vocabulary // block))
    log_sums = rows.new_empty(count)
    _summarise_row[(count,)](
        rows, maxima, log_sums, vocabulary, rows.stride(0), LOWEST, block, 2048 // block, num_warps=8
    )
    return maxima, log_sums
