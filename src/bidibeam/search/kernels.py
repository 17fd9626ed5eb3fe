"""A GPU's own kernels for a search, where it has them."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType

import torch

from bidibeam.gpu import kernels_on


@lru_cache
def kernels_of(device: torch.device) -> ModuleType | None:
    """`bidibeam.search.fused`, where a GPU runs it; None elsewhere, and torch's own kernels serve."""

    def load() -> ModuleType:
        from bidibeam.search import fused

        return fused

    def trial(fused: ModuleType) -> None:
        logits = torch.zeros(1, 1, 3, device=device)
        zeros = torch.zeros(1, dtype=torch.long, device=device)
        log_probs, flat, _ = fused.best(logits, logits[:, :, 0], 2, None, 64, is_normalised=False)
        fused.parted(log_probs, flat, zeros, zeros + 1, zeros, 1, 3)

    return kernels_on(device, load, trial)
