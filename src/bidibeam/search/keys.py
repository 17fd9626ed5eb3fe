"""Floats and their places in one integer, so that a sort leaves nothing to chance.

`torch.topk` and `torch.sort` order equal values as they please, differently on CPU and GPU. Distinct integers
leave them no choice: the high 32 bits hold an image of the float that orders as floats do, the low 32 bits
the place, inverted, so that of two equal floats the one that comes first has the larger key.
"""

from __future__ import annotations

import torch
from torch import Tensor

PLACES = 1 << 32
"""How many places a key can tell apart."""


def keys(values: Tensor, places: Tensor) -> Tensor:
    """Distinct int64 keys that order as `values` do, equal values by place, first place highest.

    Args:
        values: float32; both zeros count as the same, NaN has no defined rank.
        places: int64, from 0 up to `PLACES`, distinct where keys are to be; broadcast with `values`.
    """
    bits = (values + 0.0).view(torch.int32)  # the sum turns -0.0 into 0.0
    return (_image(bits).long() << 32) + (PLACES - 1 - places)


def values_of(ranked: Tensor) -> Tensor:
    """The floats in keys, in the same shape."""
    return _image((ranked >> 32).int()).view(torch.float32)


def places_of(ranked: Tensor) -> Tensor:
    """The places in keys, in the same shape."""
    return (PLACES - 1) - (ranked & (PLACES - 1))


def _image(bits: Tensor) -> Tensor:
    """Bits of a float32 to an int32 that orders as the float does, or back: the two are the same step.

    Negative floats grow in magnitude with their bits, so all bits but the sign are turned over.
    """
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)
