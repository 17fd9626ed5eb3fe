"""The training loop, for networks of our own and for Hugging Face models: read it top to bottom."""

from __future__ import annotations

import math
import os
import shutil
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs, DistributedType

from bidibeam.errors import RunError, TrainingError
from bidibeam.files import leftovers
from bidibeam.models import checkpoint
from bidibeam.training import state
from bidibeam.training.logs import METRICS_FILE, MetricsLog, TrainingObserver, read_metrics
from bidibeam.training.steps import GraphedStep, PlainStep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from torch import Tensor, nn

    from bidibeam.data.batching import BatchPlan, TokenBatches
    from bidibeam.data.prepared import PreparedData
    from bidibeam.hypotheses import Direction
    from bidibeam.training.optimization import Schedule

WRITTEN = (
    checkpoint.CONFIG_FILE,
    checkpoint.WEIGHTS_FILE,
    checkpoint.TOKENIZER_FILE,
    checkpoint.SOURCE_TOKENIZER_FILE,
    METRICS_FILE,
)
"""Files of a run's folder that training writes."""


class TrainingTask(Protocol):
    """A model to train, and its data.

    Attributes:
        network: Called with the tensors of a batch, it returns `Losses`.
        directions: The directions it learns, in the order of its losses.
        settings: How to train it, `LoopSettings`.
        loss_options: Further arguments of the network in training, not in evaluations.
        shares: Each direction's share of the loss that evaluations compare.
        is_capturable: Whether every step runs the same layers, and may be captured as a CUDA graph.
    """

    network: nn.Module
    directions: Sequence[Direction]
    settings: Any
    loss_options: Mapping[str, Any]
    shares: Sequence[float]
    is_capturable: bool

    def batches(self, split: str, device: torch.device) -> TokenBatches:
        """The pairs of "train" or "validation"."""
        ...

    def schedule(self, total_steps: int) -> Schedule:
        """The optimizer of the network's parameters, and what sets its learning rate."""
        ...

    def mark_started(self, run: Path) -> None:
        """Write what tells that a training was started; a checkpoint is there already."""
        ...

    def save_weights(self, run: Path) -> None:
        """Keep the weights as they are now: those that the training ends with, so far."""
        ...


class LossWindow:
    """Losses and speed since the last report, summed on the device so that no step waits for them."""

    def __init__(self, directions: Sequence[str], device: torch.device) -> None:
        self._directions = directions
        self._sums = torch.zeros(len(directions) + 1, device=device, dtype=torch.float64)
        self.restart()

    def restart(self) -> None:
        """Forget everything; the clock starts anew."""
        self._sums.zero_()
        self.steps = 0
        self._since = time.perf_counter()

    def add(self, batches: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Take in one step: each batch's summed losses, (directions,), and its tokens."""
        for sums, tokens in batches:
            self._sums += torch.cat((sums, tokens.unsqueeze(0)))
        self.steps += 1

    def record(self, accelerator: Accelerator) -> dict[str, Any]:
        """Mean losses by token and target tokens a second, of all processes and directions; then restart."""
        *losses, tokens = accelerator.reduce(self._sums).tolist()
        seconds = time.perf_counter() - self._since
        record = {f"loss_{name}": loss / tokens for name, loss in zip(self._directions, losses, strict=True)}
        record["tokens_per_s"] = round(tokens * len(losses) / max(seconds, 1e-9), 1)
        self.restart()
        return record


class TrainingLoop:
    """One training in a folder, from its first step to its end, or from its newest checkpoint if `resume`."""

    def __init__(
        self, task: TrainingTask, run: Path, *, resume: bool, observer: TrainingObserver | None = None
    ) -> None:
        self.task, self.run, self.settings = task, run, task.settings
        self.accelerator = create_accelerator()
        self.is_bf16 = is_bf16(task.settings.precision)
        self.is_main = self.accelerator.is_main_process
        self.observer = observer if observer is not None and self.is_main else TrainingObserver()
        device = self.accelerator.device
        torch.manual_seed(self.settings.seed + self.accelerator.process_index)  # each drops out other units
        self.network = task.network.to(device)
        self.batches, self.validation = (task.batches(split, device) for split in ("train", "validation"))
        for split, batches in (("train", self.batches), ("validation", self.validation)):
            if not len(batches):
                raise RunError(f"The prepared data have no {split} pairs. Prepare more conversations.")
        newest = state.newest(run) if resume else None
        self.position = self._find_position(newest)
        self.plans = self._epoch_plans()
        self.schedule = task.schedule(self.total_steps)
        self.optimizer = self.schedule.optimizer
        self.directions = [direction.value for direction in task.directions]
        self.window = LossWindow(self.directions, device)
        self.log: MetricsLog | None = None
        self._begin(newest)

    def _find_position(self, newest: Path | None) -> state.Position:
        """Where to begin or to go on, and with how many batches a step: as many as when training began."""
        position = state.Position() if newest is None else state.read_position(newest)
        if not position.batches_per_step:  # it begins, or each process counted its own, as it did once
            processes = (
                self.accelerator.num_processes if newest is None else state.count_processes(newest) or 1
            )
            position.batches_per_step = int(self.settings.accumulation) * processes
            position.batch *= processes
        return position

    def _begin(self, newest: Path | None) -> None:
        """Put the newest checkpoint back, or write the first one before anything says that there is a run."""
        self.accelerator.wait_for_everyone()
        if self.is_main:
            read_metrics(self.run)  # says what is wrong with it before anything is written
            for path in leftovers(self.run, WRITTEN):
                path.unlink(missing_ok=True)
        if newest is not None:
            seeds = self.settings.seed, self.position.step
            state.load(newest, self.network, self.optimizer, self.accelerator, seeds=seeds)
            self.schedule.restore(self.position.scheduler, self.position.learning_rate or 0.0)
        else:
            if self.is_main:
                shutil.rmtree(self.run / state.FOLDER, ignore_errors=True)
            self._save()
        if self.is_main:
            self.task.mark_started(self.run)
            position, tensorboard = self.position, self.settings.tensorboard
            self.log = MetricsLog(
                self.run, step=position.step, evaluated_step=position.evaluated_step, tensorboard=tensorboard
            )

    def fit(self) -> None:
        """Train until the epochs are over, the loss no longer falls, or something breaks.

        Raises:
            TrainingError: If the loss stops being finite; the last good checkpoint is kept.
        """
        if self.accelerator.num_processes > 1:
            unused = DistributedDataParallelKwargs(find_unused_parameters=self._skips_parameters())
            self.accelerator.ddp_handler = unused
        model, optimizer = self.accelerator.prepare(self.network, self.optimizer)
        alone_on_gpu = self.accelerator.device.type == "cuda" and self.accelerator.num_processes == 1
        may_capture = self.settings.cuda_graphs and self.task.is_capturable and alone_on_gpu
        kind = GraphedStep if may_capture else PlainStep
        take_step = kind(self.accelerator, model, optimizer, self.task, self.batches, self._autocast)
        position, settings = self.position, self.settings
        metadata = {
            "parameters": sum(parameter.numel() for parameter in self.network.parameters()),
            "pairs": len(self.batches),
            "device": str(self.accelerator.device),
            "precision": "bf16" if self.is_bf16 else "float32",
            "directions": self.directions,
            "processes": self.accelerator.num_processes,
        }
        self.observer.on_start(step=position.step, total_steps=self.total_steps, metadata=metadata)
        model.train()
        try:
            if position.stopped_by is not None:  # a kill may have come in its last evaluation
                self._evaluate_end()
            while plans := self._next_batches():
                self.schedule.begin_step(position.step)
                self.window.add(take_step(plans))
                position.step += 1
                position.batch += len(plans)
                self.observer.on_step(step=position.step)
                every, is_epoch_over = settings.evaluate_every, position.batch == len(self.plans)
                if position.step % every == 0 if every else is_epoch_over:
                    self._report()
                    self._evaluate()
                    self._save()
                elif settings.save_every and position.step % settings.save_every == 0:
                    self._report()
                    self._save()
                elif position.step % settings.log_every == 0:
                    self._report()
            self._report()
            self._evaluate_end()
        finally:
            if self.log is not None:
                self.log.close()
        self.observer.on_end(
            step=position.step, stopped_by=position.stopped_by or "", best_loss=position.best_loss
        )

    def _skips_parameters(self) -> bool:
        """Whether a step may leave parameters without a gradient, for which the processes must not wait.

        So it is with layers that are dropped at random, and with a model's eyes if it reads text alone.
        """
        if not self.task.is_capturable:
            return True
        device, plan = self.accelerator.device, self.batches.plan(seed=None)[0]
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            row = self.batches.batch(replace(plan, indices=plan.indices[:1]))
            self.network(*row).total.backward()
        trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        is_skipped = any(parameter.grad is None for parameter in trained)
        self.network.zero_grad()
        return is_skipped

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of an epoch, the same in every epoch."""
        return -(-len(self.plans) // self.position.batches_per_step)

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole training, unless it stops early."""
        steps, most = self.settings.epochs * self.steps_per_epoch, self.settings.max_steps
        return int(min(steps, most) if most else steps)

    def _next_batches(self) -> Sequence[BatchPlan]:
        """The batches of the next step, none when training is over; the position then says why."""
        position, settings = self.position, self.settings
        if position.batch >= len(self.plans):
            position.epoch, position.batch = position.epoch + 1, 0
            self.plans = self._epoch_plans()
        if settings.early_stopping and position.stale_evaluations >= settings.early_stopping:
            position.stopped_by = "early_stopping"
        elif settings.max_steps and position.step >= settings.max_steps:
            position.stopped_by = "max_steps"
        elif position.epoch >= settings.epochs:
            position.stopped_by = "epochs"
        else:
            position.stopped_by = None
            return self.plans[position.batch : position.batch + position.batches_per_step]
        return []

    def _epoch_plans(self) -> list[BatchPlan]:
        """The batches of the epoch in progress, of all processes."""
        return self.batches.plan(seed=(self.settings.seed, self.position.epoch))

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.accelerator.device.type, torch.bfloat16) if self.is_bf16 else nullcontext()

    def _report(self) -> None:
        if not self.window.steps:
            return
        record = self.window.record(self.accelerator)
        record["learning_rate"] = self.schedule.learning_rate
        losses = {name: value for name, value in record.items() if name.startswith("loss_")}
        self._require_finite("training loss", losses)
        if self.log is not None:
            self.log.write("train", self.position.step, record)
        self.observer.on_report(step=self.position.step, record=record)

    def _evaluate_end(self) -> None:
        """Evaluate where training ends, unless that is done, between two checkpoints.

        The first says that training ended here: if it is killed in between and then prolonged, it is still
        evaluated here, as if it had not been killed.
        """
        if self.position.evaluated_step != self.position.step:
            self._save()
            self._evaluate(is_scheduled=False)
        self._save()

    def _evaluate(self, *, is_scheduled: bool = True) -> None:
        """Measure the validation loss; keep the weights if it is the lowest so far, or the last is wanted.

        One that is not scheduled, where training happens to end, leaves the schedules as they are: a run that
        is prolonged goes on as if it had never stopped.
        """
        position = self.position
        position.evaluated_step = position.step
        losses = self._validation_losses()
        record = {f"loss_{name}": loss for name, loss in zip(self.directions, losses, strict=True)}
        self._require_finite("validation loss", record)
        loss = sum(share * value for share, value in zip(self.task.shares, losses, strict=True))
        is_best = position.best_loss is None or loss < position.best_loss
        position.best_loss = loss if is_best else position.best_loss
        if (is_best or self.settings.keep == "last") and self.is_main:
            self.task.save_weights(self.run)
        if is_scheduled:
            is_lowest = position.lowest_scheduled is None or loss < position.lowest_scheduled
            position.lowest_scheduled = loss if is_lowest else position.lowest_scheduled
            position.stale_evaluations = 0 if is_lowest else position.stale_evaluations + 1
            self.schedule.after_evaluation(loss)
        evaluation = {"epoch": position.epoch, "loss": loss, **record, "best_loss": position.best_loss}
        if self.log is not None:
            self.log.write("validation", position.step, evaluation)
        self.observer.on_evaluation(step=position.step, record=evaluation)
        self.window.restart()

    def _validation_losses(self) -> list[float]:
        """Each direction's mean loss, every target token counted alike."""
        self.network.eval()
        device = self.accelerator.device
        sums = torch.zeros(len(self.directions), device=device)  # (directions,)
        tokens = torch.zeros((), device=device)
        plans = self.validation.plan(seed=None)
        for plan in plans[self.accelerator.process_index :: self.accelerator.num_processes]:
            with torch.no_grad(), self._autocast():
                losses = self.network(*self.validation.batch(plan))
            sums += losses.sums
            tokens += losses.tokens
        sums, tokens = self.accelerator.reduce(sums), self.accelerator.reduce(tokens)
        self.network.train()
        means: list[float] = (sums / tokens).tolist()
        return means

    def _save(self) -> None:
        weights = {"weights": float(sum(p.detach().double().sum() for p in self.network.parameters()))}
        self._require_finite("sum of the weights", weights)
        self.position.learning_rate = self.schedule.learning_rate
        self.position.scheduler = self.schedule.state()
        state.save(self.run, self.position, self.network, self.optimizer, self.accelerator)
        self.window.restart()

    def _require_finite(self, what: str, values: dict[str, float]) -> None:
        if all(math.isfinite(value) for value in values.values()):
            return
        kept = state.newest(self.run)
        listed = ", ".join(f"{name}={value}" for name, value in values.items())
        raise TrainingError(
            f"The {what} is not finite by step {self.position.step} ({listed}). The last good checkpoint is "
            f"{kept.name if kept else 'none yet'}; lower learning_rate "
            f"(now {self.schedule.learning_rate:g}) or gradient_norm, and train again."
        )


def create_accelerator() -> Accelerator:
    """What joins the processes that a launcher started.

    Raises:
        TrainingError: If they would not train one whole model together.
    """
    accelerator = Accelerator(mixed_precision="no")  # of this process; autocast is of this training
    kind, launched = accelerator.distributed_type, os.environ.get("WORLD_SIZE", "1")
    if kind in (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM):
        raise TrainingError(
            f"Training under {kind.value} is not possible: no process has all the weights that a checkpoint "
            "needs. Launch it with --multi_gpu, by which every GPU holds the whole model."
        )
    if launched != str(accelerator.num_processes):
        raise TrainingError(
            f"{launched} processes were launched, but each would train by itself in the same folder. On a "
            "machine without GPUs, set ACCELERATE_USE_CPU=true."
        )
    return accelerator


def is_bf16(precision: str) -> bool:
    """Whether to compute in bf16: where it is asked for, or where a GPU has it."""
    if precision == "auto":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return precision == "bf16"


def describe_data(data: PreparedData, *, own_tokens: bool = True) -> dict[str, Any]:
    """What is written beside a model of the data it was trained on: lengths if the tokens are the model's."""
    kept = {name: data.info[name] for name in ("corpus", "fingerprint", "pairs", "settings")}
    lengths = np.sort(data.split("train").response_length)
    median = {"lengths": {"response": int(lengths[(len(lengths) - 1) // 2])}} if own_tokens else {}
    return {"path": str(data.path.resolve()), **kept, **median}
