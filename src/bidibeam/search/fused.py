"""A step of a search on a GPU in three kernels of Triton, which comes with torch for CUDA.

They find what `bidibeam.search.candidates` and `bidibeam.search.parting` find with torch's own kernels, of
which a step takes a hundred: the interpreter would be busier with them than the GPU itself.

`bidibeam.search.kernels.Kernels` says what the functions take and return.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LOWEST = torch.finfo(torch.float32).min
PLACES_AT_ONCE = 2048
"""Blocks of a source looked at at once; their ranks stay in a cache."""
FEWEST_SLOTS, MOST_SLOTS = 64, 256
"""Candidates that there is room for: kernels are compiled for powers of two. More would leave registers."""
MOST_PLACES = (1 << 31) - 1
"""Places that 32 bits can name."""


@triton.jit
def _rank_of(log_probs):  # type: ignore[no-untyped-def]
    """Whole numbers without a sign that rise as log-probabilities fall, and differ where these do.

    The bits of a float that is not negative order as it does, and those of a negative one the other way
    round. A cost is 0 - x and not -x, which would make two numbers of 0.
    """
    bits = (0.0 - log_probs).to(tl.int32, bitcast=True)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return ordered.to(tl.uint32, bitcast=True) ^ 0x80000000


@triton.jit
def _log_prob_of(ranks):  # type: ignore[no-untyped-def]
    """What had these ranks."""
    ordered = (ranks ^ 0x80000000).to(tl.int32, bitcast=True)
    bits = ordered ^ ((ordered >> 31) & 0x7FFFFFFF)
    return 0.0 - bits.to(tl.float32, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator]
def _summarise_row(  # type: ignore[no-untyped-def]
    logits,
    log_probs,
    is_forbidden,
    maxima,
    log_sums,
    vocabulary,
    stride,
    lowest: tl.constexpr,
    has_forbidden: tl.constexpr,
    is_ranked: tl.constexpr,
    is_normalised: tl.constexpr,
    block: tl.constexpr,
    blocks: tl.constexpr,
):
    """One row: its block maxima and its log-sum-exp, `blocks` blocks at a time; then maxima become ranks."""
    row = tl.program_id(0).to(tl.int64)
    all_blocks = tl.cdiv(vocabulary, block)
    top = tl.full((), lowest, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    columns = tl.arange(0, blocks)[:, None] * block + tl.arange(0, block)[None, :]  # (blocks, block)
    for first in range(0, vocabulary, blocks * block):
        here = first + columns
        tile = tl.load(logits + row * stride + here, mask=here < vocabulary, other=float("-inf"))
        best = tl.max(tile, axis=1)  # (blocks,)
        higher = tl.maximum(top, tl.max(best, axis=0))
        total = total * tl.exp(top - higher) + tl.sum(tl.sum(tl.exp(tile - higher), axis=1), axis=0)
        top = higher
        if has_forbidden:
            is_out = tl.load(is_forbidden + here, mask=here < vocabulary, other=1)
            best = tl.max(tl.where(is_out, float("-inf"), tile), axis=1)
        places = first // block + tl.arange(0, blocks)
        tl.store(maxima + row * all_blocks + places, best, mask=places < all_blocks)
    total = tl.where(total < 1.0, 1.0, total)  # the largest term is 1, unless there is none; NaN stays
    log_sum = top + tl.log(total)
    tl.store(log_sums + row, log_sum)
    if is_ranked:
        tl.debug_barrier()  # another thread of the row may have written
        before = tl.load(log_probs + row)
        shift = 0.0 if is_normalised else log_sum
        for first in range(0, all_blocks, 512):
            places = first + tl.arange(0, 512)
            is_there = places < all_blocks
            best = tl.load(maxima + row * all_blocks + places, mask=is_there, other=0.0)
            rank = _rank_of((best - shift) + before)
            tl.store(maxima + row * all_blocks + places, rank.to(tl.float32, bitcast=True), mask=is_there)


@triton.jit  # type: ignore[untyped-decorator]
def _choose(ranks, places, wanted, chosen, chunk: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write where the `wanted` lowest of so many ranks are, in the order of places; the first of equals.

    The rank of the last that is chosen is found bit by bit, from the highest: fewer than wanted are below it.
    """
    last, bit = tl.full((), 0, tl.uint32), tl.full((), 0x80000000, tl.uint32)
    below = tl.full((), 0, tl.int32)
    for _ in range(32):
        trial, bit = last | bit, bit >> 1
        counts = tl.zeros((chunk,), tl.int32)
        for first in range(0, places, chunk):
            index = first + tl.arange(0, chunk)
            rank = tl.load(ranks + index, mask=index < places, other=0xFFFFFFFF)
            counts += (rank < trial).to(tl.int32)
        count = tl.sum(counts, axis=0)
        last = tl.where(count < wanted, trial, last)
        below = tl.where(count < wanted, count, below)
    written, met = 0, 0
    for first in range(0, places, chunk):
        index = first + tl.arange(0, chunk)
        rank = tl.load(ranks + index, mask=index < places, other=0xFFFFFFFF)
        is_last = (rank == last).to(tl.int32)
        is_chosen = (rank < last) | ((rank == last) & (met + tl.cumsum(is_last, axis=0) <= wanted - below))
        slot = written + tl.cumsum(is_chosen.to(tl.int32), axis=0) - 1
        tl.store(chosen + slot, index, mask=is_chosen)
        met += tl.sum(is_last, axis=0)
        written += tl.sum(is_chosen.to(tl.int32), axis=0)
    tl.debug_barrier()  # whoever reads may be another thread


@triton.jit(do_not_specialize=["blocks", "beams", "vocabulary", "chosen_count", "count"])  # type: ignore[untyped-decorator]
def _find_best(  # type: ignore[no-untyped-def]
    block_ranks,
    log_sums,
    log_probs,
    logits,
    is_forbidden,
    chosen_blocks,
    token_ranks,
    chosen_tokens,
    found_log_probs,
    found_flat,
    is_broken,
    blocks,
    beams,
    vocabulary,
    chosen_count,
    count,
    has_forbidden: tl.constexpr,
    is_normalised: tl.constexpr,
    block: tl.constexpr,
    chunk: tl.constexpr,
    slots: tl.constexpr,
    beam_slots: tl.constexpr,
):
    """One source: the blocks that hold the best tokens, then the best tokens of these, then their order."""
    source = tl.program_id(0).to(tl.int64)
    chosen_blocks += source * slots
    token_ranks += source * slots * block
    chosen_tokens += source * slots
    log_sums += source * beams
    log_probs += source * beams
    logits += source * beams * vocabulary
    rows = tl.arange(0, beam_slots)
    sums = tl.load(log_sums + rows, mask=rows < beams, other=0.0)
    tl.store(is_broken + source, tl.max((sums != sums).to(tl.int8), axis=0))

    _choose(block_ranks + source * beams * blocks, beams * blocks, chosen_count, chosen_blocks, chunk)
    for first in range(0, chosen_count * block, chunk):
        index = first + tl.arange(0, chunk)
        is_chosen = index < chosen_count * block
        place = tl.load(chosen_blocks + index // block, mask=is_chosen, other=0)
        beam = place // blocks
        token = (place - beam * blocks) * block + index % block
        is_there = is_chosen & (token < vocabulary)
        found = tl.load(logits + beam * vocabulary + token, mask=is_there, other=float("-inf"))
        if not is_normalised:
            found = found - tl.load(log_sums + beam)
        found = found + tl.load(log_probs + beam)
        if has_forbidden:
            found = tl.where(tl.load(is_forbidden + token, mask=is_there, other=1), float("-inf"), found)
        rank = tl.where(is_there, _rank_of(found), 0xFFFFFFFF)
        tl.store(token_ranks + index, rank, mask=is_chosen)
    tl.debug_barrier()
    _choose(token_ranks, chosen_count * block, count, chosen_tokens, chunk)

    # These come in the order of beams and of the vocabulary, so that of equals the first ranks first.
    slot = tl.arange(0, slots)
    is_found = slot < count
    which = tl.load(chosen_tokens + slot, mask=is_found, other=0)
    ranks = tl.load(token_ranks + which, mask=is_found, other=0xFFFFFFFF)
    places = tl.load(chosen_blocks + which // block, mask=is_found, other=0)
    beams_of = places // blocks
    flat = beams_of.to(tl.int64) * vocabulary + (places - beams_of * blocks) * block + which % block
    is_before = (ranks[None, :] < ranks[:, None]) | (
        (ranks[None, :] == ranks[:, None]) & (slot[None, :] < slot[:, None])
    )
    out = source * count + tl.sum(is_before.to(tl.int32), axis=1)  # (slots,)
    tl.store(found_log_probs + out, _log_prob_of(ranks), mask=is_found)
    tl.store(found_flat + out, flat, mask=is_found)


@triton.jit(do_not_specialize=["count", "width", "vocabulary"])  # type: ignore[untyped-decorator]
def _part(  # type: ignore[no-untyped-def]
    log_probs,
    flat,
    finished,
    allowed,
    ends,
    ended_log_probs,
    new_finished,
    live,
    parents,
    tokens,
    live_log_probs,
    count,
    width,
    vocabulary,
    end_count: tl.constexpr,
    slots: tl.constexpr,
):
    """One source: which of its candidates end, and, closed up, which go on."""
    source = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, slots)
    is_there = index < count
    log_prob = tl.load(log_probs + source * count + index, mask=is_there, other=float("-inf"))
    both = tl.load(flat + source * count + index, mask=is_there, other=0)
    parent = both // vocabulary
    token = both - parent * vocabulary
    is_end = token < 0
    for number in tl.static_range(end_count):
        is_end = is_end | (token == tl.load(ends + number))
    is_end = is_end & is_there
    is_ended = is_end & (index < tl.load(allowed + source))
    ended = tl.where(is_ended, log_prob, float("-inf"))
    tl.store(ended_log_probs + source * count + index, ended, mask=is_there)
    more = tl.sum((ended > float("-inf")).to(tl.int64), axis=0)
    tl.store(new_finished + source, tl.load(finished + source) + more)

    goes_on = is_there & (is_end == 0)
    going = tl.sum(goes_on.to(tl.int32), axis=0)
    slot = tl.where(
        goes_on,
        tl.cumsum(goes_on.to(tl.int32), axis=0) - 1,
        going + tl.cumsum(is_end.to(tl.int32), axis=0) - 1,
    )
    is_kept = is_there & (slot < width)
    out = source * width + slot
    tl.store(live + out, both, mask=is_kept)
    tl.store(parents + out, parent, mask=is_kept)
    tl.store(tokens + out, token, mask=is_kept)
    tl.store(live_log_probs + out, tl.where(is_end, float("-inf"), log_prob), mask=is_kept)


def summarised(rows: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Block maxima and log-sum-exps."""
    return _summarised(rows, rows, None, block, is_ranked=False, is_normalised=False)


def _summarised(
    rows: Tensor,
    log_probs: Tensor,
    is_forbidden: Tensor | None,
    block: int,
    *,
    is_ranked: bool,
    is_normalised: bool,
) -> tuple[Tensor, Tensor]:
    count, vocabulary = rows.shape
    maxima = rows.new_empty(count, -(-vocabulary // block))
    log_sums = rows.new_empty(count)
    _summarise_row[(count,)](
        rows,
        log_probs,
        rows if is_forbidden is None else is_forbidden,
        maxima,
        log_sums,
        vocabulary,
        rows.stride(0),
        LOWEST,
        is_forbidden is not None,
        is_ranked,
        is_normalised,
        block,
        2048 // block,
        num_warps=8,
    )
    return maxima, log_sums


def slots_for(count: int) -> int | None:
    """The room that so many candidates take; None if they are too many."""
    return None if count > MOST_SLOTS else max(FEWEST_SLOTS, triton.next_power_of_2(count))


def best(
    logits: Tensor,
    log_probs: Tensor,
    count: int,
    is_forbidden: Tensor | None,
    block: int,
    *,
    is_normalised: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The best candidates, at most `MOST_SLOTS` of them."""
    sources, beams, vocabulary = logits.shape
    log_probs = log_probs.contiguous()
    rows = logits.view(-1, vocabulary)
    ranks, log_sums = _summarised(
        rows, log_probs, is_forbidden, block, is_ranked=True, is_normalised=is_normalised
    )
    blocks = ranks.shape[1]
    found = min(count, beams * vocabulary)
    slots = slots_for(count)
    assert slots is not None
    chosen_blocks, token_ranks, chosen_tokens = (
        torch.empty(sources, size, dtype=torch.int32, device=logits.device)
        for size in (slots, slots * block, slots)
    )
    best_log_probs = rows.new_empty(sources, found)
    flat = torch.empty(sources, found, dtype=torch.int64, device=logits.device)
    is_broken = torch.empty(sources, dtype=torch.bool, device=logits.device)
    _find_best[(sources,)](
        ranks.view(torch.uint32),
        log_sums,
        log_probs,
        logits,
        logits if is_forbidden is None else is_forbidden,
        chosen_blocks,
        token_ranks.view(torch.uint32),
        chosen_tokens,
        best_log_probs,
        flat,
        is_broken,
        blocks,
        beams,
        vocabulary,
        min(count, beams * blocks),
        found,
        is_forbidden is not None,
        is_normalised,
        block,
        PLACES_AT_ONCE,
        slots,
        triton.next_power_of_2(beams),
        num_warps=8,
    )
    return best_log_probs, flat, is_broken


def parted(
    log_probs: Tensor,
    flat: Tensor,
    finished: Tensor,
    allowed: Tensor,
    ends: Tensor,
    width: int,
    vocabulary: int,
) -> tuple[Tensor, ...]:
    """The candidates parted, of which there are at most `MOST_SLOTS` a source."""
    given = [tensor.contiguous() for tensor in (log_probs, flat, finished, allowed, ends)]
    sources, count = flat.shape
    slots = slots_for(count)
    assert slots is not None
    width = min(width, count)
    into = (
        torch.empty_like(given[0]),
        torch.empty_like(given[2]),
        *(flat.new_empty(sources, width) for _ in range(3)),
        log_probs.new_empty(sources, width),
    )
    _part[(sources,)](
        *given,
        *into,
        count,
        width,
        vocabulary,
        len(ends),
        slots,
        num_warps=2,
    )
    return into
