"""The chunked cross-entropy against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from bidibeam.models.gru import projection
from bidibeam.models.gru.projection import projected_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
def test_losses_and_gradients_equal_pytorchs(
    monkeypatch: pytest.MonkeyPatch, chunk_rows: int, smoothing: float
) -> None:
    monkeypatch.setitem(projection.CHUNK_ELEMENTS, "cpu", 11 * chunk_rows)
    generator = torch.Generator().manual_seed(3)
    tensors = [torch.randn(*shape, generator=generator) for shape in ((8, 5), (11, 5), (11,))]
    targets = torch.randint(11, (8,), generator=generator)
    row_weights = torch.rand(8, generator=generator)
    row_weights[2] = 0
    ours = [tensor.clone().requires_grad_() for tensor in tensors]
    theirs = [tensor.clone().requires_grad_() for tensor in tensors]

    total, losses = projected_cross_entropy(ours[0], ours[1], ours[2], targets, row_weights, smoothing)
    logits = theirs[0] @ theirs[1].T + theirs[2]
    expected = F.cross_entropy(logits, targets, reduction="none")
    smoothed = F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)

    torch.testing.assert_close(losses, expected.detach())
    torch.testing.assert_close(total, (expected * row_weights).sum())
    torch.autograd.backward(3 * total)
    torch.autograd.backward(3 * (smoothed * row_weights).sum())
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad, their.grad)


def test_without_gradient_the_losses_are_the_same() -> None:
    hidden, weight, bias = torch.randn(4, 5), torch.randn(7, 5), torch.randn(7)
    targets, row_weights = torch.tensor([0, 6, 3, 3]), torch.ones(4)

    _, losses = projected_cross_entropy(hidden, weight, bias, targets, row_weights)

    torch.testing.assert_close(losses, F.cross_entropy(hidden @ weight.T + bias, targets, reduction="none"))


def test_under_no_grad_no_gradient_is_built_and_no_loss_is_rounded() -> None:
    hidden = torch.tensor([[1000.0]]).requires_grad_()
    weight = torch.nn.Parameter(torch.tensor([[1.0], [-1.0]]))

    with torch.no_grad():
        total, _ = projected_cross_entropy(hidden, weight, torch.zeros(2), torch.tensor([1]), torch.ones(1))
    finite, _ = projected_cross_entropy(hidden, weight, torch.zeros(2), torch.tensor([1]), torch.ones(1))

    assert float(total) == 2000  # of a probability that is built for a gradient, 87 would be left
    assert not total.requires_grad
    assert torch.isfinite(finite)  # though the model rules the word out
