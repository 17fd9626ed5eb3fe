"""BART's decoder and those that are like it: they differ in where they normalise and count positions from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import functional as F

from bidibeam.models.huggingface.steps.now import Activation, Norm, Now, activation_of, memory_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from bidibeam.models.huggingface.attention import KeyValues
    from bidibeam.models.huggingface.steps.layout import Layout, Product


@dataclass(frozen=True)
class Layer:
    """One layer: attention to what was written, to the source, and two products with an activation between.

    Attributes:
        is_before: Whether each part normalises what it reads, and not what it leaves.
        cross: The module that attends to the source.
    """

    number: int
    heads: int
    size: int
    scaling: float
    is_before: bool
    mix: Product
    out: Product
    own_norm: Norm
    ask: Product
    cross_out: Product
    cross_norm: Norm
    widen: Product
    activation: Activation
    narrow: Product
    last_norm: Norm
    cross: Any

    @staticmethod
    def of(number: int, layer: Any, layout: Layout, *, is_before: bool) -> Layer:
        """That of a module."""
        own, cross = layer.self_attn, layer.encoder_attn
        activation = activation_of(layer.activation_fn)
        if activation is None or (own.num_heads, own.scaling) != (cross.num_heads, cross.scaling):
            raise AttributeError("a layer of another kind")
        return Layer(
            number=number,
            heads=own.num_heads,
            size=own.head_dim,
            scaling=own.scaling,
            is_before=is_before,
            mix=layout.product(f"{number}.mix", own.q_proj, own.k_proj, own.v_proj),
            out=layout.product(f"{number}.out", own.out_proj),
            own_norm=Norm.of(layer.self_attn_layer_norm),
            ask=layout.product(f"{number}.ask", cross.q_proj),
            cross_out=layout.product(f"{number}.cross_out", cross.out_proj),
            cross_norm=Norm.of(layer.encoder_attn_layer_norm),
            widen=layout.product(f"{number}.widen", layer.fc1),
            activation=activation,
            narrow=layout.product(f"{number}.narrow", layer.fc2),
            last_norm=Norm.of(layer.final_layer_norm),
            cross=cross,
        )

    def __call__(self, rows: Tensor, now: Now) -> Tensor:
        """(rows, size) to the same shape."""
        rows = self._with(rows, self.own_norm, self.out, partial(self._own, now))
        rows = self._with(rows, self.cross_norm, self.cross_out, partial(self._cross, now))
        return self._with(rows, self.last_norm, self.narrow, self._wide)

    def _with(self, rows: Tensor, norm: Norm, out: Product, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Rows plus what a part makes of them, the last product of which is `out`."""
        if self.is_before:
            return out(part(norm(rows)), rows)
        return norm(out(part(rows), rows))

    def _own(self, now: Now, rows: Tensor) -> Tensor:
        return now.attend_own(self.number, self.mix(rows), self.heads, self.size, self.scaling)

    def _cross(self, now: Now, rows: Tensor) -> Tensor:
        return now.attend_cross(self.number, self.ask(rows), self.heads, self.scaling)

    def _wide(self, rows: Tensor) -> Tensor:
        return self.activation(self.widen(rows))


@dataclass(frozen=True)
class Step:
    """A whole decoder.

    Attributes:
        scale: What embeddings are multiplied by.
        offset: The position of the first token in the table.
        first_norm: That of embeddings with their positions, if there is one.
        word_norm: That of embeddings alone, if there is one.
        last_norm: That of what comes out, if there is one.
    """

    embeddings: Tensor
    scale: float
    positions: Tensor
    offset: int
    layers: tuple[Layer, ...]
    first_norm: Norm | None
    word_norm: Norm | None
    last_norm: Norm | None

    def __call__(self, tokens: Tensor, now: Now) -> Tensor:
        """What the decoder says of (rows,) tokens: (rows, size)."""
        rows = F.embedding(tokens, self.embeddings)
        if self.scale != 1.0:
            rows = rows.mul_(self.scale)
        if self.word_norm is not None:
            rows = self.word_norm(rows)
        rows = rows.add_(self.positions[now.own.length + self.offset])
        if self.first_norm is not None:
            rows = self.first_norm(rows)
        for layer in self.layers:
            rows = layer(rows, now)
        return rows if self.last_norm is None else self.last_norm(rows)

    def memory(self, encoded: Tensor) -> list[KeyValues]:
        """What its layers attend to of what the encoder says."""
        made = ((layer.cross.k_proj, layer.cross.v_proj, layer.size) for layer in self.layers)
        return [memory_of(encoded, *parts) for parts in made]


def _step(
    model: PreTrainedModel,
    layout: Layout,
    *,
    is_before: bool,
    is_scaled: bool = True,
    first: str | None = None,
    word: str | None = None,
    last: str | None = None,
) -> Step:
    """A decoder that has its norms under these names, and may multiply its embeddings."""
    decoder: Any = model.get_decoder()
    words, positions = decoder.embed_tokens, decoder.embed_positions

    def norm(name: str | None) -> Norm | None:
        return None if name is None else Norm.of(getattr(decoder, name))

    scale = words.embed_scale if hasattr(words, "embed_scale") else getattr(decoder, "embed_scale", 1.0)
    scale = scale if is_scaled else 1.0
    layers = [Layer.of(number, one, layout, is_before=is_before) for number, one in enumerate(decoder.layers)]
    return Step(
        embeddings=words.weight,
        scale=float(scale),
        positions=positions.weight,
        offset=getattr(positions, "offset", 0),
        layers=tuple(layers),
        first_norm=norm(first),
        word_norm=norm(word),
        last_norm=norm(last),
    )


bart = partial(_step, is_before=False, first="layernorm_embedding")
marian = partial(_step, is_before=False)
mbart = partial(_step, is_before=True, first="layernorm_embedding", last="layer_norm")
pegasus = blenderbot = partial(_step, is_before=True, last="layer_norm")
blenderbot_small = partial(_step, is_before=False, is_scaled=False, word="layernorm_embedding")
"""Its decoder has a scale that it never applies."""
