"""Attention to ancestors on a GPU: keys and values are read where they are, in one kernel of Triton."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

STEPS = 16
"""Ancestors that a program reads at once."""


@triton.jit(do_not_specialize=["steps", "place_stride", "bias_stride"])  # type: ignore[untyped-decorator]
def _extend_and_read(  # type: ignore[no-untyped-def]
    keys,
    values,
    places,
    mixed,
    bias,
    attended,
    log_sums,
    scaling,
    steps,
    place_stride,
    step_stride,
    row_stride,
    bias_stride,
    heads: tl.constexpr,
    groups: tl.constexpr,
    size: tl.constexpr,
    width: tl.constexpr,
    has_bias: tl.constexpr,
    chunk: tl.constexpr,
):
    """One head of one row: its own key and value are written, then it reads them and its ancestors'."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    group = head // (heads // groups)
    index = tl.arange(0, width)
    is_there = index < size
    own = mixed + row * (heads + 2 * groups) * size
    query = tl.load(own + head * size + index, mask=is_there, other=0.0).to(tl.float32) * scaling
    key = tl.load(own + (heads + group) * size + index, mask=is_there, other=0.0)
    value = tl.load(own + (heads + groups + group) * size + index, mask=is_there, other=0.0)
    if head % (heads // groups) == 0:
        here = (steps - 1) * step_stride + row * row_stride + group * size + index
        tl.store(keys + here, key, mask=is_there)
        tl.store(values + here, value, mask=is_there)

    top = tl.sum(query * key.to(tl.float32), axis=0)
    if has_bias:
        top += tl.load(bias + head * bias_stride + steps - 1).to(tl.float32)
    total = tl.full((), 1.0, tl.float32)
    read = value.to(tl.float32)  # (width,)
    for first in range(0, steps - 1, chunk):
        step = first + tl.arange(0, chunk)
        is_before = step < steps - 1
        place = tl.load(places + row * place_stride + step, mask=is_before, other=0)
        where = step.to(tl.int64) * step_stride + place * row_stride + group * size  # (chunk,)
        both = is_before[:, None] & is_there[None, :]
        old = tl.load(keys + where[:, None] + index[None, :], mask=both, other=0.0).to(tl.float32)
        products = tl.sum(old * query[None, :], axis=1)  # (chunk,)
        if has_bias:
            products += tl.load(bias + head * bias_stride + step, mask=is_before, other=0.0).to(tl.float32)
        products = tl.where(is_before, products, float("-inf"))
        higher = tl.maximum(top, tl.max(products, axis=0))
        weights = tl.exp(products - higher)  # (chunk,)
        old = tl.load(values + where[:, None] + index[None, :], mask=both, other=0.0).to(tl.float32)
        shrink = tl.exp(top - higher)
        read = read * shrink + tl.sum(old * weights[:, None], axis=0)
        total = total * shrink + tl.sum(weights, axis=0)
        top = higher
    out = attended + (row * heads + head) * size + index
    tl.store(out, (read / total).to(attended.dtype.element_ty), mask=is_there)
    tl.store(log_sums + row * heads + head, top + tl.log(total))


def extended_on_gpu(
    stored: tuple[Tensor, Tensor],
    places: Tensor,
    mixed: Tensor,
    heads: int,
    scaling: float,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Write what rows say now as the last step, and attend to it and to all ancestors.

    Args:
        stored: Keys and values, both (steps, rows, key heads, head size), contiguous.
        places: (rows, steps), the row in which each ancestor wrote; every row itself last.
        mixed: (rows, heads + 2 * key heads, head size), contiguous: queries, then keys, then values.
        heads: How many heads queries have.
        scaling: What products are multiplied by.
        bias: (heads, steps), added to products.

    Returns:
        What was read, (rows, heads, head size), and the log-sum-exp of the products, (rows, heads), float32.
    """
    keys, values = stored
    rows, all_heads, size = mixed.shape
    places = places.contiguous()
    shifts = mixed if bias is None else bias if bias.stride(1) == 1 else bias.contiguous()
    attended = mixed.new_empty(rows, heads, size)
    log_sums = mixed.new_empty(rows, heads, dtype=torch.float32)
    _extend_and_read[(rows, heads)](
        keys,
        values,
        places,
        mixed,
        shifts,
        attended,
        log_sums,
        scaling,
        places.shape[1],
        places.stride(0),
        keys.stride(0),
        keys.stride(1),
        shifts.stride(0),
        heads,
        (all_heads - heads) // 2,
        size,
        triton.next_power_of_2(size),
        bias is not None,
        STEPS,
        num_warps=1,
    )
    return attended, log_sums
