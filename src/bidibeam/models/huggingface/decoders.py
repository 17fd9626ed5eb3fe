"""A Hugging Face model's own decoder, called in passes of a search."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel

from bidibeam.errors import ScorerError
from bidibeam.models.huggingface.attention import Pass, attending

if TYPE_CHECKING:
    from bidibeam.models.huggingface.states import HFState

POSITIONS = ("embed_positions", "wpe", "positions_embed")
"""What encoders and decoders call a table of positions."""


class Decoder:
    """The part of a model that writes.

    Args:
        model: The model.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self.module = model.get_decoder()
        self.takes_positions = "position_ids" in signature(self.module.forward).parameters
        parts = (part.config for part in self.module.modules() if hasattr(part, "config"))
        self._configs = list({id(config): config for config in parts}.values())

    @property
    def device(self) -> torch.device:
        """Where ids are read."""
        found: torch.device = self._model.device
        return found

    def said(self, ids: Tensor, now: Pass, state: HFState) -> Tensor:
        """What it says of (rows, length) ids: (rows, length, size).

        Raises:
            ScorerError: If it attends in a way that is not supported.
        """
        more: dict[str, Any] = {}
        if state.encoded is not None:
            more["encoder_hidden_states"] = state.encoded
        written = now.own.length - prompt_length(state)
        now = replace(now, reach=state.read + written + ids.shape[1])
        if state.positions is not None and self.takes_positions:
            each = len(ids) // state.sources
            steps = torch.arange(written, written + ids.shape[1], device=ids.device)  # (length,)
            more["position_ids"] = state.positions.repeat_interleave(each)[:, None] + steps  # (rows, length)
        if state.prompt is not None:
            more["attention_mask"] = ids.new_ones(len(ids), now.own.length + ids.shape[1])  # not read
        cache = now.cache(state.layers)
        with attending(self._configs, now):
            try:
                read = self.module(input_ids=ids, past_key_values=cache, use_cache=True, **more)
            except (RuntimeError, TypeError) as error:
                if now.attended or isinstance(error, torch.OutOfMemoryError):
                    raise
                raise ScorerError(self._own_ways()) from error
        if len(now.attended) != state.layers * (1 if state.cross is None else 2):
            raise ScorerError(self._own_ways())
        hidden: Tensor = read[0]
        return hidden

    def _own_ways(self) -> str:
        return self.unsearchable(
            f"in transformers {transformers.__version__} it does not attend through the attention interface"
        )

    def unsearchable(self, why: str) -> str:
        """What to say of a model that cannot be searched."""
        name = Path(self._model.name_or_path or "").name or type(self._model).__name__
        return (
            f"{name} is a {self._model.config.model_type} model, which cannot be searched here ({why}); "
            "write n-best lists with its generate, and rerank them."
        )

    @property
    def room(self) -> int | None:
        """How many positions the decoder has; None if it counts on without a table."""
        return _room(self.module)

    def check_room(self, tokens: int, part: nn.Module | None = None) -> None:
        """See that the decoder, or another part of the model, has positions for so many tokens.

        Raises:
            ScorerError: If it has fewer.
        """
        room = _room(self.module if part is None else part)
        if room is None or tokens <= room:
            return
        name = type(self._model).__name__
        if part is not None:
            raise ScorerError(f"{name} has {room:,} positions, too few for a source of {tokens:,} tokens.")
        what = "what it writes" if self._model.config.is_encoder_decoder else "a prompt and what follows"
        raise ScorerError(
            f"{name} has {room:,} positions, too few for {what}, {tokens:,} tokens: ask for shorter replies."
        )


def prompt_length(state: HFState) -> int:
    """How many positions a prompt takes, padding included."""
    return 0 if state.prompt is None else state.prompt.layers[0].keys.shape[2]


def _room(part: nn.Module) -> int | None:
    """How many positions an encoder or a decoder has a table for; None if it counts on without one."""
    for name in POSITIONS:
        table = getattr(part, name, None)
        if isinstance(table, nn.Embedding):
            return len(table.weight) - int(getattr(table, "offset", 0))
    return None
