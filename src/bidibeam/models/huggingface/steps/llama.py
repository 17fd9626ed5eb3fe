"""Llama and those that are like it: positions turn queries and keys, and the wide part is gated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from bidibeam.models.huggingface.attention import check_window
from bidibeam.models.huggingface.steps.now import Activation, Now, RootNorm, activation_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bidibeam.models.huggingface.attention import KeyValues
    from bidibeam.models.huggingface.steps.layout import Layout, Product


@dataclass(frozen=True)
class Layer:
    """One layer: attention, and a gated feed-forward part."""

    number: int
    heads: int
    turned: int
    size: int
    scaling: float
    own_norm: RootNorm
    mix: Product
    out: Product
    last_norm: RootNorm
    widen: Product
    activation: Activation
    narrow: Product

    @staticmethod
    def of(number: int, layer: Any, layout: Layout) -> Layer:
        """That of a module."""
        own, wide = layer.self_attn, layer.mlp
        activation = activation_of(wide.act_fn)
        if activation is None:
            raise AttributeError("a layer of another kind")
        heads, key_heads = (part.out_features // own.head_dim for part in (own.q_proj, own.k_proj))
        return Layer(
            number=number,
            heads=heads,
            turned=heads + key_heads,
            size=own.head_dim,
            scaling=own.scaling,
            own_norm=RootNorm.of(layer.input_layernorm),
            mix=layout.product(f"{number}.mix", own.q_proj, own.k_proj, own.v_proj),
            out=layout.product(f"{number}.out", own.o_proj),
            last_norm=RootNorm.of(layer.post_attention_layernorm),
            widen=layout.product(f"{number}.widen", wide.gate_proj, wide.up_proj),
            activation=activation,
            narrow=layout.product(f"{number}.narrow", wide.down_proj),
        )

    def __call__(self, rows: Tensor, now: Now, turn: tuple[Tensor, Tensor]) -> Tensor:
        """(rows, size) to the same shape; turn: cosines and sines, (rows, 1, head size) each."""
        mixed = self.mix(self.own_norm(rows))
        self._turn(mixed.view(len(mixed), -1, self.size)[:, : self.turned], *turn)
        rows = self.out(now.attend_own(self.number, mixed, self.heads, self.size, self.scaling), rows)
        gate, value = self.widen(self.last_norm(rows)).chunk(2, dim=1)
        return self.narrow(self.activation(gate).mul_(value), rows)

    def _turn(self, heads: Tensor, cosines: Tensor, sines: Tensor) -> None:
        """Turn queries and keys, (rows, heads, head size), where they are."""
        first, second = heads.chunk(2, dim=2)
        crossed = torch.cat((-second, first), dim=2).mul_(sines)
        heads.mul_(cosines).add_(crossed)


@dataclass(frozen=True)
class Step:
    """A whole model but for its output layer.

    Attributes:
        window: How many positions the layer sees that sees fewest; None if all see all.
    """

    name: str
    embeddings: Tensor
    rotary: Any
    layers: tuple[Layer, ...]
    last_norm: RootNorm
    window: int | None

    def __call__(self, tokens: Tensor, now: Now) -> Tensor:
        """What the model says of (rows,) tokens: (rows, size).

        Raises:
            ScorerError: If the window is too narrow for all that came before.
        """
        check_window(self.name, self.window, now.reach)
        assert now.positions is not None
        rows = F.embedding(tokens, self.embeddings)
        turn = self.rotary(rows, now.positions[:, None])
        for layer in self.layers:
            rows = layer(rows, now, turn)
        return self.last_norm(rows)

    def memory(self, encoded: Tensor) -> list[KeyValues]:  # noqa: ARG002
        """Nothing: there is no encoder."""
        return []


def llama(model: PreTrainedModel, layout: Layout) -> Step:
    """Llama's step."""
    decoder: Any = model.get_decoder()
    layers = decoder.layers[: decoder.config.num_hidden_layers]
    windows = [window for window in map(_window, layers) if window is not None]
    return Step(
        name=type(model).__name__,
        embeddings=decoder.embed_tokens.weight,
        rotary=decoder.rotary_emb,
        layers=tuple(Layer.of(number, layer, layout) for number, layer in enumerate(layers)),
        last_norm=RootNorm.of(decoder.norm),
        window=min(windows, default=None),
    )


def _window(layer: Any) -> int | None:
    """How many positions a layer sees; None if all."""
    own = layer.self_attn
    window: int | None = getattr(
        own if hasattr(own, "sliding_window") else own.config, "sliding_window", None
    )
    return window
