"""Cross-entropy through the output projection, without keeping a score for every word of every token.

The logits are the largest tensor of training by far: tokens x vocabulary. Here they live one chunk at a time:
each chunk's loss and gradient are computed while it is there, and only sums remain.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

CHUNK_ELEMENTS = {"cpu": 1 << 21, "cuda": 1 << 28}
"""Logits held at once: about a cache's worth on a CPU, half a gigabyte of bf16 on a GPU."""

EXTRA_COLUMNS = 8


class ProjectedCrossEntropy(torch.autograd.Function):
    """Weighted sum of the rows' cross-entropies, and each row's own (which carries no gradient).

    Inputs: hidden (rows, width); weight (vocabulary, width); bias (vocabulary,); targets (rows,);
    row_weights (rows,); the share of probability that labels spread over all words. Only the gradient knows
    of that share: the sum and the rows' own are of the labels as they are.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        row_weights: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        """Compute losses and, chunk by chunk, their gradients."""
        losses = torch.empty(hidden.shape[0], dtype=torch.float32, device=hidden.device)  # (rows,)
        slopes = _Slopes(hidden, weight, row_weights, smoothing) if any(ctx.needs_input_grad) else None
        chunk = max(1, CHUNK_ELEMENTS.get(hidden.device.type, 1 << 24) // weight.shape[0])
        for start in range(0, hidden.shape[0], chunk):
            rows = slice(start, start + chunk)
            target = targets[rows].unsqueeze(1)  # (chunk, 1)
            logits = torch.addmm(bias, hidden[rows], weight.t())  # (chunk, vocabulary)
            if slopes is None:
                log_probs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
                losses[rows] = -log_probs.gather(1, target).squeeze(1)
            else:
                losses[rows] = slopes.add(logits, target, rows)
        if slopes is not None:
            ctx.save_for_backward(*slopes.gradients())
            ctx.dtypes = weight.dtype, bias.dtype
        ctx.mark_non_differentiable(losses)
        return torch.dot(losses, row_weights), losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_total: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Scale what the forward pass already knows."""
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        weight_dtype, bias_dtype = ctx.dtypes
        return (
            grad_hidden * grad_total.to(grad_hidden.dtype),
            (grad_weight * grad_total).to(weight_dtype),
            (grad_bias * grad_total).to(bias_dtype),
            None,
            None,
            None,
        )


class _Slopes:
    """The gradients of a weighted sum of cross-entropies, summed up chunk by chunk.

    A row's slope by its logits is its probabilities, less those of its label, times its weight. The weight is
    applied to the narrow side of each product, and a column of ones there makes the bias's gradient a part of
    the weight's, so the wide side is read by two products and by nothing else. The column comes with others
    of zeros, since tensor cores want widths that are multiples of eight.
    """

    def __init__(self, hidden: Tensor, weight: Tensor, row_weights: Tensor, smoothing: float) -> None:
        self._weight = weight
        self._smoothing = smoothing
        self._row_weights = row_weights.unsqueeze(1).to(hidden.dtype)  # (rows, 1)
        extended = F.pad(F.pad(hidden, (0, 1), value=1.0), (0, EXTRA_COLUMNS - 1))
        self._weighted = extended * self._row_weights  # (rows, width + extra)
        self._grad_hidden = torch.empty_like(hidden)
        self._grad_weight = torch.zeros(
            weight.shape[0], self._weighted.shape[1], dtype=torch.float32, device=weight.device
        )

    def add(self, logits: Tensor, target: Tensor, rows: slice) -> Tensor:
        """Take in a chunk; return its rows' losses. Half precision rounds these by 0.4 % of a probability."""
        slope = torch.softmax(logits, dim=-1, dtype=logits.dtype)  # (chunk, vocabulary)
        likelihood = slope.gather(1, target)  # (chunk, 1)
        slope.scatter_(1, target, likelihood - (1 - self._smoothing))
        if self._smoothing:
            slope -= self._smoothing / slope.shape[1]
        self._grad_hidden[rows] = (slope @ self._weight) * self._row_weights[rows]
        self._grad_weight += slope.t() @ self._weighted[rows]
        return -likelihood.squeeze(1).float().clamp_min(torch.finfo(torch.float32).tiny).log()

    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """By hidden, by weight and by bias."""
        width = self._weight.shape[1]
        return self._grad_hidden, self._grad_weight[:, :width], self._grad_weight[:, width]


def projected_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, row_weights: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The weighted total and the rows' losses; see `ProjectedCrossEntropy`."""
    if not torch.is_grad_enabled():  # which a function of autograd's cannot see from inside
        hidden, weight, bias = hidden.detach(), weight.detach(), bias.detach()
    total, losses = ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden, weight, bias, targets, row_weights, smoothing
    )
    return total, losses
