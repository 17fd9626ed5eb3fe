"""The training loop: read it top to bottom."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from bidibeam.data.batching import BatchPlan, PairBatches
from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError, TrainingError
from bidibeam.files import leftovers, names_in
from bidibeam.models import checkpoint
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.training import state
from bidibeam.training.logs import METRICS_FILE, MetricsLog, Silence, TrainingObserver
from bidibeam.training.settings import TrainingSettings
from bidibeam.training.steps import make_step

WRITTEN = (checkpoint.CONFIG_FILE, checkpoint.WEIGHTS_FILE, checkpoint.TOKENIZER_FILE, METRICS_FILE)
"""Files of a run's folder that training writes."""
MAY_CHANGE_ON_RESUME = {"epochs", "max_steps", "early_stopping", "save_every", "log_every", "tensorboard"}
NEVER = 2**60
SCHEDULE_PROGRESS = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")


def train(
    data: PreparedData,
    run: Path,
    *,
    model_settings: ModelSettings,
    settings: TrainingSettings,
    initialise: Callable[[BidirectionalModel], None] | None = None,
    resume: bool = False,
    observer: TrainingObserver | None = None,
    facts: Mapping[str, Any] | None = None,
) -> state.Position:
    """Train a model into a run directory, or go on where a killed run left off.

    Args:
        data: Prepared pairs.
        run: Where config.json, model.safetensors (the best weights, or the last), tokenizer.json,
            metrics.jsonl and training/ (the last state) go.
        model_settings: The network's shape.
        settings: How to train it.
        initialise: Changes the fresh network's weights, to start from pretrained embeddings, say.
        resume: Continue from the newest checkpoint in `run`, if there is one.
        observer: Told what happens.
        facts: Kept in config.json: where pretrained embeddings came from, say.

    Raises:
        RunError: If `run` holds something already, or does not belong to these data and settings.
        TrainingError: If the loss stops being finite; the last good checkpoint is kept.
    """
    trainer = Trainer(data, run, model_settings, settings, observer or Silence())
    trainer.prepare_run(resume=resume, initialise=initialise, facts=facts or {})
    try:
        return trainer.fit()
    finally:
        trainer.close()


class Trainer:
    """What a training run consists of while it runs; use `train`."""

    def __init__(
        self,
        data: PreparedData,
        run: Path,
        model_settings: ModelSettings,
        settings: TrainingSettings,
        observer: TrainingObserver,
    ) -> None:
        self.data, self.run, self.settings = data, run, settings
        AcceleratorState._reset_state()  # or a second run in this process could not have another precision
        self.accelerator = Accelerator(mixed_precision=_precision(settings.precision))
        self.is_main = self.accelerator.is_main_process
        self.observer = observer if self.is_main else Silence()
        device = self.accelerator.device
        torch.manual_seed(settings.seed)
        self.network = BidirectionalModel(model_settings, data.tokenizer.vocabulary_size).to(device)
        torch.manual_seed(settings.seed + self.accelerator.process_index)  # every process drops out others
        self.optimizer = torch.optim.Adam(
            self.network.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.scheduler = _scheduler(self.optimizer, settings)
        self.batches = self._batches("train")
        self.validation = self._batches("validation")
        self.position = state.Position()
        self.window = Window(model_settings.directions, device)
        self.plans = self._epoch_plans(0)
        self.writer = state.CheckpointWriter(run, rank=self.accelerator.process_index)
        self.log: MetricsLog | None = None

    def _batches(self, split: str) -> PairBatches:
        pairs = self.data.split(split)
        if not len(pairs):
            raise RunError(f"The prepared data have no {split} pairs. Prepare more conversations.")
        return PairBatches(
            pairs,
            self.network.directions,
            batch_size=self.settings.batch_size,
            device=self.accelerator.device,
        )

    def prepare_run(
        self,
        *,
        resume: bool,
        initialise: Callable[[BidirectionalModel], None] | None,
        facts: Mapping[str, Any],
    ) -> None:
        """Start the run directory, or put the newest checkpoint back.

        A run has its first checkpoint before its config.json: whatever `initialise` did is never lost.
        """
        exists = (self.run / checkpoint.CONFIG_FILE).exists()
        if exists and not resume:
            raise RunError(
                f"{self.run} already holds a run. Pass resume to go on with it, or choose another directory."
            )
        newest = state.newest(self.run) if exists else None
        if exists:
            facts = {**self._check_same_run(), **facts}
        else:
            self._check_free()
        self.accelerator.wait_for_everyone()
        if self.is_main:
            for path in leftovers(self.run, WRITTEN):
                path.unlink(missing_ok=True)
        if newest is not None:
            self._restore(newest)
        else:
            if initialise is not None:
                initialise(self.network)
            if self.is_main:  # what a run left that was killed before it had a config.json
                shutil.rmtree(self.run / "training", ignore_errors=True)
            self._save()
        if self.is_main:
            facts = {**facts, "training": asdict(self.settings), "data": self._data_facts()}
            self.data.tokenizer.save(self.run / checkpoint.TOKENIZER_FILE)
            checkpoint.write_config(
                self.run, "gru", self.network.settings, self.network.vocabulary_size, facts
            )
            self.log = MetricsLog(self.run, step=self.position.step, tensorboard=self.settings.tensorboard)

    def _restore(self, folder: Path) -> None:
        self.position = state.load(
            folder,
            self.network,
            self.optimizer,
            rank=self.accelerator.process_index,
            device=self.accelerator.device,
        )
        self.scheduler.load_state_dict({**self.scheduler.state_dict(), **self.position.scheduler})
        self.optimizer.param_groups[0]["lr"] = self.position.learning_rate
        self.plans = self._epoch_plans(self.position.epoch)

    def _check_free(self) -> None:
        """Refuse a directory that holds anything but the beginnings of a run."""
        names = names_in(self.run)
        if names - {"training", checkpoint.TOKENIZER_FILE} or (names and "training" not in names):
            raise RunError(f"{self.run} holds other things. Name an empty or new directory.")

    def _data_facts(self) -> dict[str, Any]:
        facts = {name: self.data.info[name] for name in ("corpus", "fingerprint", "pairs", "settings")}
        return {"path": str(self.data.path.resolve()), **facts}

    def _check_same_run(self) -> dict[str, Any]:
        """Make sure that a run goes on with what it began with; return the facts it has kept."""
        config = checkpoint.read_config(self.run)
        fingerprint = config.facts.get("data", {}).get("fingerprint")
        if fingerprint != self.data.fingerprint:
            raise RunError(
                f"{self.run} was trained on other data (fingerprint {fingerprint}, not "
                f"{self.data.fingerprint}). Give the data it began with, or choose another directory."
            )
        before = {**asdict(config.model), **config.facts.get("training", {})}
        now = {**asdict(self.network.settings), **asdict(self.settings)}
        for name in sorted(set(before) & set(now) - MAY_CHANGE_ON_RESUME):
            if before[name] != now[name]:
                raise SettingsError(
                    f"{self.run} began with {name}={before[name]!r}, not {now[name]!r}. "
                    "Resume with the same settings, or choose another directory."
                )
        return config.facts

    def fit(self) -> state.Position:
        """Train until the epochs are over, the loss no longer falls, or something breaks."""
        model, optimizer = self.accelerator.prepare(self.network, self.optimizer)
        take_step = make_step(self.accelerator, model, optimizer, self.settings)
        position, settings = self.position, self.settings
        self.observer.started(step=position.step, total_steps=self._total_steps(), facts=self._facts())
        model.train()
        while (plan := self._next_plan()) is not None:
            self.window.add(*take_step(self.batches, plan))
            position.step += 1
            position.batch += 1
            self.observer.stepped(step=position.step)
            if self._is_due(settings.evaluate_every):
                self._report()
                self._evaluate()
                self._save()
            elif settings.save_every and position.step % settings.save_every == 0:
                self._report()
                self._save()
            elif position.step % settings.log_every == 0:
                self._report()
        self._report()
        if position.evaluated_step != position.step:
            self._evaluate(is_scheduled=False)
        self._save()
        self.observer.finished(
            step=position.step, stopped_by=position.stopped_by or "", best_loss=position.best_loss
        )
        return position

    def close(self) -> None:
        """Flush the logs, however training ended."""
        if self.log is not None:
            self.log.close()

    def _next_plan(self) -> BatchPlan | None:
        """The next batch, or None when training is over; the position then says why."""
        position, settings = self.position, self.settings
        if position.batch == len(self.plans):
            position.epoch, position.batch = position.epoch + 1, 0
            self.plans = self._epoch_plans(position.epoch)
        if settings.early_stopping and position.stale_evaluations >= settings.early_stopping:
            position.stopped_by = "early_stopping"
        elif settings.max_steps and position.step >= settings.max_steps:
            position.stopped_by = "max_steps"
        elif position.epoch >= settings.epochs:
            position.stopped_by = "epochs"
        else:
            position.stopped_by = None
            return self.plans[position.batch]
        return None

    def _epoch_plans(self, epoch: int) -> list[BatchPlan]:
        """This process' batches of an epoch; every process has as many."""
        plans = self.batches.plan(seed=(self.settings.seed, epoch))
        processes = self.accelerator.num_processes
        plans += list(islice(cycle(plans), -len(plans) % processes))
        return plans[self.accelerator.process_index :: processes]

    def _total_steps(self) -> int:
        steps = self.settings.epochs * len(self.plans)
        return min(steps, self.settings.max_steps) if self.settings.max_steps else steps

    def _is_due(self, every: int) -> bool:
        return self.position.step % every == 0 if every else self.position.batch == len(self.plans)

    def _facts(self) -> dict[str, Any]:
        return {
            "parameters": sum(parameter.numel() for parameter in self.network.parameters()),
            "pairs": len(self.batches),
            "device": str(self.accelerator.device),
            "precision": "bf16" if self.accelerator.mixed_precision == "bf16" else "float32",
            "directions": list(self.network.settings.directions),
            "processes": self.accelerator.num_processes,
        }

    def _report(self) -> None:
        if not self.window.steps:
            return
        record = self.window.record()
        record["tokens_per_s"] *= self.accelerator.num_processes
        record["learning_rate"] = self.optimizer.param_groups[0]["lr"]
        losses = {name: value for name, value in record.items() if name.startswith("loss_")}
        self._require_finite("training loss", losses)
        if self.log is not None:
            self.log.write("train", self.position.step, record)
        self.observer.reported(step=self.position.step, record=record)

    def _evaluate(self, *, is_scheduled: bool = True) -> None:
        """Measure the validation loss; keep the weights if it is the lowest so far, or the last is wanted.

        One that is not scheduled, where training happens to end, leaves the schedules as they are: a run that
        is prolonged goes on as if it had never stopped.
        """
        self.position.evaluated_step = self.position.step
        self.network.eval()
        sums = torch.zeros(len(self.network.directions), device=self.accelerator.device)
        tokens = torch.zeros((), device=self.accelerator.device)
        plans = self.validation.plan(seed=None)
        for plan in plans[self.accelerator.process_index :: self.accelerator.num_processes]:
            with torch.no_grad(), self.accelerator.autocast():
                losses = self.network(*self.validation.batch(plan).tensors())
            sums += losses.sums
            tokens += losses.tokens
        sums, tokens = self.accelerator.reduce(sums), self.accelerator.reduce(tokens)
        self.network.train()
        record = loss_record(self.network.settings.directions, (sums / tokens).tolist())
        self._require_finite("validation loss", record)
        self._judge(record, is_scheduled=is_scheduled)
        self.window.restart()

    def _judge(self, record: dict[str, Any], *, is_scheduled: bool) -> None:
        position = self.position
        shares = self.network.shares(self.settings.regular_weight)
        loss = sum(share * value for share, value in zip(shares, record.values(), strict=True))
        is_best = position.best_loss is None or loss < position.best_loss
        position.best_loss = loss if is_best else position.best_loss
        if (is_best or self.settings.keep == "last") and self.is_main:
            checkpoint.write_weights(self.run / checkpoint.WEIGHTS_FILE, self.network.state_dict())
        if is_scheduled:
            is_lowest = position.lowest_scheduled is None or loss < position.lowest_scheduled
            position.lowest_scheduled = loss if is_lowest else position.lowest_scheduled
            position.stale_evaluations = 0 if is_lowest else position.stale_evaluations + 1
            self.scheduler.step(loss)
        record = {"epoch": position.epoch, "loss": loss, **record, "best_loss": position.best_loss}
        if self.log is not None:
            self.log.write("validation", position.step, record)
        self.observer.evaluated(step=position.step, record=record)

    def _save(self) -> None:
        weights = {"weights": float(sum(p.detach().double().sum() for p in self.network.parameters()))}
        self._require_finite("sum of the weights", weights)
        self.position.learning_rate = self.optimizer.param_groups[0]["lr"]
        schedule = self.scheduler.state_dict()
        self.position.scheduler = {name: schedule[name] for name in SCHEDULE_PROGRESS}
        partial = self.writer.begin(self.position)
        self.accelerator.wait_for_everyone()
        self.writer.write_random_state(partial, self.accelerator.device)
        if self.is_main:
            self.writer.write_shared(partial, self.network, self.optimizer, self.position)
        self.accelerator.wait_for_everyone()
        if self.is_main:
            self.writer.commit(partial, self.position)
        self.window.restart()

    def _require_finite(self, what: str, values: dict[str, float]) -> None:
        if all(math.isfinite(value) for value in values.values()):
            return
        kept = state.newest(self.run)
        told = ", ".join(f"{name}={value}" for name, value in values.items())
        raise TrainingError(
            f"The {what} is not finite by step {self.position.step} ({told}). The last good checkpoint is "
            f"{kept.name if kept else 'none yet'}; lower training.learning_rate "
            f"(now {self.optimizer.param_groups[0]['lr']:g}) or training.gradient_norm, and train again."
        )


class Window:
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

    def add(self, sums: Tensor, tokens: Tensor) -> None:
        """Take in one step."""
        self._sums += torch.cat((sums, tokens.unsqueeze(0)))
        self.steps += 1

    def record(self) -> dict[str, Any]:
        """Mean losses a token, and the speed in target tokens, all directions counted; then restart."""
        *losses, tokens = self._sums.tolist()
        seconds = time.perf_counter() - self._since
        record = loss_record(self._directions, [loss / tokens for loss in losses])
        record["tokens_per_s"] = round(tokens * len(losses) / max(seconds, 1e-9), 1)
        self.restart()
        return record


def loss_record(directions: Sequence[str], losses: Sequence[float]) -> dict[str, Any]:
    """Losses under the names that logs and tables use."""
    return {f"loss_{name}": loss for name, loss in zip(directions, losses, strict=True)}


def _precision(name: str) -> str:
    """Accelerate's word for a precision."""
    if name == "auto":
        return "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "no"
    return {"float32": "no", "bf16": "bf16"}[name]


def _scheduler(optimizer: torch.optim.Optimizer, settings: TrainingSettings) -> ReduceLROnPlateau:
    """Lowers the learning rate on a plateau; with a factor of 1, which torch refuses, it never does."""
    if settings.plateau_factor == 1:
        return ReduceLROnPlateau(optimizer, patience=NEVER)
    return ReduceLROnPlateau(optimizer, factor=settings.plateau_factor, patience=settings.plateau_patience)
