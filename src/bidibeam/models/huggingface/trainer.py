"""The Hugging Face `Trainer`, with a validation loss by token, losses by direction, and our observers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from transformers import Trainer, TrainerCallback, TrainingArguments

from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq
from bidibeam.models.huggingface.labels import IGNORED, reverse_labels

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from bidibeam.models.huggingface.settings import FineTuneSettings
    from bidibeam.training.logs import TrainingObserver


def arguments(folder: Path, settings: FineTuneSettings, *, steps: int) -> Any:
    """What the `Trainer` is told.

    Args:
        folder: Where checkpoints go.
        settings: How to train.
        steps: How many steps there will be.
    """
    return TrainingArguments(
        output_dir=str(folder),
        seed=settings.seed,
        data_seed=settings.seed,
        num_train_epochs=settings.epochs,
        max_steps=settings.max_steps if 0 < settings.max_steps <= steps else -1,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulation,
        learning_rate=settings.learning_rate,
        warmup_steps=round(settings.warmup * steps),
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.gradient_norm,
        bf16=uses_bf16(settings.precision),
        use_cpu=not torch.accelerator.is_available(),
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=2,  # the best and the last
        metric_for_best_model="loss",
        greater_is_better=False,
        logging_steps=settings.log_every,
        logging_nan_inf_filter=False,  # which would wait for the loss at every step
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available(),
    )


def uses_bf16(precision: str) -> bool:
    """Whether to compute in bf16: where it is asked for, or where a GPU has it."""
    if precision == "auto":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return precision == "bf16"


class DirectionalTrainer(Trainer):  # type: ignore[misc]
    """A `Trainer` for one direction's model, or for a joint one.

    Args:
        direction: "regular", "reverse" or "both": names the losses.
        label_smoothing: For training; an evaluation has none.
        **options: What `Trainer` takes.
    """

    control: Any

    def __init__(self, *, direction: str, label_smoothing: float, **options: Any) -> None:
        super().__init__(**options)
        self.directions = ("regular", "reverse") if direction == "both" else (direction,)
        self.label_smoothing = label_smoothing
        self.window = Window(self.directions)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The model's own loss, or a smoothed one, noted by direction."""
        loss, outputs = super().compute_loss(
            model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch
        )
        self._note(outputs, inputs["labels"], num_items_in_batch)
        if self.label_smoothing:
            loss = self._smoothed(outputs, inputs["labels"], loss)
        return (loss, outputs) if return_outputs else loss

    def _note(self, outputs: Any, labels: Tensor, num_items_in_batch: Any) -> None:
        tokens = _counted(labels)
        is_by_step = self.model_accepts_loss_kwargs and num_items_in_batch is not None
        divided_by = num_items_in_batch if is_by_step else tokens
        names = [f"{name}_loss" for name in self.directions] if len(self.directions) > 1 else ["loss"]
        losses = torch.stack([outputs[name].detach() for name in names])
        self.window.add(losses * divided_by, tokens)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """The validation loss, each target token counted alike; for a joint model the mean of both."""
        del ignore_keys
        was_training = self.model.training
        self.model.eval()
        sums = torch.zeros(len(self.directions), device=self.args.device, dtype=torch.float64)
        tokens = torch.zeros((), device=self.args.device, dtype=torch.float64)
        for batch in self.get_eval_dataloader(eval_dataset):
            inputs = self._prepare_inputs(batch)
            with torch.no_grad(), self.accelerator.autocast():
                outputs = self.model(**inputs)
            sums += self._sums(outputs, inputs["labels"])
            tokens += _counted(inputs["labels"])
        self.model.train(was_training)
        sums, tokens = self.accelerator.reduce(sums), self.accelerator.reduce(tokens)
        losses = (sums / tokens).tolist()
        metrics = {f"{metric_key_prefix}_loss": sum(losses) / len(losses)}
        for name, loss in zip(self.directions, losses, strict=True):
            metrics[f"{metric_key_prefix}_loss_{name}"] = loss
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self.window.restart()
        return metrics

    def floating_point_ops(self, inputs: Any) -> int:
        """None are counted, since nothing reads them and counting walks the whole model at every step."""
        del inputs
        return 0

    def _targets(self, outputs: Any, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
        """For each direction: logits (batch, length, vocab) and their targets (batch, length)."""
        model = self.accelerator.unwrap_model(self.model)
        if isinstance(model, BidirectionalSeq2Seq):
            turned = reverse_labels(labels, model.config.special_ids)
            return [(outputs.logits, labels), (outputs.reverse_logits, turned)]
        if model.config.is_encoder_decoder:
            return [(outputs.logits, labels)]
        return [(outputs.logits[:, :-1], labels[:, 1:])]

    def _sums(self, outputs: Any, labels: Tensor) -> Tensor:
        """(directions,), summed losses of target tokens."""
        sums = [_cross_entropy(*target) for target in self._targets(outputs, labels)]
        return torch.stack(sums).double()

    def _smoothed(self, outputs: Any, labels: Tensor, plain: Tensor) -> Tensor:
        """The loss with smoothed labels, on the scale that the `Trainer` gave the plain one."""
        targets = self._targets(outputs, labels)
        smoothed = sum(_cross_entropy(*target, smoothing=self.label_smoothing) for target in targets)
        sharp = sum(_cross_entropy(*target).detach() for target in targets)
        result: Tensor = smoothed * (plain.detach() / sharp)
        return result


def _cross_entropy(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, 1).float(),
        labels.flatten(),
        ignore_index=IGNORED,
        label_smoothing=smoothing,
        reduction="sum",
    )


def _counted(labels: Tensor) -> Tensor:
    return (labels != IGNORED).sum()


class Window:
    """Losses and speed since the last report, summed on the device so that no step waits for them."""

    def __init__(self, directions: tuple[str, ...]) -> None:
        self._directions = directions
        self.restart()

    def restart(self) -> None:
        """Forget everything; the clock starts anew."""
        self._sums: Tensor | None = None
        self._tokens: Tensor | None = None
        self._since = time.perf_counter()

    def add(self, sums: Tensor, tokens: Tensor) -> None:
        """Take in one batch."""
        self._sums = sums if self._sums is None else self._sums + sums
        self._tokens = tokens if self._tokens is None else self._tokens + tokens

    def record(self) -> dict[str, float] | None:
        """Mean losses a token and the speed in target tokens; then restart. None where there was nothing."""
        if self._sums is None or self._tokens is None:
            return None
        tokens = float(self._tokens)
        record = {f"loss_{n}": s / tokens for n, s in zip(self._directions, self._sums.tolist(), strict=True)}
        seconds = max(time.perf_counter() - self._since, 1e-9)
        record["tokens_per_s"] = round(tokens * len(self._directions) / seconds, 1)
        self.restart()
        return record


class Watching(TrainerCallback):  # type: ignore[misc]
    """Tells a `TrainingObserver` what a `Trainer` does."""

    def __init__(self, observer: TrainingObserver, facts: dict[str, Any]) -> None:
        self.observer = observer
        self.facts = facts
        self.trainer: DirectionalTrainer | None = None
        self.best: float | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Training begins, or goes on."""
        self.best = state.best_metric
        self.observer.started(step=state.global_step, total_steps=state.max_steps, facts=self.facts)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """A step is done."""
        self.observer.stepped(step=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002
        """The training loss is known."""
        if "loss" in (logs or {}) and self.trainer is not None:
            record = self.trainer.window.record()
            if record is not None:
                record["learning_rate"] = logs.get("learning_rate", 0.0)
                self.observer.reported(step=state.global_step, record=record)

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:  # noqa: ARG002
        """An evaluation is done."""
        record = {name.removeprefix("eval_"): value for name, value in metrics.items()}
        self.best = record["loss"] if self.best is None else min(self.best, record["loss"])
        epoch = max(round(state.epoch or 0) - 1, 0)
        record |= {"epoch": epoch, "best_loss": self.best}
        self.observer.evaluated(step=state.global_step, record=record)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Training has ended."""
        stopped_by = "max_steps" if args.max_steps > 0 else "epochs"
        if state.global_step < state.max_steps:
            stopped_by = "early_stopping"
        self.observer.finished(step=state.global_step, stopped_by=stopped_by, best_loss=self.best)


class Stopping(TrainerCallback):  # type: ignore[misc]
    """Ends training after some evaluations without a lower loss; resumed training counts the earlier ones."""

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Count."""
        losses = [each["eval_loss"] for each in state.log_history if "eval_loss" in each]
        if self.patience and len(losses) - 1 - losses.index(min(losses)) >= self.patience:
            control.should_training_stop = True
