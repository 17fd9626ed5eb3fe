"""The candidates of a step parted: which of them end a hypothesis, and which go on with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from bidibeam.search.kernels import kernels_of

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.search.candidates import Candidates


class Parted(NamedTuple):
    """Candidates of a step, those that ended and those that go on.

    Attributes:
        ended_log_probs: (sources, candidates), -inf for those that did not end here.
        finished: (sources,), how many have ended so far.
        live: (sources, width), those that go on, best first, as parent * vocabulary + token.
        parents: (sources, width)
        tokens: (sources, width)
        log_probs: (sources, width), -inf in slots for which there is none.
    """

    ended_log_probs: Tensor
    finished: Tensor
    live: Tensor
    parents: Tensor
    tokens: Tensor
    log_probs: Tensor


def parted(
    candidates: Candidates, finished: Tensor, allowed: Tensor, ends: Tensor, width: int, vocabulary: int
) -> Parted:
    """Part the candidates of a step.

    Args:
        candidates: The candidates.
        finished: (sources,), how many have ended before.
        allowed: (sources,), how many ranks from the first may end. A candidate past them that would end is
            there only for another to take its place.
        ends: The end tokens, (tokens,).
        width: How many may go on.
        vocabulary: How many tokens there are.
    """
    log_probs, flat = candidates.log_probs, candidates.flat
    kernels = kernels_of(flat.device)
    if kernels is not None and kernels.slots_for(flat.shape[1]):
        return Parted(*kernels.parted(log_probs, flat, finished, allowed, ends, width, vocabulary))
    return parted_apart(candidates, finished, allowed, ends, width, vocabulary)


def parted_apart(
    candidates: Candidates, finished: Tensor, allowed: Tensor, ends: Tensor, width: int, vocabulary: int
) -> Parted:
    """The same in torch's own kernels."""
    log_probs, flat = candidates.log_probs, candidates.flat  # (sources, candidates)
    parents = flat // vocabulary  # (sources, candidates)
    tokens = flat - parents * vocabulary  # (sources, candidates)
    is_end = (tokens.unsqueeze(-1) == ends).any(-1) if len(ends) > 1 else tokens == ends
    ranks = torch.arange(flat.shape[1], device=flat.device)  # (candidates,)
    ended = log_probs.where(is_end & (ranks < allowed.unsqueeze(1)), -torch.inf)  # (sources, candidates)
    order = is_end.sort(dim=1, stable=True).indices[:, :width]  # (sources, width), those that go on first
    return Parted(
        ended_log_probs=ended,
        finished=finished + (ended > -torch.inf).sum(1),
        live=flat.gather(1, order),
        parents=parents.gather(1, order),
        tokens=tokens.gather(1, order),
        log_probs=log_probs.gather(1, order).masked_fill(is_end.gather(1, order), -torch.inf),
    )
