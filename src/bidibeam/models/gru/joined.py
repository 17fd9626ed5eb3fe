"""A GPU's step of one decoder, or of two side by side: what can be done for both at once is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bidibeam.gpu import kernels_on
from bidibeam.models.gru.recurrence import attend

if TYPE_CHECKING:
    from bidibeam.models.gru.decoder import Decoders


class Joined:
    """Decoders of one direction each, of which each has some of the sources.

    The interpreter costs as much for a step of few hypotheses as for one of many. So all but the products,
    whose weights differ, is done once for all decoders. Dropout there is none.

    Args:
        decoders: One or two, of the same widths, in evaluation mode.
        kernels: `bidibeam.models.gru.fused`.
    """

    def __init__(self, decoders: Sequence[Decoders], kernels: ModuleType) -> None:
        self._decoders, self._kernels = decoders, kernels
        self._v = torch.cat([decoder.v.detach()[0] for decoder in decoders], dim=1).t().contiguous()  # (D, A)

    @torch.no_grad()
    def step(
        self,
        counts: Sequence[int],
        words: Tensor,
        state: Tensor,
        keys: Tensor,
        memory: Tensor,
        mask: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """One step of K hypotheses a source.

        Args:
            counts: How many of the sources are each decoder's.
            words: (B * K, E)
            state: (B * K, H)
            keys: (B, S, A)
            memory: (B, S, M)
            mask: (B, 1, S)

        Returns:
            The readout, (B * K, R), and the new state.
        """
        first = self._decoders[0]
        from_state = self._product("state", counts, state)  # (B * K, A + 3H)
        query, own_gates = from_state[:, : first.attention_size], from_state[:, first.attention_size :]
        weights = self._weights(counts, query, keys, mask)  # (B, K, S)
        context = torch.bmm(weights, memory).flatten(0, 1)  # (B * K, M)
        gates = self._product("word", counts, words)  # (B * K, 3H)
        for decoder, here in self._parts(counts, len(words)):
            gates[here].addmm_(context[here], decoder.w_context[0])
        new = self._kernels.updated(gates, own_gates, state)  # (B * K, H)
        read = torch.cat((new, context, words), dim=1)
        return self._product("readout", counts, read).tanh_(), new

    def _product(self, name: str, counts: Sequence[int], rows: Tensor) -> Tensor:
        """Each decoder's own of its rows, with its bias."""
        parts = [
            (getattr(decoder, f"b_{name}")[0, 0], rows[here], getattr(decoder, f"w_{name}")[0], here)
            for decoder, here in self._parts(counts, len(rows))
        ]
        if len(parts) == 1:
            return torch.addmm(*parts[0][:3])
        found = rows.new_empty(len(rows), parts[0][0].shape[0])
        for bias, own, weight, here in parts:
            torch.addmm(bias, own, weight, out=found[here])
        return found

    def _weights(self, counts: Sequence[int], query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        sources, positions, size = keys.shape
        if positions <= self._kernels.MOST_POSITIONS:
            weights: Tensor = self._kernels.attention_weights(query, keys, self._v, mask, counts[0])
            return weights
        by_beam = query.reshape(sources, -1, size)  # (B, K, A)
        found = [
            attend(by_beam[None, here], keys[None, here], decoder.v, mask[here])[0][0]
            for decoder, here in self._parts(counts, sources)
        ]
        return torch.cat(found)

    def _parts(self, counts: Sequence[int], lines: int) -> list[tuple[Decoders, slice]]:
        """Each decoder that has something, and where that is, among as many lines a source."""
        each = lines // sum(counts)
        parts, first = [], 0
        for decoder, count in zip(self._decoders, counts, strict=True):
            last = first + count * each
            if last > first:
                parts.append((decoder, slice(first, last)))
            first = last
        return parts


@lru_cache
def kernels_of(device: torch.device) -> ModuleType | None:
    """`bidibeam.models.gru.fused`, where a GPU runs it; None elsewhere."""

    def load() -> ModuleType:
        from bidibeam.models.gru import fused

        return fused

    def trial(fused: ModuleType) -> None:
        ones = torch.ones(1, 1, 1, device=device)
        fused.attention_weights(ones[0], ones, ones[0], ones, 1)
        fused.updated(ones[0].expand(1, 3).contiguous(), ones[0].expand(1, 3).contiguous(), ones[0])

    return kernels_on(device, load, trial)
