"""One optimizer step, run plainly or replayed from captured CUDA graphs."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from accelerate import Accelerator
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from bidibeam.data.batching import BatchPlan, TokenBatches
    from bidibeam.models.base import Losses
    from bidibeam.training.loop import TrainingTask

    BatchLosses = list[tuple[Tensor, Tensor]]  # each batch's summed losses, (directions,), and its tokens

_LOG = logging.getLogger(__name__)


@dataclass
class PlainStep:
    """Forward, backward, clip, update: anywhere, on any number of processes."""

    accelerator: Accelerator
    model: nn.Module
    optimizer: Optimizer
    task: TrainingTask
    batches: TokenBatches
    autocast: Callable[[], AbstractContextManager[Any]]

    def __call__(self, plans: Sequence[BatchPlan]) -> BatchLosses:
        """Take one step over the batches of all processes, of which this one has a share.

        Nothing waits for the device. What is returned are the losses of this process.
        """
        self.optimizer.zero_grad()
        processes = self.accelerator.num_processes
        step_tokens = sum(plan.tokens for plan in plans)
        own = self.batches.share(plans, processes, self.accelerator.process_index)
        results = []
        for number, plan in enumerate(own, start=1):
            with nullcontext() if number == len(own) else self.accelerator.no_sync(self.model):
                # The processes' gradients are averaged, and wanted is their sum.
                losses = self._backward(self.batches.batch(plan), plan.tokens / step_tokens * processes)
            if plan.tokens:
                results.append((losses.sums.detach(), losses.tokens))
        self._update()
        return results

    def _backward(self, batch: Sequence[Tensor], share: float | Tensor) -> Losses:
        """Add a batch's gradients, each token of the step counting alike."""
        with self.autocast():
            losses: Losses = self.model(*batch, **self.task.loss_options)
        (losses.total * share).backward()  # type: ignore[no-untyped-call]
        return losses

    def _update(self) -> None:
        self.accelerator.clip_grad_norm_(self.model.parameters(), self.task.settings.gradient_norm)
        self.optimizer.step()


class CapturedPass(NamedTuple):
    """The forward and backward pass of one batch shape; a replay reads `batch` and `share`."""

    graph: torch.cuda.CUDAGraph
    batch: list[Tensor]
    share: Tensor
    sums: Tensor
    tokens: Tensor


class GraphedStep(PlainStep):
    """The same on one GPU, where a shape's forward and backward pass are captured once and then replayed.

    A step is hundreds of small kernels, and launching them one by one takes Python longer than the GPU needs
    to run them. Batches are filled up to `batch_size` rows so that a shape is its two lengths alone. A model
    that cannot be captured trains by plain steps.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._captured: dict[tuple[int, int], CapturedPass] = {}
        self._pool: Any = None
        self._is_plain = False

    def __call__(self, plans: Sequence[BatchPlan]) -> BatchLosses:
        """Take one step over some batches; nothing waits for the device."""
        if not self._is_plain:
            try:
                return self._replay(plans)
            except RuntimeError as error:
                self._is_plain = True
                self._captured.clear()
                generator = torch.cuda.default_generators[torch.cuda.current_device()]
                generator.graphsafe_set_state(generator.clone_state())  # which still believes in the capture
                _LOG.warning("The training step cannot be captured as a CUDA graph (%s): plain steps.", error)
        return super().__call__(plans)

    def _replay(self, plans: Sequence[BatchPlan]) -> BatchLosses:
        batches = [self.batches.batch(plan, rows=self.task.settings.batch_size) for plan in plans]
        shapes = [(plan.source_width, plan.response_width) for plan in plans]
        for shape, batch in zip(shapes, batches, strict=True):
            if shape not in self._captured:
                self._captured[shape] = self._capture(batch)
        torch._foreach_zero_([p.grad for p in self.model.parameters() if p.grad is not None])
        step_tokens = sum(plan.tokens for plan in plans)
        results = []
        for plan, shape, batch in zip(plans, shapes, batches, strict=True):
            captured = self._captured[shape]
            torch._foreach_copy_(captured.batch, list(batch))
            captured.share.fill_(plan.tokens / step_tokens)
            captured.graph.replay()
            results.append((captured.sums.clone(), captured.tokens.clone()))
        self._update()
        return results

    def _capture(self, batch: Sequence[Tensor]) -> CapturedPass:
        held, share = [tensor.clone() for tensor in batch], torch.ones((), device=batch[0].device)
        random_state = torch.cuda.get_rng_state()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries choose and allocate on a first run, which none may record
            self._backward(held, share)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.set_rng_state(random_state)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            losses = self._backward(held, share)
            sums, tokens = losses.sums.detach(), losses.tokens
        self._pool = self._pool or graph.pool()
        return CapturedPass(graph, held, share, sums, tokens)
