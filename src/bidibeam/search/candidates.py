"""The best continuations of a beam, exactly, without the log-softmax of the whole vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Collection

BLOCK = 64
"""Tokens in a block. The vocabulary is read once, for a maximum per block; then only the best count."""

CPU_CHUNK = 1 << 18
"""Logits worked on at once on a CPU: they and as many more stay in a cache. Twice as many cost 10 % more."""

DEVICE_CHUNK = 1 << 28
"""Logits worked on at once elsewhere: a bound on the memory needed."""

PLACES = 1 << 32
"""How many places a key can tell apart."""

_LOWEST = torch.finfo(torch.float32).min
_MAGNITUDE = (1 << 31) - 1  # all bits of a float but the sign


class Candidates(NamedTuple):
    """Continuations of each source's beam, best first; equal ones by beam, then by token."""

    log_probs: Tensor  # (sources, candidates), of prefix and token; -inf past the last possible one
    flat: Tensor  # (sources, candidates), beam * vocabulary + token; of no meaning past the last possible one
    is_broken: Tensor  # (sources,), whether the logits hold NaN or infinity


class Forbidden(NamedTuple):
    """Tokens that may not be written; their probability is not shared out among the others."""

    is_forbidden: Tensor  # (padded vocabulary,), filled up to whole blocks, the padding forbidden
    columns: Tensor  # (blocks, 64), the columns of all blocks in which a token may be forbidden


def round_up(number: int, multiple: int) -> int:
    """Returns the least multiple that is not below a number."""
    return -(-number // multiple) * multiple


def forbid(tokens: Collection[int], vocabulary: int, device: torch.device) -> Forbidden:
    """Returns the tokens with these ids as `best_candidates` takes them."""
    ids = torch.tensor(sorted(set(tokens)), dtype=torch.long, device=device)  # (tokens,)
    blocks = torch.tensor(sorted({token // BLOCK for token in tokens}), dtype=torch.long, device=device)
    is_forbidden = torch.arange(round_up(vocabulary, BLOCK), device=device) >= vocabulary
    is_forbidden[ids] = True  # (padded vocabulary,)
    return Forbidden(is_forbidden, blocks[:, None] * BLOCK + torch.arange(BLOCK, device=device))


def best_candidates(
    logits: Tensor, log_probs: Tensor, count: int, forbidden: Forbidden, *, is_normalised: bool = False
) -> Candidates:
    """Returns the `count` best continuations of each source's beam, or all of them if there are fewer.

    Cost: three passes over the logits, in cache on a CPU, and a sort of `count` blocks.

    Why it is exact. A continuation's log-probability is fl(fl(logit - log_sum_exp) + log_prob), and rounding
    keeps order, so within a row it never falls as the logit rises: a block's best logit gives the block's
    best log-probability. Suppose a token is among the `count` best but its block is not among the `count`
    best blocks, which are ordered by best log-probability, then beam, then position. Then `count` blocks come
    before its own, and each holds a token that is better, or as good and earlier in (beam, token) order: as
    good only if it comes from a block of an earlier beam or position, all of whose tokens are earlier. These
    are `count` other tokens before it: a contradiction.

    Args:
        logits: (sources, beams, vocabulary), float32, contiguous; left as they are.
        log_probs: (sources, beams), of the prefixes, float32; -inf in empty slots.
        count: How many to find.
        forbidden: Tokens to leave out.
        is_normalised: Whether the logits are log-probabilities already, to be taken as they are. A scorer may
            have raised some of them above 0.
    """
    sources, beams, vocabulary = logits.shape
    rows = logits.view(-1, vocabulary)  # (rows, vocabulary)
    maxima, log_sums = summarise_rows(rows)  # (rows, blocks), (rows,)
    log_sums = log_sums.view(sources, beams)
    is_broken = log_sums.isnan().any(1)  # (sources,)
    if is_normalised:
        log_sums = torch.zeros_like(log_sums)
    if len(forbidden.columns):
        touched = rows[:, forbidden.columns.clamp(max=vocabulary - 1)]  # (rows, touched, 64)
        touched = touched.masked_fill(forbidden.is_forbidden[forbidden.columns], -torch.inf)
        maxima.index_copy_(1, forbidden.columns[:, 0] // BLOCK, touched.amax(-1))

    per_beam = maxima.shape[1]
    best = maxima.view(sources, beams, -1) - log_sums.unsqueeze(-1)  # (sources, beams, blocks)
    best = best.add_(log_probs.unsqueeze(-1)).flatten(1)  # (sources, beams * blocks)
    keys = pack_keys(best, torch.arange(best.shape[1], device=best.device))
    blocks = unpack_places(keys.topk(min(count, best.shape[1]), largest=False, sorted=False).values)

    beam = blocks // per_beam  # (sources, chosen)
    token = ((blocks - beam * per_beam) * BLOCK).unsqueeze(-1) + torch.arange(BLOCK, device=logits.device)
    is_forbidden = forbidden.is_forbidden[token]  # (sources, chosen, 64)
    flat = beam.unsqueeze(-1) * vocabulary + token.clamp_(max=vocabulary - 1)  # (sources, chosen, 64)
    base = torch.arange(0, logits.numel(), beams * vocabulary, device=logits.device)  # (sources,)
    chosen = torch.take(logits, flat + base[:, None, None])  # (sources, chosen, 64)
    chosen -= log_sums.gather(1, beam).unsqueeze(-1)
    chosen += log_probs.gather(1, beam).unsqueeze(-1)
    chosen.masked_fill_(is_forbidden, -torch.inf)
    keys = pack_keys(chosen, flat).view(sources, -1)  # (sources, chosen * 64)
    keys = keys.topk(min(count, beams * vocabulary), largest=False).values  # (sources, candidates)
    return Candidates(unpack_log_probs(keys), unpack_places(keys), is_broken)


def summarise_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns each row's block maxima, (rows, blocks), and log-sum-exp, (rows,), one chunk at a time.

    The log-sum-exp is finite even if all logits are -inf, and does not depend on the other rows, to the last
    bit.
    """
    count, vocabulary = rows.shape
    whole = vocabulary // BLOCK  # blocks, the last and partial one aside
    blocks = -(-vocabulary // BLOCK)
    maxima = rows.new_empty(count, blocks)
    sums = rows.new_empty(count, blocks)
    tops = rows.new_empty(count, 1)
    chunk = max(1, (CPU_CHUNK if rows.device.type == "cpu" else DEVICE_CHUNK) // vocabulary)
    scratch = rows.new_empty(min(chunk, count), blocks * BLOCK)
    scratch[:, vocabulary:] = 0.0  # the padding stays 0
    for first in range(0, count, chunk):
        here = slice(first, min(first + chunk, count))
        part, best = rows[here], maxima[here]  # (chunk, vocabulary), (chunk, blocks)
        whole_blocks = part[:, : whole * BLOCK].view(len(part), whole, BLOCK)
        torch.amax(whole_blocks, -1, out=best[:, :whole])
        if whole < blocks:
            best[:, whole] = part[:, whole * BLOCK :].amax(-1)
        # The clamp keeps a row of -inf from becoming NaN.
        top = torch.amax(best, 1, keepdim=True, out=tops[here]).clamp_(min=_LOWEST)  # (chunk, 1)
        exponentials = scratch[: len(part)]  # (chunk, padded vocabulary)
        torch.sub(part, top, out=exponentials[:, :vocabulary]).exp_()
        torch.sum(exponentials.view(-1, blocks, BLOCK), -1, out=sums[here])
    # Summed block by block: torch splits one long row among threads, but not many short ones, and then a
    # row's sum would depend on how many rows there are. The largest term is 1, unless there is none.
    total = sums.sum(1).clamp_(min=1.0)  # (rows,)
    return maxima, tops.squeeze(1).add_(total.log_())


# `torch.topk` and `torch.sort` order equal values as they please, differently on CPU and GPU. So a score and
# its place become one integer, and distinct integers leave them no choice. The bits of a float that is not
# negative order as the float does, and those of a negative one the other way round, so there all but the
# sign are flipped. A score's opposite, its cost, is the high half of a key and its place the low half: the
# smallest key belongs to the highest score, and of equal ones to that which comes first.


def pack_keys(log_probs: Tensor, places: Tensor) -> Tensor:
    """Returns int64 keys that rise as log-probabilities (float32) fall; equal ones by place."""
    costs = 0.0 - log_probs  # not a negation: that would make 0.0 a -0.0, whose sign bit counts
    return _flip_negative(costs.view(torch.int32)).long().bitwise_left_shift_(32).bitwise_or_(places)


def unpack_log_probs(keys: Tensor) -> Tensor:
    """Returns the log-probabilities in keys, in the same shape."""
    return 0.0 - _flip_negative((keys >> 32).int()).view(torch.float32)


def unpack_places(keys: Tensor) -> Tensor:
    """Returns the places in keys, in the same shape."""
    return keys & (PLACES - 1)


def _flip_negative(bits: Tensor) -> Tensor:
    """Returns the bits of floats as integers of the same order, and back: int32."""
    return (bits >> 31).bitwise_and_(_MAGNITUDE).bitwise_xor_(bits)
