"""Attention over what a search shares: a source's keys are there once, however many hypotheses read them.

A search has many rows (hypotheses) of one source. Their cross-attention, and the attention to a prompt, read
the same keys; so a source's rows are put side by side as queries of one product. What rows wrote themselves
they share as well, as branches of a tree: a key is stored where it was written and never moved. A row knows
its ancestors, one place a step, and reads there.

Models call `attend` through transformers' attention interface, under the name `IMPLEMENTATION`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock, local
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface, Cache, EncoderDecoderCache
from transformers.cache_utils import CacheLayerMixin, DynamicLayer

from bidibeam.errors import ScorerError
from bidibeam.models.huggingface.branches import Branches, branch_attention

IMPLEMENTATION = "bidibeam"
UNSUPPORTED = ("softcap", "s_aux")
"""What a model may ask of attention, that `attend` does not do."""


class KeyValues(NamedTuple):
    """What one layer attends to, once per source: both (sources, heads, positions, head size)."""

    keys: Tensor
    values: Tensor

    def of_sources(self, lines: Tensor) -> KeyValues:
        """The same for some of the sources, (lines,)."""
        return KeyValues(self.keys[lines], self.values[lines])


def known_mask(mask: Tensor | None) -> Tensor | None:
    """A mask of 1 and 0, (sources, positions), as one of booleans; None if there is something everywhere."""
    return None if mask is None or bool(mask.all()) else mask.bool()


@dataclass(frozen=True)
class Shared:
    """What all rows of a source read.

    Attributes:
        layers: Keys and values, layer by layer.
        mask: (sources, positions), whether there is something; None if there is everywhere.
    """

    layers: Sequence[KeyValues]
    mask: Tensor | None

    @staticmethod
    def of_cache(cache: Any, mask: Tensor | None) -> Shared:
        """What a model cached, under a mask of 1 and 0 (sources, positions)."""
        layers = [KeyValues(layer.keys, layer.values) for layer in cache.layers]
        return Shared(layers, known_mask(mask))

    def of_sources(self, lines: Tensor) -> Shared:
        """The same for some of the sources, (lines,)."""
        mask = None if self.mask is None else self.mask[lines]
        return Shared([layer.of_sources(lines) for layer in self.layers], mask)

    def padded(self, multiple: int) -> Shared:
        """The same with padding after it, up to a multiple of positions: searches then have fewer shapes."""
        sources, _, positions, _ = self.layers[0].keys.shape
        more = -positions % multiple
        mask = self.mask
        if mask is None:
            mask = torch.ones(sources, positions, dtype=torch.bool, device=self.layers[0].keys.device)
        layers = [KeyValues(*(F.pad(tensor, (0, 0, 0, more)) for tensor in layer)) for layer in self.layers]
        return Shared(layers, F.pad(mask, (0, more)))

    def tensors(self) -> list[Tensor]:
        """All of it."""
        found = [tensor for layer in self.layers for tensor in layer]
        return found if self.mask is None else [*found, self.mask]

    def cloned(self) -> Shared:
        """The same in memory of its own."""
        layers = [KeyValues(keys.clone(), values.clone()) for keys, values in self.layers]
        return Shared(layers, None if self.mask is None else self.mask.clone())


class Reading(Protocol):
    """How rows attend to what they and their like wrote."""

    @property
    def length(self) -> int:
        """How many positions there were before this call."""
        ...

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Keep what the rows write now: both (rows, heads, new positions, head size)."""
        ...

    def attend(self, layer: int, query: Tensor, scaling: float, bias: Tensor | None) -> Tensor:
        """Attend from (rows, heads, new positions, head size) to all that came before and to itself."""
        ...


@dataclass(frozen=True)
class BranchReading:
    """One step of a search: a row reads a prompt, if there is one, and its ancestors.

    Attributes:
        branches: What was written.
        places: (rows, steps), where each row's ancestors wrote, itself last.
        prompt: What its source had before.
    """

    branches: Branches
    places: Tensor
    prompt: Shared | None

    @property
    def length(self) -> int:
        """How many positions there were before this step."""
        return self.places.shape[1] - 1 + _positions(self.prompt)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Keep what the rows write at this step."""
        self.branches.write(layer, self.places.shape[1] - 1, keys, values)

    def attend(self, layer: int, query: Tensor, scaling: float, bias: Tensor | None) -> Tensor:
        """Attend to the prompt and the ancestors."""
        prompt = None if self.prompt is None else self.prompt.layers[layer]
        mask = None if self.prompt is None else self.prompt.mask
        return branch_attention(self.branches, layer, self.places, query, scaling, bias, prompt, mask)


class ForcedReading:
    """Whole sequences at once: a row reads a prompt, if there is one, and what comes before in the sequence.

    Args:
        prompt: What its source had before.
    """

    def __init__(self, prompt: Shared | None) -> None:
        self._prompt = prompt
        self._written: dict[int, KeyValues] = {}

    @property
    def length(self) -> int:
        """How many positions there were before the sequences."""
        return _positions(self._prompt)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Keep the keys and values of the whole sequences for `attend`."""
        self._written[layer] = KeyValues(keys, values)

    def attend(self, layer: int, query: Tensor, scaling: float, bias: Tensor | None) -> Tensor:
        """Attend to the prompt and, causally, to the sequence."""
        rows, _, length, _ = query.shape
        keys, values = self._written.pop(layer)
        is_before = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
        if self._prompt is not None:
            prompt = self._prompt.layers[layer]
            each = rows // len(prompt.keys)
            keys = torch.cat((prompt.keys.repeat_interleave(each, 0), keys), dim=2)
            values = torch.cat((prompt.values.repeat_interleave(each, 0), values), dim=2)
            mask = self._prompt.mask
            if mask is None:
                mask = torch.ones(
                    prompt.keys.shape[0], prompt.keys.shape[2], dtype=torch.bool, device=query.device
                )
            before = mask.repeat_interleave(each, 0)[:, None, None].expand(-1, -1, length, -1)
            is_before = torch.cat((before, is_before.expand(rows, 1, -1, -1)), dim=3)
        allowed: Tensor = is_before
        if bias is not None:
            allowed = bias.masked_fill(~is_before, -torch.inf)
        attended: Tensor = F.scaled_dot_product_attention(
            query, keys, values, attn_mask=allowed, scale=scaling, enable_gqa=query.shape[1] != keys.shape[1]
        )
        return attended


@dataclass(frozen=True)
class Pass:
    """One call of a decoder by a search or a scorer.

    Attributes:
        own: How rows attend to what was written.
        cross: What the encoder said, for cross-attention.
        reach: How many positions the last query sees at most, padding aside.
    """

    own: Reading
    cross: Shared | None = None
    reach: int = 0
    attended: list[int] = field(default_factory=list)
    """The layers that asked, in order: those of a model that attends in its own way never do."""

    def cache(self, layers: int) -> Cache:
        """What to give a decoder of so many layers as its cache."""
        own = Cache(layers=[_Layer(self.own, layer) for layer in range(layers)])
        if self.cross is None:
            return own
        return EncoderDecoderCache(own, Cache(layers=[_said(layer) for layer in self.cross.layers]))


class _Current(local):
    """What the current thread does."""

    now: Pass | None = None


@dataclass
class _Lent:
    """A config that is in passes: its own class, and how many there are."""

    kind: type
    passes: int = 0


_CURRENT = _Current()
_LENT: dict[int, _Lent] = {}  # by the config's id
_LENDING = Lock()


@contextmanager
def attending(configs: Sequence[Any], now: Pass) -> Iterator[None]:
    """Let the models with these configs attend by `attend` meanwhile, in this thread alone."""
    before = _CURRENT.now
    with _LENDING:
        for config in configs:
            lent = _LENT.setdefault(id(config), _Lent(type(config)))
            if not lent.passes:
                object.__setattr__(config, "__class__", _attending_kind(lent.kind))
            lent.passes += 1
    _CURRENT.now = now
    try:
        yield
    finally:
        _CURRENT.now = before
        with _LENDING:
            for config in configs:
                lent = _LENT[id(config)]
                lent.passes -= 1
                if not lent.passes:
                    object.__setattr__(config, "__class__", lent.kind)
                    del _LENT[id(config)]


@cache
def _attending_kind(kind: type) -> type:
    """A class of configs that tell a model to attend by `attend`, but only in threads that are in a pass.

    Others may run the same model meanwhile, by `generate` or in passes of their own, or copy or pickle the
    config: copies are of its own class.
    """
    own: Any = kind._attn_implementation  # type: ignore[attr-defined]

    def said(config: Any) -> Any:
        return own.fget(config) if _CURRENT.now is None else IMPLEMENTATION

    def reduced(config: Any, _: Any) -> Any:
        return object.__new__, (kind,), config.__dict__

    parts = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce_ex__": reduced}
    return type(kind.__name__, (kind,), {**parts, "_attn_implementation": property(said, own.fset)})


def check_window(name: str, window: int | None, reach: int) -> None:
    """See that all positions so far are in a layer's window: then it changes nothing.

    Raises:
        ScorerError: If some are not.
    """
    if window is not None and reach > window:
        raise ScorerError(
            f"{name} attends with sliding_window {window:,}, which is not supported yet for more tokens than "
            f"that, and here prompt and reply have {reach:,}; shorten them."
        )


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,  # noqa: ARG001
    attention_mask: Tensor | None,  # noqa: ARG001
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend as the current pass does; the signature is transformers'.

    Args:
        module: The attention layer.
        query: (rows, heads, positions, head size).
        key: A stand-in, or the encoder's keys where this is cross-attention.
        value: Not read.
        attention_mask: Not read: the pass has its own.
        scaling: What products are multiplied by.
        position_bias: (1, heads, positions, all positions), T5's.
        options: What else a model says.

    Raises:
        ScorerError: If a model wants something else, or if this is no pass.
    """
    for name in UNSUPPORTED:
        if options.get(name) is not None:
            raise ScorerError(f"{type(module).__name__} attends with {name}, which is not supported yet.")
    now = _CURRENT.now
    if now is None:
        raise ScorerError(
            f"{type(module).__name__} is set to attend with {IMPLEMENTATION!r}, which is for searches alone; "
            "name another attn_implementation."
        )
    check_window(type(module).__name__, options.get("sliding_window"), now.reach)
    layer: int = module.layer_idx  # type: ignore[assignment]
    now.attended.append(layer)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    if now.cross is not None and key is now.cross.layers[layer].keys:
        attended = attend_shared(query, now.cross.layers[layer], now.cross.mask, scaling)
    else:
        attended = now.own.attend(layer, query, scaling, position_bias)
    return attended.transpose(1, 2), None  # (rows, positions, heads, head size)


AttentionInterface.register(IMPLEMENTATION, attend)


def attend_shared(query: Tensor, memory: KeyValues, mask: Tensor | None, scaling: float) -> Tensor:
    """Attend from (rows, heads, positions, head size) to what rows of a source share; the same shape."""
    rows, heads, positions, size = query.shape
    sources = len(memory.keys)
    by_source = query.view(sources, rows // sources, heads, positions, size).transpose(1, 2)
    by_source = by_source.reshape(
        sources, heads, -1, size
    )  # (sources, heads, rows of each * positions, size)
    attended = F.scaled_dot_product_attention(
        by_source,
        memory.keys,
        memory.values,
        attn_mask=None if mask is None else mask[:, None, None],
        scale=scaling,
        enable_gqa=heads != memory.keys.shape[1],
    )
    return attended.view(sources, heads, -1, positions, size).transpose(1, 2).reshape(query.shape)


def _positions(prompt: Shared | None) -> int:
    return 0 if prompt is None else prompt.layers[0].keys.shape[2]


def _said(memory: KeyValues) -> DynamicLayer:
    """A layer's cross-attention cache, filled."""
    layer = DynamicLayer()
    layer.keys, layer.values = memory
    layer.is_initialized = True
    return layer


class _Layer(CacheLayerMixin):  # type: ignore[misc]
    """A decoder layer's cache, as the decoder sees it."""

    is_sliding = False

    def __init__(self, own: Reading, number: int) -> None:
        super().__init__()
        self._own, self._number, self._length = own, number, own.length
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write; what comes back has the length that a model expects to see, and is not read."""
        self._own.write(self._number, key_states, value_states)
        shape = (-1, -1, self._length + key_states.shape[2], -1)
        return key_states[:, :, :1].expand(shape), value_states[:, :, :1].expand(shape)

    def get_seq_length(self) -> int:
        """How many positions there were before."""
        return self._length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """As transformers asks for them; masks are not made from them."""
        return self._length + query_length, 0

    def get_max_length(self) -> int:
        """No limit."""
        return -1

    def get_max_cache_shape(self) -> int:
        """No limit, as earlier transformers ask."""
        return -1
