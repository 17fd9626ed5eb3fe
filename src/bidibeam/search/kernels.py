"""Kernels for a search, where a device has some of its own."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType

import torch

from bidibeam.compiling import is_on
from bidibeam.gpu import kernels_on


def kernels_of(device: torch.device) -> ModuleType | None:
    """`bidibeam.search.fused` where a GPU runs it, and `picking` on one thread of a CPU.

    None elsewhere, and torch's own kernels serve.
    """
    if device.type != "cpu":
        return _of_gpu(device)
    if torch.get_num_threads() != 1 or not is_on():
        return None
    from bidibeam.search import picking

    return picking


@lru_cache
def _of_gpu(device: torch.device) -> ModuleType | None:
    """A GPU's own, if it runs them."""

    def load() -> ModuleType:
        from bidibeam.search import fused

        return fused

    def trial(fused: ModuleType) -> None:
        logits = torch.zeros(1, 1, 3, device=device)
        zeros = torch.zeros(1, dtype=torch.long, device=device)
        log_probs, flat, _ = fused.best(logits, logits[:, :, 0], 2, None, 64, is_normalised=False)
        fused.parted(log_probs, flat, zeros, zeros + 1, zeros, 1, 3)

    return kernels_on(device, load, trial)
