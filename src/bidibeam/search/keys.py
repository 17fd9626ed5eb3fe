"""Scores and their places in one integer, so that a sort leaves nothing to chance.

`torch.topk` and `torch.sort` order equal values as they please, differently on CPU and GPU. Distinct integers
leave them no choice. The bits of a float that is not negative order as the float does, so those of a
log-probability's opposite, its cost, are the high half of a key. The place is the low half. So the smallest
key belongs to the highest log-probability, and of equal ones to that which comes first. Below 0 the bits of
floats order the other way round: there all but the sign are flipped, where scores may be positive.
"""

from __future__ import annotations

import torch
from torch import Tensor

PLACES = 1 << 32
"""How many places a key can tell apart."""

_MAGNITUDE = (1 << 31) - 1
"""All bits of a float but the sign."""


def keys(log_probs: Tensor, places: Tensor, *, is_signed: bool = False) -> Tensor:
    """Int64 keys that rise as log-probabilities fall, equal ones in the order of their places.

    Args:
        log_probs: float32; -inf has the largest keys. NaN has no defined rank.
        places: int64, from 0 up to `PLACES`; broadcast with `log_probs`.
        is_signed: Whether some may be above 0, as no log-probability is, but a score may be that somebody
            has raised. The keys of the others are the same either way.
    """
    costs = 0.0 - log_probs  # not a negation: that would make 0.0 a -0.0, whose sign bit counts
    bits = costs.view(torch.int32)
    if is_signed:
        bits = _flipped(bits)
    return bits.long().bitwise_left_shift_(32).bitwise_or_(places)


def log_probs_of(ranked: Tensor, *, is_signed: bool = False) -> Tensor:
    """The log-probabilities in keys, in the same shape."""
    bits = (ranked >> 32).int()
    return 0.0 - (_flipped(bits) if is_signed else bits).view(torch.float32)


def places_of(ranked: Tensor) -> Tensor:
    """The places in keys, in the same shape."""
    return ranked & (PLACES - 1)


def _flipped(bits: Tensor) -> Tensor:
    """The bits of floats as integers of the same order, and back: int32."""
    return (bits >> 31).bitwise_and_(_MAGNITUDE).bitwise_xor_(bits)
