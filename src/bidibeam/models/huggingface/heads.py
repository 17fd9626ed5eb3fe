"""From a decoder's last hidden state to logits, without memory that is fresh every time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from threading import get_ident, local
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from bidibeam.errors import ScorerError
from bidibeam.models.huggingface.steps.layout import Layout, multiply
from bidibeam.models.huggingface.steps.plain import is_hooked

TOLERANCE = 1e-3
"""How far our logits may be from the model's own, relative to the largest of them."""
SCORED_LOGITS = 1 << 26
"""Logits worked on at once when sequences are scored: a bound on the memory needed."""

NUMBERS = 64
"""How many numbers of an output layer are looked at, to see whether it has others now."""

_KNOWN: WeakKeyDictionary[PreTrainedModel, tuple[Hashable, float]] = WeakKeyDictionary()
"""Scales that models were asked for, each with what the model's code and its output layer were then."""


class Head:
    """The output layer of a model: hidden states times output embeddings, perhaps scaled, plus a bias.

    That it is so, and the scale, is found by asking the model, again whenever its weights are others. A layer
    that was hooked, adapted or replaced is called itself; then, or if the model was hooked, it is asked for
    every search.

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
        if layer is None:
            raise ScorerError(f"{type(model).__name__} has no output embeddings, so it cannot write.")
        if getattr(model.config, "final_logit_softcapping", None):
            raise ScorerError(self._own_way)
        self._called = None if _is_linear(layer) else layer
        self.weight: Tensor | None = layer.weight.detach() if self._called is None else None  # type: ignore[operator]
        """(vocabulary, size); None where the layer is called."""
        self._biases = _biases(model, layer if self._called is None else None)
        self._bias = _sum(self._biases)
        around = (part for part in (model, model.base_model) if part is not model.get_decoder())
        is_touched = any(map(is_hooked, around))
        if is_touched or self.weight is None:
            self._scale, _ = self._asked(is_touched=is_touched)
            return
        self.vocabulary_size = len(self.weight)
        code = (type(model).forward, _some_of(self.weight))
        known = _KNOWN.get(model)
        if known is not None and known[0] == code:
            self._scale = known[1]
            return
        self._scale, is_certain = self._asked()
        if is_certain:
            _KNOWN[model] = (code, self._scale)

    @property
    def is_recordable(self) -> bool:
        """Whether a GPU may record what it does: no code but ours is called."""
        return self._called is None

    @property
    def kind(self) -> Hashable:
        """What a recording of it relies on, but for the numbers in its parameters."""
        places = tuple(one.data_ptr() for one in (self.weight, *self._biases) if one is not None)
        return places, self._scale, self.is_recordable

    def logits(self, hidden: Tensor) -> Tensor:
        """The logits of (rows, size): (rows, vocabulary), float32, in memory that the next call writes to."""
        return self._written(hidden, self._multiplied)

    def by(self, layout: Layout) -> Callable[[Tensor], Tensor]:
        """What `logits` does, with the weight as a search's products read it."""
        if self.weight is None or self.weight.dtype != torch.float32:
            return self.logits
        return partial(self._written, multiply=layout.large("head", self.weight, self._bias))

    def _written(self, hidden: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        if hidden.dtype != torch.float32 or self._called is not None:
            return self._fresh(hidden).float()
        return multiply(self._scaled(hidden), self._room(hidden))

    def _multiplied(self, scaled: Tensor, out: Tensor) -> Tensor:
        assert self.weight is not None
        return multiply(scaled, self.weight.t(), self._bias, out)

    def apart(self, layout: Layout) -> Callable[[Tensor], Tensor]:
        """What `logits` does, in fresh memory each time, with the parameters as they are found now."""
        weight, biases, scale = self.weight, self._biases, self._scale
        assert weight is not None

        def logits(hidden: Tensor) -> Tensor:
            scaled = hidden if scale == 1.0 else hidden * scale
            if hidden.dtype != torch.float32 or weight.dtype != torch.float32:
                return F.linear(scaled, weight, _sum(biases)).float()
            by = layout.large("head", weight, _sum(biases))
            return by(scaled, hidden.new_empty(len(hidden), len(weight)))

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
            assert self.weight is not None
            return F.linear(scaled, self.weight, self._bias)
        said: Tensor = self._called(scaled[:, None])[:, 0]  # as the model calls it
        return said if self._bias is None else said + self._bias

    @torch.inference_mode()
    def _asked(self, *, is_touched: bool = False) -> tuple[float, bool]:
        """What hidden states are multiplied by, and whether that is certain.

        The model is asked about two tokens. Where it says NaN, whoever searches will say so.
        """
        answer = _answer(self._model, self._called)
        own = answer.logits.float()
        self.vocabulary_size = own.shape[1]
        if bool(own.isnan().any()):
            return 1.0, False
        said, zero = self._said(answer.read), self._said(torch.zeros_like(answer.read)).float()
        raw = said.float() - zero
        is_certain = float(raw.abs().max()) > TOLERANCE * float(own.abs().max())
        scale = _ratio(answer.read, answer.hidden) * _ratio(own - zero, raw)
        if not is_certain or abs(scale - 1.0) < TOLERANCE:
            scale = 1.0
        is_exact = {answer.logits.dtype, said.dtype} <= {torch.float32, torch.float64}
        off = float((self._said(answer.hidden * scale).float() - own).abs().max())
        if off <= (TOLERANCE if is_exact else 20 * TOLERANCE) * max(float(own.abs().max()), 1e-3):
            return scale, is_certain
        if is_touched:
            raise ScorerError(
                f"{type(self._model).__name__} has a hook on it or a forward that is not its class's, and "
                "its logits are not those of its output layer; remove that, or put it on the output layer."
            )
        raise ScorerError(self._own_way)

    @property
    def _own_way(self) -> str:
        name = type(self._model).__name__
        return f"{name} makes its logits in a way of its own, which is not supported yet."


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


def _some_of(weight: Tensor) -> tuple[float, ...]:
    """Some numbers of (vocabulary, size)."""
    numbers: list[float] = weight[:: max(1, len(weight) // NUMBERS), 0].tolist()
    return tuple(numbers)


def _ratio(numbers: Tensor, others: Tensor) -> float:
    """What others are multiplied by to come closest to numbers."""
    numbers, others = numbers.float(), others.float()
    return float((numbers * others).sum() / (others * others).sum().clamp(min=1e-30))


class _Answer(NamedTuple):
    """What a model says of two tokens.

    Attributes:
        logits: (2, vocabulary).
        hidden: (2, size), what its decoder says.
        read: (2, size), what its output layer reads.
    """

    logits: Tensor
    hidden: Tensor
    read: Tensor


def _answer(model: PreTrainedModel, layer: nn.Module | None) -> _Answer:
    """Ask a model about two tokens; layer: the output layer, where it is more than a product."""
    said: list[Tensor] = []
    read: list[Tensor] = []
    here = get_ident()  # other threads may call the model meanwhile

    def keep_said(_: nn.Module, __: Any, output: Any) -> None:
        if get_ident() == here:
            said.append(output[0])

    def keep_read(_: nn.Module, inputs: Any) -> None:
        if get_ident() == here:
            read.append(inputs[0])

    hooks = [model.get_decoder().register_forward_hook(keep_said)]
    if layer is not None:
        hooks.append(layer.register_forward_pre_hook(keep_read, prepend=True))
    ids = torch.tensor([[0, min(1, model.config.vocab_size - 1)]], device=model.device)
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    try:
        output = model(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True, **more)
    finally:
        for hook in hooks:
            hook.remove()
    return _Answer(output.logits[0], said[-1][0], (read or said)[-1][0])
