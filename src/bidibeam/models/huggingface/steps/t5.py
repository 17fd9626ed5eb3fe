"""T5's decoder: norms without a mean, no biases in products, and a bias for how far back a key is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bidibeam.models.huggingface.steps.now import Activation, Now, RootNorm, activation_of, memory_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bidibeam.models.huggingface.attention import KeyValues
    from bidibeam.models.huggingface.steps.layout import Layout, Product

FIRST_STEPS = 64
"""Distances whose bias is known at first; then twice as many, and so on."""


@dataclass(frozen=True)
class Layer:
    """One layer: attention to what was written, to the source, and a feed-forward part, perhaps gated."""

    number: int
    heads: int
    size: int
    own_norm: RootNorm
    mix: Product
    out: Product
    cross_norm: RootNorm
    ask: Product
    cross_out: Product
    last_norm: RootNorm
    widen: Product
    activation: Activation
    is_gated: bool
    narrow: Product
    cross: Any

    @staticmethod
    def of(number: int, block: Any, layout: Layout) -> Layer:
        """That of a module."""
        own, cross, last = block.layer
        dense = last.DenseReluDense
        is_gated = hasattr(dense, "wi_0")
        widen = (dense.wi_0, dense.wi_1) if is_gated else (dense.wi,)
        activation = activation_of(dense.act)
        if activation is None or own.SelfAttention.scaling != 1.0 or cross.EncDecAttention.scaling != 1.0:
            raise AttributeError("a layer of another kind")
        mixed, asked = own.SelfAttention, cross.EncDecAttention
        return Layer(
            number=number,
            heads=mixed.n_heads,
            size=mixed.key_value_proj_dim,
            own_norm=RootNorm.of(own.layer_norm),
            mix=layout.product(f"{number}.mix", mixed.q, mixed.k, mixed.v),
            out=layout.product(f"{number}.out", mixed.o),
            cross_norm=RootNorm.of(cross.layer_norm),
            ask=layout.product(f"{number}.ask", asked.q),
            cross_out=layout.product(f"{number}.cross_out", asked.o),
            last_norm=RootNorm.of(last.layer_norm),
            widen=layout.product(f"{number}.widen", *widen),
            activation=activation,
            is_gated=is_gated,
            narrow=layout.product(f"{number}.narrow", dense.wo),
            cross=asked,
        )

    def __call__(self, rows: Tensor, now: Now, bias: Tensor) -> Tensor:
        """(rows, size) to the same shape."""
        mixed = self.mix(self.own_norm(rows))
        rows = self.out(now.attend_own(self.number, mixed, self.heads, self.size, 1.0, bias), rows)
        asked = self.ask(self.cross_norm(rows))
        rows = self.cross_out(now.attend_cross(self.number, asked, self.heads, 1.0), rows)
        wide = self.widen(self.last_norm(rows))
        if self.is_gated:
            gate, value = wide.chunk(2, dim=1)
            wide = self.activation(gate) * value
        else:
            wide = self.activation(wide)
        return self.narrow(wide, rows)


class Biases:
    """What is added to products, by how far back the key is.

    Args:
        attention: The layer that knows.
    """

    def __init__(self, attention: Any) -> None:
        self._attention = attention
        self._known = self._of(FIRST_STEPS)

    def __call__(self, steps: int) -> Tensor:
        """Those of the latest of so many steps: (heads, steps)."""
        while self._known.shape[1] < steps:
            self._known = self._of(2 * self._known.shape[1])
        return self._known[:, self._known.shape[1] - steps :]

    def _of(self, steps: int) -> Tensor:
        found: Tensor = self._attention.compute_bias(1, steps, past_seen_tokens=steps - 1)
        return found[0, :, 0].contiguous()  # it comes with the heads last


@dataclass(frozen=True)
class Step:
    """A whole decoder."""

    embeddings: Tensor
    biases: Biases
    layers: tuple[Layer, ...]
    last_norm: RootNorm

    def __call__(self, tokens: Tensor, now: Now) -> Tensor:
        """What the decoder says of (rows,) tokens: (rows, size)."""
        rows = F.embedding(tokens, self.embeddings)
        bias = self.biases(now.own.places.shape[1])
        for layer in self.layers:
            rows = layer(rows, now, bias)
        return self.last_norm(rows)

    def memory(self, encoded: Tensor) -> list[KeyValues]:
        """What its layers attend to of what the encoder says."""
        return [memory_of(encoded, layer.cross.k, layer.cross.v, layer.size) for layer in self.layers]


def t5(model: PreTrainedModel, layout: Layout) -> Step | None:
    """T5's step; None in float16, in which its layers cut off what is too large."""
    decoder: Any = model.get_decoder()
    if decoder.embed_tokens.weight.dtype == torch.float16:
        return None
    return Step(
        embeddings=decoder.embed_tokens.weight,
        biases=Biases(decoder.block[0].layer[0].SelfAttention),
        layers=tuple(Layer.of(number, block, layout) for number, block in enumerate(decoder.block)),
        last_norm=RootNorm.of(decoder.final_layer_norm),
    )
