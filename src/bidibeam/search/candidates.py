"""The best continuations of a beam, exactly, without the log-softmax of the whole vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from bidibeam.search.kernels import kernels_of
from bidibeam.search.keys import keys, log_probs_of, places_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from bidibeam.search.kernels import Kernels

BLOCK = 64
"""Tokens in a block. The vocabulary is read once, for a maximum a block; then only the best blocks count."""

CPU_CHUNK = 1 << 18
"""Logits worked on at once on a CPU: they and as many more stay in a cache. Twice as many cost 10 % more."""

DEVICE_CHUNK = 1 << 28
"""Logits worked on at once elsewhere: a bound on the memory needed."""

_LOWEST = torch.finfo(torch.float32).min


@dataclass(frozen=True, slots=True)
class Candidates:
    """Continuations of each source's beam, best first; equal ones by beam, then by token.

    Attributes:
        log_probs: (sources, candidates), of prefix and token together; -inf past the last possible one.
        flat: (sources, candidates), beam * vocabulary + token; of no meaning past the last possible one.
        is_broken: (sources,), whether the model answered with something other than numbers.
    """

    log_probs: Tensor
    flat: Tensor
    is_broken: Tensor


class Forbidden:
    """Tokens that may not be written; their probability is not shared out among the others.

    Args:
        tokens: The ids.
        vocabulary: How many ids there are.
        device: Where the logits are.
    """

    def __init__(self, tokens: Iterable[int], *, vocabulary: int, device: torch.device) -> None:
        ids = sorted(set(tokens))
        blocks = sorted({token // BLOCK for token in ids})
        padded = _block_count(vocabulary) * BLOCK
        is_forbidden = torch.zeros(padded, dtype=torch.bool)  # (padded vocabulary,)
        is_forbidden[ids] = True
        is_forbidden[vocabulary:] = True
        columns = torch.tensor(blocks, dtype=torch.long)[:, None] * BLOCK + torch.arange(
            BLOCK
        )  # (blocks, 64)
        self.is_forbidden = is_forbidden.to(device)
        self.blocks = torch.tensor(blocks, dtype=torch.long).to(
            device
        )  # (blocks,), those with a forbidden token
        self.columns = columns.clamp(max=vocabulary - 1).to(device)
        self.is_forbidden_column = is_forbidden[columns].to(device)  # (blocks, 64)
        self.is_empty = not ids


def best_candidates(
    logits: Tensor, log_probs: Tensor, count: int, forbidden: Forbidden, *, is_normalised: bool = False
) -> Candidates:
    """The `count` best continuations of each source's beam, or all of them if there are fewer.

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
        is_normalised: Whether the logits are log-probabilities already, to be taken as they are. Somebody may
            have raised some of them above 0.
    """
    sources, beams, vocabulary = logits.shape
    kernels = kernels_of(logits.device)
    if kernels is not None and _fits(kernels, count, beams * vocabulary):
        is_forbidden = None if forbidden.is_empty else forbidden.is_forbidden
        found = kernels.best(logits, log_probs, count, is_forbidden, BLOCK, is_normalised=is_normalised)
        return Candidates(*found)
    rows = logits.view(-1, vocabulary)  # (rows, vocabulary)
    maxima, log_sums = _summarise(rows)  # (rows, blocks), (rows,)
    is_broken = log_sums.view(sources, beams).isnan().any(1)  # (sources,)
    if is_normalised:
        log_sums = torch.zeros_like(log_sums)
    if not forbidden.is_empty:
        allowed = rows[:, forbidden.columns].masked_fill(
            forbidden.is_forbidden_column, -torch.inf
        )  # (rows, touched, 64)
        maxima[:, forbidden.blocks] = allowed.amax(-1)
    log_sums = log_sums.view(sources, beams)

    blocks = _best_blocks(  # (sources, chosen)
        maxima.view(sources, beams, -1), log_sums, log_probs, count, is_signed=is_normalised
    )
    per_beam = maxima.shape[1]
    beam = blocks // per_beam  # (sources, chosen)
    token = ((blocks - beam * per_beam) * BLOCK).unsqueeze(-1) + torch.arange(BLOCK, device=logits.device)
    is_forbidden = forbidden.is_forbidden[token]  # (sources, chosen, 64)
    flat = beam.unsqueeze(-1) * vocabulary + token.clamp_(max=vocabulary - 1)  # (sources, chosen, 64)
    base = torch.arange(0, logits.numel(), beams * vocabulary, device=logits.device)  # (sources,)
    chosen = torch.take(logits, flat + base[:, None, None])  # (sources, chosen, 64)
    chosen -= log_sums.gather(1, beam).unsqueeze(-1)
    chosen += log_probs.gather(1, beam).unsqueeze(-1)
    chosen.masked_fill_(is_forbidden, -torch.inf)

    ranked = keys(chosen, flat, is_signed=is_normalised).view(sources, -1)  # (sources, chosen * 64)
    ranked = ranked.topk(min(count, beams * vocabulary), largest=False).values  # (sources, candidates)
    return Candidates(log_probs_of(ranked, is_signed=is_normalised), places_of(ranked), is_broken)


def _fits(kernels: Kernels, count: int, places: int) -> bool:
    """Whether kernels find so many candidates of so many places."""
    return kernels.slots_for(count) is not None and places <= kernels.MOST_PLACES


def log_sum_exps(logits: Tensor) -> Tensor:
    """The log-sum-exp of each row of (rows, vocabulary): (rows,). Finite even if all logits are -inf.

    A row's result does not depend on the other rows, to the last bit.
    """
    return _summarise(logits)[1]


def _summarise(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Each row's block maxima, (rows, blocks), and log-sum-exp, (rows,)."""
    kernels = kernels_of(rows.device)
    if kernels is None:
        return _summarise_apart(rows)
    return kernels.summarised(rows, BLOCK)


def _summarise_apart(rows: Tensor) -> tuple[Tensor, Tensor]:
    """What `_summarise` does in torch's own kernels: one chunk of rows at a time."""
    count, vocabulary = rows.shape
    whole = vocabulary // BLOCK  # blocks, the last and partial one aside
    blocks = _block_count(vocabulary)
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
    log_sums = tops.squeeze(1).add_(total.log_())  # (rows,)
    return maxima, log_sums


def _best_blocks(
    maxima: Tensor, log_sums: Tensor, log_probs: Tensor, count: int, *, is_signed: bool
) -> Tensor:
    """Those that hold the `count` best tokens of each source, as beam * blocks + block: (sources, chosen)."""
    best = maxima - log_sums.unsqueeze(-1)  # (sources, beams, blocks)
    best = best.add_(log_probs.unsqueeze(-1)).flatten(1)  # (sources, beams * blocks)
    places = torch.arange(best.shape[1], device=best.device)  # (beams * blocks,)
    ranked = keys(best, places, is_signed=is_signed)  # (sources, beams * blocks)
    chosen = ranked.topk(min(count, best.shape[1]), largest=False, sorted=False).values
    return places_of(chosen)  # (sources, chosen)


def _block_count(vocabulary: int) -> int:
    return -(-vocabulary // BLOCK)
