"""What a lean step is told, and what it attends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bidibeam.models.huggingface.attention import KeyValues, attend_shared
from bidibeam.models.huggingface.branches import extended_attention
from bidibeam.models.huggingface.rowwise import are_ours, gelu_
from bidibeam.models.huggingface.sharing import are_read_fast, read_shared

if TYPE_CHECKING:
    from bidibeam.models.huggingface.attention import BranchReading, Shared

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Now:
    """One step of a search.

    Attributes:
        own: What rows wrote before, and where they write now.
        cross: What the encoder said, once per source.
        positions: (rows,), of a decoder-only model's tokens.
        reach: How many positions a row sees at most, padding aside.
    """

    own: BranchReading
    cross: Shared | None = None
    positions: Tensor | None = None
    reach: int = 0

    def attend_own(
        self, layer: int, mixed: Tensor, heads: int, size: int, scaling: float, bias: Tensor | None = None
    ) -> Tensor:
        """Write keys and values, and attend to the prompt and all that a row's ancestors wrote.

        Args:
            layer: Which layer's.
            mixed: (rows, (heads + 2 * key heads) * size): queries, keys and values side by side.
            heads: How many heads queries have.
            size: The size of a head.
            scaling: What products are multiplied by.
            bias: (heads, steps), added to products.

        Returns:
            (rows, heads * size).
        """
        prompt = self.own.prompt
        return extended_attention(
            self.own.branches,
            layer,
            self.own.places,
            mixed.view(len(mixed), -1, size),
            heads,
            scaling,
            bias,
            None if prompt is None else prompt.layers[layer],
            None if prompt is None else prompt.mask,
        )

    def attend_cross(self, layer: int, query: Tensor, heads: int, scaling: float) -> Tensor:
        """Attend from (rows, heads * size) to what the encoder said: the same shape."""
        assert self.cross is not None
        memory, mask = self.cross.layers[layer], self.cross.mask
        by_head = query.view(len(query), heads, -1)
        if are_read_fast(by_head, memory.keys):
            return read_shared(by_head, *memory, mask, scaling).view(query.shape)
        return attend_shared(by_head.unsqueeze(2), memory, mask, scaling).view(query.shape)


class LeanStep(Protocol):
    """A decoder's step."""

    def __call__(self, tokens: Tensor, now: Now) -> Tensor:
        """What the decoder says of tokens, (rows,): (rows, size)."""
        ...

    def memory(self, encoded: Tensor) -> list[KeyValues]:
        """What its layers attend to of what an encoder says, (sources, length, size)."""
        ...


def memory_of(encoded: Tensor, keys: nn.Linear, values: nn.Linear, size: int) -> KeyValues:
    """What one layer attends to, by the linear layers that make keys and values; size: a head's."""

    def by_head(layer: nn.Linear) -> Tensor:
        found = F.linear(encoded, layer.weight, layer.bias)  # (sources, length, heads * size)
        return found.view(*found.shape[:2], -1, size).transpose(1, 2).contiguous()

    return KeyValues(by_head(keys), by_head(values))


@dataclass(frozen=True)
class Norm:
    """A layer norm."""

    shape: tuple[int, ...]
    weight: Tensor | None
    bias: Tensor | None
    epsilon: float

    @staticmethod
    def of(layer: nn.LayerNorm) -> Norm:
        """That of a module."""
        return Norm(tuple(layer.normalized_shape), layer.weight, layer.bias, layer.eps)

    def __call__(self, rows: Tensor) -> Tensor:
        """Normalise (rows, size)."""
        return torch.layer_norm(rows, self.shape, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True)
class RootNorm:
    """A norm by the root of the mean square, taken in float32."""

    weight: Tensor
    epsilon: float

    @staticmethod
    def of(layer: nn.Module) -> RootNorm:
        """That of a module such as T5's or Llama's."""
        return RootNorm(layer.weight, layer.variance_epsilon)  # type: ignore[arg-type]

    def __call__(self, rows: Tensor) -> Tensor:
        """Normalise (rows, size)."""
        wide = rows.float()
        inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(self.epsilon))
        return (wide * inverse).to(rows.dtype).mul_(self.weight)


def _gelu(rows: Tensor) -> Tensor:
    if are_ours(rows):
        return gelu_(rows)
    found: Tensor = torch.ops.aten.gelu_(rows)
    return found


def _tanh_gelu(rows: Tensor) -> Tensor:
    found: Tensor = torch.ops.aten.gelu_(rows, approximate="tanh")
    return found


def _silu(rows: Tensor) -> Tensor:
    return F.silu(rows, inplace=True)


ACTIVATIONS: dict[str, Activation] = {
    "GELUActivation": _gelu,
    "GELU": _gelu,
    "GELUTanh": _tanh_gelu,
    "PytorchGELUTanh": _tanh_gelu,
    "NewGELUActivation": _tanh_gelu,
    "ReLU": torch.relu_,
    "SiLU": _silu,
    "SiLUActivation": _silu,
    "Tanh": torch.tanh_,
}
"""By the class of the module, those that say the same, where the numbers are."""


def activation_of(module: nn.Module) -> Activation | None:
    """An activation; None if it is not known here."""
    name = type(module).__name__
    if name == "GELU" and getattr(module, "approximate", "none") != "none":
        return None
    if name == "GELUActivation" and getattr(module, "act", F.gelu) is not F.gelu:
        return None
    return ACTIVATIONS.get(name)
