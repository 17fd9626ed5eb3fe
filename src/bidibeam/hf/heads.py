"""From a decoder's last hidden state to logits, without memory that is fresh every time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from bidibeam.errors import ScorerError
from bidibeam.hf.steps.layout import multiply

TOLERANCE = 1e-3
"""How far our logits may be from the model's own, relative to the largest of them."""
SCORED_LOGITS = 1 << 26
"""Logits worked on at once when sequences are scored: a bound on the memory needed."""

_SCALES: WeakKeyDictionary[PreTrainedModel, float] = WeakKeyDictionary()


class Head:
    """The output layer of a model: hidden states times output embeddings, perhaps scaled, plus a bias.

    That it is so, and the scale, is found by asking the model once.

    Args:
        model: The model.

    Raises:
        ScorerError: If the model's logits come about in another way.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self.renew()
        if model not in _SCALES:
            _SCALES[model] = _scale(model, self.weight, self._bias)
        self._scale = _SCALES[model]
        self._logits = self.weight.new_empty(0)

    def renew(self) -> None:
        """Look at the model's parameters again: they may be others now."""
        layer = self._model.get_output_embeddings()
        if layer is None or getattr(layer, "weight", None) is None:
            raise ScorerError(f"{type(self._model).__name__} has no output embeddings, so it cannot write.")
        self.weight: Tensor = layer.weight.detach()
        """(vocabulary, size)."""
        self._bias = _bias(self._model, layer)

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
        if hidden.dtype != torch.float32:
            return self._fresh(hidden).float()
        needed = len(hidden) * self.vocabulary_size
        if self._logits.numel() < needed or self._logits.device != hidden.device:
            self._logits = hidden.new_empty(needed)
        out = self._logits[:needed].view(len(hidden), -1)
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
        weight, bias, scale = self.weight, self._bias, self._scale

        def logits(hidden: Tensor) -> Tensor:
            return F.linear(hidden if scale == 1.0 else hidden * scale, weight, bias).float()

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

    def _fresh(self, hidden: Tensor) -> Tensor:
        return F.linear(self._scaled(hidden), self.weight, self._bias)

    def _scaled(self, hidden: Tensor) -> Tensor:
        return hidden if self._scale == 1.0 else hidden * self._scale


def _bias(model: PreTrainedModel, layer: torch.nn.Module) -> Tensor | None:
    """What is added to the logits, (vocabulary,), if it is anything."""
    parts = [getattr(layer, "bias", None), getattr(model, "final_logits_bias", None)]
    found = [part.detach().flatten() for part in parts if part is not None and bool((part != 0).any())]
    return sum(found[1:], found[0]) if found else None


@torch.inference_mode()
def _scale(model: PreTrainedModel, weight: Tensor, bias: Tensor | None) -> float:
    """What hidden states are multiplied by; the model is asked about two tokens."""
    seen: list[Tensor] = []
    hook = model.get_decoder().register_forward_hook(lambda _, __, output: seen.append(output[0]))
    ids = torch.tensor([[0, min(1, len(weight) - 1)]], device=model.device)
    more = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    try:
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more).logits[0].float()
    finally:
        hook.remove()
    own = logits if bias is None else logits - bias.float()
    raw = F.linear(seen[-1][0], weight).float()
    scale = float((own * raw).sum() / (raw * raw).sum().clamp(min=1e-30))
    if abs(scale - 1.0) < TOLERANCE:
        scale = 1.0
    tolerance = TOLERANCE if weight.dtype == torch.float32 else 20 * TOLERANCE
    if float((raw * scale - own).abs().max()) > tolerance * max(float(own.abs().max()), 1e-3):
        raise ScorerError(
            f"{type(model).__name__} makes its logits in a way of its own, which is not supported yet."
        )
    return scale
