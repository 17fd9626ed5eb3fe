"""Kernels for a search, where a device has some of its own."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

import torch

from bidibeam.compiling import is_on
from bidibeam.gpu import kernels_on

if TYPE_CHECKING:
    from torch import Tensor


class Kernels(Protocol):
    """What a module of kernels has. What it finds is what torch's own find, but for the last bits of sums.

    Attributes:
        MOST_PLACES: Up to so many places a source may have.
    """

    MOST_PLACES: int

    def slots_for(self, count: int) -> int | None:
        """The room that so many candidates take; None if they are too many."""
        ...

    def summarised(self, rows: Tensor, block: int) -> tuple[Tensor, Tensor]:
        """Block maxima, (rows, blocks), and log-sum-exps, (rows,), of (rows, vocabulary), float32.

        A row of -inf has the lowest finite sum, and one that is not all numbers NaN. What is said of a row
        does not depend on the other rows.
        """
        ...

    def best(
        self,
        logits: Tensor,
        log_probs: Tensor,
        count: int,
        is_forbidden: Tensor | None,
        block: int,
        *,
        is_normalised: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What `bidibeam.search.candidates.best_candidates` finds.

        Args:
            logits: (sources, beams, vocabulary), float32, contiguous.
            log_probs: (sources, beams), float32.
            count: How many to find, at least 1.
            is_forbidden: (blocks * block,), boolean, or None if no token is.
            block: Tokens in a block: `bidibeam.search.candidates.BLOCK`.
            is_normalised: Whether the logits are log-probabilities already.

        Returns:
            Log-probabilities and places, (sources, candidates), best first, and which sources have something
            other than numbers, (sources,).
        """
        ...

    def parted(
        self,
        log_probs: Tensor,
        flat: Tensor,
        finished: Tensor,
        allowed: Tensor,
        ends: Tensor,
        width: int,
        vocabulary: int,
    ) -> tuple[Tensor, ...]:
        """What `bidibeam.search.parting.parted` returns.

        Args:
            log_probs: (sources, candidates), best first.
            flat: (sources, candidates), as beam * vocabulary + token.
            finished: (sources,), how many have ended before.
            allowed: (sources,), the rank up to which a candidate may end.
            ends: The end tokens, (tokens,).
            width: How many may go on.
            vocabulary: How many tokens there are.
        """
        ...


def kernels_of(device: torch.device) -> Kernels | None:
    """`bidibeam.search.fused` where a GPU runs it, and `picking` on one thread of a CPU.

    None elsewhere, and torch's own kernels serve.
    """
    if device.type != "cpu":
        return _of_gpu(device)
    return _of_cpu() if torch.get_num_threads() == 1 and is_on() else None


@lru_cache
def _of_cpu() -> Kernels:
    """`picking`, imported once: that alone takes as long as a small step's choice."""
    from bidibeam.search import picking

    return picking


@lru_cache
def _of_gpu(device: torch.device) -> Kernels | None:
    """A GPU's own, if it runs them."""

    def load() -> ModuleType:
        from bidibeam.search import fused

        return fused

    def trial(fused: ModuleType) -> None:
        logits = torch.zeros(1, 1, 3, device=device)
        zeros = torch.zeros(1, dtype=torch.long, device=device)
        log_probs, flat, _ = fused.best(logits, logits[:, :, 0], 2, None, 64, is_normalised=False)
        fused.parted(log_probs, flat, zeros, zeros + 1, zeros, 1, 3)

    return cast("Kernels | None", kernels_on(device, load, trial))
