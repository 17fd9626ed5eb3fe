"""A search's state in memory that never moves, so that a CUDA graph replays steps of any listed model."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from torch import Tensor
from transformers import EncoderDecoderCache, PreTrainedModel
from transformers.cache_utils import Cache, StaticLayer
from transformers.modeling_outputs import BaseModelOutput

from bidibeam.models.huggingface.attention import can_share, find_configs, share_attention
from bidibeam.models.huggingface.configs import find_max_positions
from bidibeam.search.candidates import round_up

if TYPE_CHECKING:
    from bidibeam.models.huggingface.scorer import HFState

BUCKET = 16
"""Sources and prompts are padded to a multiple of so many tokens, so that few shapes come about."""
ALIGNED = 8
"""Lengths of keys that attention kernels read without padding them."""
NUMBERS = {int, float, bool}
_CAPTURING = Lock()


class Slots(StaticLayer):  # type: ignore[misc]
    """One layer's keys and values in memory that it is given, written at a position that all layers share.

    Transformers' own sliding layers count in Python, which a replay does not see; these keep every position,
    and the mask hides what is outside a window.
    """

    def __init__(self, keys: Tensor, values: Tensor, position: Tensor) -> None:
        super().__init__(keys.shape[2])
        self.keys, self.values, self._position = keys, values, position
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write one position, (rows, heads, 1, size); return all."""
        self.keys.index_copy_(2, self._position, keys)
        self.values.index_copy_(2, self._position, values)
        return self.keys, self.values

    def get_seq_length(self) -> Tensor:
        """The position, a tensor: masks and positions follow it in a replay."""
        return self._position[0]


def static_key(model: PreTrainedModel, state: HFState) -> Hashable | None:
    """What a graph of a model's steps depends on; None if a state needs an eager search."""
    if state.logits is not None or state.written or torch.is_autocast_enabled() or not can_share(model):
        return None
    if state.encoded is not None and not state.is_shared:
        return None
    weights: list[int] = []
    numbers = [number for config in (model.config, *find_configs(model)) for number in find_numbers(config)]
    for part in (model, model.get_output_embeddings(), *model.get_decoder().modules()):
        if (
            part is None
            or part._forward_hooks
            or part._forward_pre_hooks
            or hasattr(part, "adapter_layer_names")
        ):
            return None  # an adapter is switched on and off without a change of weights
        tensors = (*part._parameters.values(), *part._buffers.values())
        weights += [one.data_ptr() for one in tensors if one is not None]
        numbers += find_numbers(part)
    begun = 0 if state.encoded is None else state.begun
    return tuple(weights), tuple(numbers), round_up(state.mask.shape[1], BUCKET), begun, state.mask.device


def find_numbers(owner: Any) -> list[float]:
    """The numbers and switches of a module or a config, such as a scale of logits: a graph keeps them."""
    return [value for name, value in vars(owner).items() if type(value) in NUMBERS and name[0] != "_"]


class StaticHFState:
    """Memory for states like this one, with room for so many steps; a model's graphs go with the model.

    Own keys and values of all layers are in one tensor, whose rows are moved as wholes.
    """

    def __init__(self, model: PreTrainedModel, state: HFState, steps: int) -> None:
        self._model = ref(model)
        room = round_up(state.mask.shape[1], BUCKET)  # of a source or of a prompt
        own, cross = state.cache, None
        if state.encoded is not None:
            own, cross = state.cache.self_attention_cache, state.cache.cross_attention_cache
        self._begun = room if cross is None else state.begun
        most = find_max_positions(model.config)
        if most is not None and self._begun + steps > most:
            raise RuntimeError(f"{self._begun + steps} positions are needed, and the model has {most}")
        first, device = own.layers[0].keys, state.mask.device  # (rows, heads, length, size)
        if any(part.shape != first.shape for layer in own.layers for part in (layer.keys, layer.values)):
            raise RuntimeError("the layers have keys and values of different shapes")
        self.dtype, rows = first.dtype, len(first)
        length = round_up(self._begun + steps, ALIGNED)
        shape = (rows, len(own.layers), 2, first.shape[1], length, first.shape[3])
        self._own = torch.zeros(shape, dtype=first.dtype, device=device)
        self._position = torch.zeros(1, dtype=torch.long, device=device)
        self._mask = torch.ones(rows, length, dtype=torch.long, device=device)
        self._layers = [layer.unbind(1) for layer in self._own.unbind(1)]  # (rows, heads, length, size) twice
        self._cache: Cache = Cache(
            layers=[Slots(keys, values, self._position) for keys, values in self._layers]
        )
        self._positions = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self._cross: list[tuple[Tensor, Tensor]] = []
        if cross is not None and state.encoded is not None:
            sizes = (*cross.layers[0].keys.shape[:2], room, cross.layers[0].keys.shape[3])
            self._cross = [(first.new_zeros(sizes), first.new_zeros(sizes)) for _ in cross.layers]
            full = torch.full((1,), room, device=device)
            read = Cache(layers=[Slots(keys, values, full) for keys, values in self._cross])
            self._cache = EncoderDecoderCache(self._cache, read)
            self._cache.is_updated = dict.fromkeys(range(len(self._cross)), True)
            self._source_mask = torch.zeros(rows, room, dtype=torch.long, device=device)
            shown = torch.zeros(1, 1, 1, dtype=first.dtype, device=device)  # only its shape is read
            self._encoded = BaseModelOutput(shown.expand(rows, room, state.encoded.shape[2]))

    def load(self, state: HFState) -> None:
        """Copy a state into this memory; a prompt ends where the room ends, an encoder's source begins it."""
        own = state.cache if not self._cross else state.cache.self_attention_cache
        length = own.layers[0].keys.shape[2]
        place = slice(self._begun - length, self._begun)
        for (keys, values), layer in zip(self._layers, own.layers, strict=True):
            keys[:, :, place].copy_(layer.keys)
            values[:, :, place].copy_(layer.values)
        self._position.fill_(self._begun)
        each, width = len(self._mask) // state.sources, state.mask.shape[1]
        mask = state.mask.repeat_interleave(each, 0)  # (rows, source length)
        if not self._cross:
            assert state.positions is not None
            self._mask[:, : self._begun] = 0
            self._mask[:, place] = mask
            self._positions.copy_(state.positions.repeat_interleave(each)[:, None])
            return
        self._source_mask[:, :width], self._source_mask[:, width:] = mask, 0
        for (keys, values), layer in zip(self._cross, state.cache.cross_attention_cache.layers, strict=True):
            keys[:, :, :width].copy_(layer.keys)
            values[:, :, :width].copy_(layer.values)
            keys[:, :, width:], values[:, :, width:] = 0, 0

    def step(self, tokens: Tensor) -> Tensor:
        """Read one more token per row, (rows,); return next-token logits, (rows, vocabulary)."""
        model = self._model()
        assert model is not None
        ids = tokens.unsqueeze(1)  # (rows, 1)
        how = {"past_key_values": self._cache, "use_cache": True, "return_dict": True}
        with share_attention(model, find_configs(model)), act_as_compiling(model):
            if self._cross:
                read = model(
                    encoder_outputs=self._encoded,
                    attention_mask=self._source_mask,
                    decoder_input_ids=ids,
                    decoder_attention_mask=self._mask,
                    **how,
                )
            else:
                read = model(input_ids=ids, attention_mask=self._mask, position_ids=self._positions, **how)
                self._positions.add_(1)
        self._position.add_(1)
        return read.logits[:, -1].float()  # type: ignore[no-any-return]

    def reorder(self, rows: Tensor) -> None:
        """Put what row `rows[i]` wrote into row i, in place; a prompt is the same for a source's rows."""
        written = self._own if self._cross else self._own[..., self._begun :, :]
        written.copy_(written.index_select(0, rows))


@contextmanager
def act_as_compiling(model: PreTrainedModel) -> Iterator[None]:
    """Inside the block, the model takes no branch that reads a number back from the device.

    This changes a name in the model's module, so it is for captures alone, one at a time.
    """
    module: Any = sys.modules[type(model).__module__]
    if not hasattr(module, "is_torchdynamo_compiling"):
        yield
        return
    with _CAPTURING:
        own, module.is_torchdynamo_compiling = module.is_torchdynamo_compiling, lambda *_: True
        try:
            yield
        finally:
            module.is_torchdynamo_compiling = own
