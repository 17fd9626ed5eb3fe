"""Log-probabilities and their places in one integer, so that a sort leaves nothing to chance.

`torch.topk` and `torch.sort` order equal values as they please, differently on CPU and GPU. Distinct integers
leave them no choice. A log-probability is never positive, and the bits of its opposite, a float that is never
negative, order as the float does; they are the high half of a key. The place is the low half. So the smallest
key belongs to the highest log-probability, and of equal ones to that which comes first.
"""

from __future__ import annotations

import torch
from torch import Tensor

PLACES = 1 << 32
"""How many places a key can tell apart."""


def keys(log_probs: Tensor, places: Tensor) -> Tensor:
    """Int64 keys that rise as log-probabilities fall, equal ones in the order of their places.

    Args:
        log_probs: float32, at most 0; -inf has the largest keys. NaN has no defined rank.
        places: int64, from 0 up to `PLACES`; broadcast with `log_probs`.
    """
    costs = 0.0 - log_probs  # not a negation: that would make 0.0 a -0.0, whose sign bit counts
    return costs.view(torch.int32).long().bitwise_left_shift_(32).bitwise_or_(places)


def log_probs_of(ranked: Tensor) -> Tensor:
    """The log-probabilities in keys, in the same shape."""
    return 0.0 - (ranked >> 32).int().view(torch.float32)


def places_of(ranked: Tensor) -> Tensor:
    """The places in keys, in the same shape."""
    return ranked & (PLACES - 1)
