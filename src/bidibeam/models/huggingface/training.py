"""A Hugging Face model as the training loop sees it: batches of token ids in, losses by direction out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from bidibeam.data.batching import IGNORED
from bidibeam.errors import SettingsError
from bidibeam.files import writing
from bidibeam.models.base import Losses
from bidibeam.models.checkpoint import SOURCE_TOKENIZER_FILE
from bidibeam.models.huggingface.configs import find_max_positions
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq

if TYPE_CHECKING:
    from pathlib import Path


class ModelWithLoss(nn.Module):
    """A model of either kind, or a joint one, that returns the `Losses` of a batch of `TokenBatches`.

    Only the hidden states that predict a label pass the output projection.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    @property
    def has_fixed_layers(self) -> bool:
        """Whether every forward pass runs the same layers; with layerdrop the CPU chooses some at random."""
        configs = [self.model.config, getattr(self.model.config, "base_config", None)]
        names = ("layerdrop", "encoder_layerdrop", "decoder_layerdrop")
        return not any(getattr(config, name, 0) for config in configs for name in names)

    def forward(
        self,
        input_ids: Tensor,
        lengths: Tensor,
        labels: Tensor,
        is_real: Tensor,
        label_smoothing: float = 0.0,
    ) -> Losses:
        """Teacher forcing in every direction, in one pass over the encoder."""
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        inputs = {"input_ids": input_ids, "attention_mask": (positions < lengths.unsqueeze(1)).long()}
        targets = labels.masked_fill(~is_real.unsqueeze(1), IGNORED)  # (directions, rows, response)
        is_joint = isinstance(self.model, BidirectionalSeq2Seq)
        halves = [self.model.regular, self.model.reverse] if is_joint else [self.model]
        tokens = (targets[0] != IGNORED).sum()
        totals, sums = [], []
        if is_joint:
            encoded = self.model.get_encoder()(**inputs, return_dict=True)
            inputs = {"encoder_outputs": encoded, "attention_mask": inputs["attention_mask"]}
        for half, target, label in zip(halves, targets, labels, strict=True):
            logits, wanted = _target_logits(half, inputs, lengths, label, target)
            total, plain = CrossEntropy.apply(logits, wanted, label_smoothing)  # type: ignore[no-untyped-call]
            totals.append(total)
            sums.append(plain)
        total = torch.stack(totals).sum() / tokens
        if is_joint and self.model.config.reduction == "mean":
            total = total / len(halves)
        return Losses(total, torch.stack(sums), tokens)


class CrossEntropy(torch.autograd.Function):
    """Cross-entropies of (rows, vocabulary) logits, summed: with smoothed labels, and without.

    Nothing of the size of the logits is in float32: of a batch it would be the largest tensor by far.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """The two sums; the second has no gradient."""
        is_real, targets = targets != IGNORED, targets.clamp(min=0).unsqueeze(1)  # (rows,), (rows, 1)
        slope = torch.softmax(logits, dim=-1)  # (rows, vocabulary)
        likelihood = slope.gather(1, targets)  # (rows, 1)
        tiny = torch.finfo(torch.float32).tiny
        losses = -likelihood.squeeze(1).float().clamp_min(tiny).log()  # (rows,)
        slope.scatter_(1, targets, likelihood - (1 - smoothing))
        ctx.save_for_backward(slope, is_real)
        ctx.smoothing = smoothing
        plain = torch.where(is_real, losses, 0.0).sum()
        ctx.mark_non_differentiable(plain)
        if not smoothing:
            return plain.clone(), plain
        log_sums = logits.gather(1, targets).squeeze(1).float() + losses  # (rows,)
        spread = log_sums - logits.mean(dim=1, dtype=torch.float32)  # (rows,), over all tokens alike
        return torch.where(is_real, (1 - smoothing) * losses + smoothing * spread, 0.0).sum(), plain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        """Probabilities less the labels."""
        slope, is_real = ctx.saved_tensors
        scale = (grad * is_real).to(slope.dtype).unsqueeze(1)  # (rows, 1)
        return torch.addcmul(scale * (-ctx.smoothing / slope.shape[1]), slope, scale), None, None


def _target_logits(
    model: Any, inputs: dict[str, Any], lengths: Tensor, labels: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Logits and the targets that they predict, (predicted, vocabulary) and (predicted,).

    A model of one direction, or its encoder, reads `inputs`, of (rows,) `lengths`. Labels and targets are
    (rows, response); in targets, rows that do not count are masked.
    """
    positions: Tensor | None = None
    if model.config.is_encoder_decoder:
        inputs = {**inputs, "decoder_input_ids": _decoder_inputs(model, labels)}
    else:
        prompt = lengths - (labels != IGNORED).sum(dim=1)  # (rows,)
        positions = prompt.unsqueeze(1) - 1 + torch.arange(labels.shape[1], device=labels.device)
        positions = positions.clamp(max=inputs["input_ids"].shape[1] - 1)
    real = (targets != IGNORED).flatten().nonzero().squeeze(1) if labels.device.type == "cpu" else None

    def select(hidden: Tensor) -> Tensor:
        """The rows of (rows, length, units) that predict a label."""
        if positions is not None:
            hidden = hidden.gather(1, positions.unsqueeze(2).expand(-1, -1, hidden.shape[2]))
        if real is not None:  # elsewhere shapes stay fixed, so that the step can be captured
            hidden = hidden.flatten(0, 1)[real].unsqueeze(0)
        return hidden

    head = model.get_output_embeddings()
    if head is None:
        logits = select(model(**inputs, use_cache=False).logits)
    else:
        hook = head.register_forward_pre_hook(lambda _, args: (select(args[0]), *args[1:]))
        try:
            logits = model(**inputs, use_cache=False).logits
        finally:
            hook.remove()
    wanted = targets.flatten() if real is None else targets.flatten()[real]
    return logits.flatten(0, 1) if torch.is_grad_enabled() else logits.flatten(0, 1).float(), wanted


def _decoder_inputs(model: Any, labels: Tensor) -> Tensor:
    """What a decoder reads to predict labels: its start token, then each label but the last."""
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        inputs: Tensor = model.prepare_decoder_input_ids_from_labels(labels=labels)
        return inputs
    config = model.config
    shifted = labels.roll(1, dims=1).masked_fill(labels.roll(1, dims=1) == IGNORED, config.pad_token_id)
    shifted[:, 0] = config.decoder_start_token_id
    return shifted


def check_positions(model: Any, *, max_source_length: int, max_response_length: int) -> None:
    """Refuse lengths for which a model has no positions, naming lengths that fit."""
    config = (model.regular if isinstance(model, BidirectionalSeq2Seq) else model).config
    positions, has_encoder = find_max_positions(config), config.is_encoder_decoder
    lengths = max_source_length, max_response_length
    if positions is None or (max(lengths) if has_encoder else sum(lengths)) <= positions:
        return
    if positions < 2:
        raise SettingsError(f"The model has max_position_embeddings {positions}: no text fits into it.")
    response = min(max_response_length, positions if has_encoder else positions // 2)
    source = min(max_source_length, positions if has_encoder else positions - response)
    fitting = {"max_source_length": (source, lengths[0]), "max_response_length": (response, lengths[1])}
    advice = " and ".join(f"{name}={value}" for name, (value, now) in fitting.items() if value != now)
    raise SettingsError(
        f"The model has {positions:,} positions, too few for sources of {lengths[0]} and responses of "
        f"{lengths[1]} tokens: lower them, as {advice}."
    )


def check_generation_config(model: Any) -> None:
    """Refuse a generation config that transformers would not save with the trained weights."""
    halves = (model.regular, model.reverse) if isinstance(model, BidirectionalSeq2Seq) else (model,)
    for half in halves:
        try:
            half.generation_config.validate(strict=True)
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise SettingsError(
                f"generation_config.json could not be saved with the trained model: {reason[:200]}. Mend it."
            ) from error


def save_model(model: Any, tokenizer: Any, source_tokenizer: Any, folder: Path) -> None:
    """Write a model and its tokenizer as `from_pretrained` reads them; and that of sources, if another."""
    if not model.config.is_encoder_decoder:
        # A prompt goes on where it ends; what is saved are the arguments that a tokenizer was made with.
        tokenizer.padding_side = tokenizer.init_kwargs["padding_side"] = "left"
    with writing(folder):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if source_tokenizer is not tokenizer:
            source_tokenizer.backend_tokenizer.save(str(folder / SOURCE_TOKENIZER_FILE))
