"""One optimizer step, run plainly or replayed from a captured CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim import Optimizer

from bidibeam.data.batching import Batch, BatchPlan, PairBatches
from bidibeam.models.base import Losses
from bidibeam.training.settings import TrainingSettings


@dataclass
class PlainStep:
    """Forward, backward, clip, update: anywhere, on any number of processes."""

    accelerator: Accelerator
    model: nn.Module
    optimizer: Optimizer
    settings: TrainingSettings

    def __call__(self, batches: PairBatches, plan: BatchPlan) -> tuple[Tensor, Tensor]:
        """Take one step; return the directions' summed losses and the token count."""
        self.optimizer.zero_grad()
        losses = self._backward(batches.batch(plan))
        self._update()
        return losses.sums.detach(), losses.tokens

    def _backward(self, batch: Batch) -> Losses:
        losses: Losses = self.model(*batch.tensors(), regular_weight=self.settings.regular_weight)
        self.accelerator.backward(losses.total)
        return losses

    def _update(self) -> None:
        self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.gradient_norm)
        self.optimizer.step()


@dataclass(frozen=True, slots=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    batch: Batch
    sums: Tensor
    tokens: Tensor


class GraphedStep(PlainStep):
    """The same on one GPU, launched as a whole: a shape's forward and backward pass are captured once.

    A step is hundreds of small kernels, and launching them one by one takes Python longer than the GPU needs
    to run them. Batches are filled up to `batch_size` lines so that a shape is its two lengths alone.
    """

    def __init__(
        self, accelerator: Accelerator, model: nn.Module, optimizer: Optimizer, settings: TrainingSettings
    ) -> None:
        super().__init__(accelerator, model, optimizer, settings)
        self._captured: dict[tuple[int, int], _Captured] = {}
        self._pool: Any = None

    def __call__(self, batches: PairBatches, plan: BatchPlan) -> tuple[Tensor, Tensor]:
        """Take one step; return the directions' summed losses and the token count."""
        batch = batches.batch(plan, rows=self.settings.batch_size)
        shape = plan.source_width, plan.response_width
        if shape not in self._captured:
            self._captured[shape] = self._capture(batch)
        captured = self._captured[shape]
        for held, new in zip(captured.batch.tensors(), batch.tensors(), strict=True):
            held.copy_(new)
        captured.graph.replay()
        self._update()
        return captured.sums.clone(), captured.tokens.clone()

    def _capture(self, batch: Batch) -> _Captured:
        held = Batch(*(tensor.clone() for tensor in batch.tensors()))
        random_state = torch.cuda.get_rng_state()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries choose and allocate on a first run, which none may record
            self._backward(held)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.set_rng_state(random_state)
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            torch._foreach_zero_(gradients)
            losses = self._backward(held)
            sums, tokens = losses.sums.detach(), losses.tokens
        self._pool = self._pool or graph.pool()
        return _Captured(graph, held, sums, tokens)


def make_step(
    accelerator: Accelerator, model: nn.Module, optimizer: Optimizer, settings: TrainingSettings
) -> PlainStep:
    """The fastest step that the device allows."""
    alone_on_gpu = accelerator.device.type == "cuda" and accelerator.num_processes == 1
    kind = GraphedStep if settings.cuda_graphs and alone_on_gpu else PlainStep
    return kind(accelerator, model, optimizer, settings)
