"""GPT-2: its matrices are (in, out) already, queries, keys and values side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import functional as F

from bidibeam.models.huggingface.steps.now import Activation, Norm, Now, activation_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bidibeam.models.huggingface.attention import KeyValues
    from bidibeam.models.huggingface.steps.layout import Layout, Product


@dataclass(frozen=True)
class Layer:
    """One layer: attention, and two products with an activation between."""

    number: int
    heads: int
    size: int
    scaling: float
    own_norm: Norm
    mix: Product
    out: Product
    last_norm: Norm
    widen: Product
    activation: Activation
    narrow: Product

    @staticmethod
    def of(number: int, block: Any, layout: Layout) -> Layer:
        """That of a module."""
        own, wide = block.attn, block.mlp
        activation = activation_of(wide.act)
        if activation is None or hasattr(block, "crossattention"):
            raise AttributeError("a layer of another kind")
        return Layer(
            number=number,
            heads=own.num_heads,
            size=own.head_dim,
            scaling=own.scaling,
            own_norm=Norm.of(block.ln_1),
            mix=layout.ready("mix", (own.c_attn.weight, own.c_attn.bias)),
            out=layout.ready("out", (own.c_proj.weight, own.c_proj.bias)),
            last_norm=Norm.of(block.ln_2),
            widen=layout.ready("widen", (wide.c_fc.weight, wide.c_fc.bias)),
            activation=activation,
            narrow=layout.ready("narrow", (wide.c_proj.weight, wide.c_proj.bias)),
        )

    def __call__(self, rows: Tensor, now: Now) -> Tensor:
        """(rows, size) to the same shape."""
        mixed = self.mix(self.own_norm(rows))
        rows = self.out(now.attend_own(self.number, mixed, self.heads, self.size, self.scaling), rows)
        return self.narrow(self.activation(self.widen(self.last_norm(rows))), rows)


@dataclass(frozen=True)
class Step:
    """A whole model but for its output layer."""

    embeddings: Tensor
    positions: Tensor
    layers: tuple[Layer, ...]
    last_norm: Norm

    def __call__(self, tokens: Tensor, now: Now) -> Tensor:
        """What the model says of (rows,) tokens: (rows, size)."""
        assert now.positions is not None
        rows = F.embedding(tokens, self.embeddings).add_(F.embedding(now.positions, self.positions))
        for layer in self.layers:
            rows = layer(rows, now)
        return self.last_norm(rows)

    def memory(self, encoded: Tensor) -> list[KeyValues]:  # noqa: ARG002
        """Nothing: there is no encoder."""
        return []


def gpt2(model: PreTrainedModel, layout: Layout) -> Step:
    """GPT-2's step."""
    decoder: Any = model.get_decoder()
    return Step(
        embeddings=decoder.wte.weight,
        positions=decoder.wpe.weight,
        layers=tuple(Layer.of(number, block, layout) for number, block in enumerate(decoder.h)),
        last_norm=Norm.of(decoder.ln_f),
    )
