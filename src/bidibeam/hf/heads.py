"""From a decoder's last hidden state to logits, without memory that is fresh every time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import get_ident, local
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from bidibeam.errors import ScorerError
from bidibeam.hf.steps.layout import multiply
from bidibeam.hf.steps.plain import is_hooked

TOLERANCE = 1e-3
"""How far our logits may be from the model's own, relative to the largest of them."""
SCORED_LOGITS = 1 << 26
"""Logits worked on at once when sequences are scored: a bound on the memory needed."""

_KNOWN: WeakKeyDictionary[PreTrainedModel, tuple[Hashable, float]] = WeakKeyDictionary()
"""Scales that models were asked for, each with what the model's code was then."""


class Head:
    """The output layer of a model: hidden states times output embeddings, perhaps scaled, plus a bias.

    That it is so, and the scale, is found by asking the model once. A layer that was hooked, adapted or
    replaced is called itself; a model that was hooked is asked for every search.

    Args:
        model: The model.

    Raises:
        ScorerError: If the model's logits come about in another way.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._rooms = local()  # threads may share a scorer
        self.renew()

    def renew(self) -> None:
        """Look at the model's parameters and at its code again: they may be others now.

        Raises:
            ScorerError: If the model's logits come about in another way.
        """
        model = self._model
        layer: nn.Module | None = model.get_output_embeddings()
        if layer is None or getattr(layer, "weight", None) is None:
            raise ScorerError(f"{type(model).__name__} has no output embeddings, so it cannot write.")
        self.weight: Tensor = layer.weight.detach()  # type: ignore[operator]
        """(vocabulary, size)."""
        self._called = None if _is_linear(layer) else layer
        self._biases = _biases(model, layer if self._called is None else None)
        self._bias = _sum(self._biases)
        around = (part for part in (model, model.base_model) if part is not model.get_decoder())
        is_touched = any(map(is_hooked, around))
        code = (type(model).forward, type(layer), self._called is None)
        known = _KNOWN.get(model)
        if is_touched or known is None or known[0] != code:
            known = _KNOWN[model] = (code, self._asked(is_touched=is_touched))
        self._scale = known[1]

    @property
    def is_recordable(self) -> bool:
        """Whether a GPU may record what it does: no code but ours is called."""
        return self._called is None

    @property
    def kind(self) -> Hashable:
        """What a recording of it relies on, but for the numbers in its parameters."""
        places = tuple(one.data_ptr() for one in (self.weight, *self._biases))
        return places, self._scale, self.is_recordable

    @property
    def vocabulary_size(self) -> int:
        """How many logits a row has."""
        return self.weight.shape[0]

    def logits(self, hidden: Tensor, panels: Sequence[Tensor] = ()) -> Tensor:
        """The logits of (rows, size): (rows, vocabulary), float32, in memory that the next call writes to.

        Args:
            hidden: What the decoder says.
            panels: The weight as (size, some of the vocabulary) each, as products read it.
        """
        if hidden.dtype != torch.float32 or self._called is not None:
            return self._fresh(hidden).float()
        out = self._room(hidden)
        hidden = self._scaled(hidden)
        if len(panels) < 2:
            return multiply(hidden, panels[0] if panels else self.weight.t(), self._bias, out)
        widths = [panel.shape[1] for panel in panels]
        biases = [None] * len(panels) if self._bias is None else torch.split(self._bias, widths)
        for panel, bias, part in zip(panels, biases, torch.split(out, widths, dim=1), strict=True):
            multiply(hidden, panel, bias, part)
        return out

    def apart(self) -> Callable[[Tensor], Tensor]:
        """What `logits` does, in fresh memory each time, with the parameters as they are found now."""
        weight, biases, scale = self.weight, self._biases, self._scale

        def logits(hidden: Tensor) -> Tensor:
            return F.linear(hidden if scale == 1.0 else hidden * scale, weight, _sum(biases)).float()

        return logits

    def log_probs(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Log-probabilities of one token, (rows,), for each row of (rows, size): (rows,), float32."""
        chunk = max(1, SCORED_LOGITS // self.vocabulary_size)
        parts = []
        for first in range(0, len(hidden), chunk):
            logits = self._fresh(hidden[first : first + chunk]).float()
            targets = tokens[first : first + chunk, None]
            parts.append(logits.gather(1, targets).squeeze(1) - logits.logsumexp(1))
        return torch.cat(parts)

    def _room(self, hidden: Tensor) -> Tensor:
        """Where to write logits: (rows, vocabulary)."""
        needed = len(hidden) * self.vocabulary_size
        room: Tensor | None = getattr(self._rooms, "logits", None)
        if room is None or room.numel() < needed or room.device != hidden.device:
            room = self._rooms.logits = hidden.new_empty(needed)
        return room[:needed].view(len(hidden), -1)

    def _fresh(self, hidden: Tensor) -> Tensor:
        return self._said(self._scaled(hidden))

    def _scaled(self, hidden: Tensor) -> Tensor:
        return hidden if self._scale == 1.0 else hidden * self._scale

    def _said(self, scaled: Tensor) -> Tensor:
        """What the layer says of (rows, size), and what the model adds to it."""
        if self._called is None:
            return F.linear(scaled, self.weight, self._bias)
        said: Tensor = self._called(scaled[:, None])[:, 0]  # as the model calls it
        return said if self._bias is None else said + self._bias

    @torch.inference_mode()
    def _asked(self, *, is_touched: bool) -> float:
        """What hidden states are multiplied by; the model is asked about two tokens."""
        own, hidden = _answer(self._model, self.vocabulary_size)
        zero = self._said(torch.zeros_like(hidden)).float()
        raw = self._said(hidden).float() - zero
        scale = float(((own - zero) * raw).sum() / (raw * raw).sum().clamp(min=1e-30))
        if abs(scale - 1.0) < TOLERANCE:
            scale = 1.0
        tolerance = TOLERANCE if self.weight.dtype == torch.float32 else 20 * TOLERANCE
        off = float((self._said(hidden * scale).float() - own).abs().max())
        if off <= tolerance * max(float(own.abs().max()), 1e-3):
            return scale
        name = type(self._model).__name__
        if is_touched:
            raise ScorerError(
                f"{name} has a hook on it or a forward that is not its class's, and its logits are not those "
                "of its output layer; remove that, or put it on the output layer."
            )
        raise ScorerError(f"{name} makes its logits in a way of its own, which is not supported yet.")


def _is_linear(layer: nn.Module) -> bool:
    """Whether a layer is nothing but a product with its parameters, and a bias."""
    if type(layer) is not nn.Linear or is_hooked(layer):
        return False
    return all(type(one) in (nn.Parameter, type(None)) for one in layer._parameters.values())


def _biases(model: PreTrainedModel, layer: nn.Module | None) -> list[Tensor]:
    """What is added to the logits, (vocabulary,) each, if it is anything; layer: where it is not called."""
    parts = [getattr(layer, "bias", None), getattr(model, "final_logits_bias", None)]
    return [part.detach().flatten() for part in parts if part is not None and bool((part != 0).any())]


def _sum(biases: Sequence[Tensor]) -> Tensor | None:
    return sum(biases[1:], biases[0]) if biases else None


def _answer(model: PreTrainedModel, vocabulary: int) -> tuple[Tensor, Tensor]:
    """A model's logits of two tokens, (2, vocabulary), and what its decoder said of them, (2, size)."""
    seen: list[Tensor] = []
    here = get_ident()

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        if get_ident() == here:  # other threads may call the model meanwhile
            seen.append(output[0])

    hook = model.get_decoder().register_forward_hook(keep)
    ids = torch.tensor([[0, min(1, vocabulary - 1)]], device=model.device)
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    try:
        logits: Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits[0].float()
    finally:
        hook.remove()
    return logits, seen[-1][0]
