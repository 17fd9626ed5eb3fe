"""Training a Hugging Face model to write in one direction, or in both, from prepared data."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate import PartialState
from safetensors.torch import load_file

from bidibeam._version import __version__
from bidibeam.data.batching import TokenBatches
from bidibeam.errors import SettingsError
from bidibeam.files import write_json, write_text
from bidibeam.hypotheses import Direction
from bidibeam.models.cards import model_card
from bidibeam.models.checkpoint import SOURCE_TOKENIZER_FILE, STARTED_FILE, hugging_face_config, write_weights
from bidibeam.models.huggingface.bases import open_base
from bidibeam.models.huggingface.configs import METADATA_FILE, read_metadata
from bidibeam.models.huggingface.labels import padding_id, special_ids
from bidibeam.models.huggingface.pairs import encode_pairs, from_prepared, set_prompt_end
from bidibeam.models.huggingface.quiet import without_progress_bars
from bidibeam.models.huggingface.training import (
    ModelWithLoss,
    check_generation_config,
    check_positions,
    save_model,
)
from bidibeam.training.logs import read_metrics
from bidibeam.training.loop import TrainingLoop, describe_data
from bidibeam.training.optimization import LinearSchedule
from bidibeam.training.settings import FineTuneSettings
from bidibeam.training.state import FOLDER, check_folder, load_unique, training_in, unique_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import nn

    from bidibeam.data.prepared import PreparedData
    from bidibeam.models.huggingface.bases import Base
    from bidibeam.training.logs import TrainingObserver

DIRECTIONS = ("regular", "reverse", "both")
"""What can be trained; both are one model with a shared encoder."""
KEPT_WEIGHTS = "kept.safetensors"
"""In the training folder: the best weights so far, or the last."""


def fine_tune(
    data: PreparedData,
    out: Path,
    *,
    base: str | Mapping[str, Any],
    direction: str = "regular",
    tokenizer: str | None = None,
    settings: FineTuneSettings | None = None,
    resume: bool = False,
    observer: TrainingObserver | None = None,
    trust_remote_code: bool = False,
) -> dict[str, Any]:
    """Train a Hugging Face model on prepared data, and save it as `from_pretrained` reads it.

    Args:
        data: Prepared pairs, with `keep_text` unless the model takes the tokenizer of the data.
        out: A new folder: model, tokenizer, generation config, README.md, bidibeam.json and metrics.jsonl;
            source_tokenizer.json where sources have their own.
        base: A name on the Hub, a folder with weights, or a folder or file with only a config, or the values
            of one, for fresh weights.
        direction: "regular"; "reverse", which learns replies from their end; or "both", one model with a
            shared encoder.
        tokenizer: A name on the Hub or a folder, where it is not the base's own. A fresh model without one
            takes that of the data.
        settings: How to train.
        resume: Go on where a killed training left off, if there is something to go on from.
        observer: Told what happens.
        trust_remote_code: Whether code that comes with the base, or with the tokenizer, may run.

    Returns:
        What bidibeam.json holds: settings, data, and the validation losses.

    Raises:
        InputError: If the base or its tokenizer cannot be used.
        SettingsError: If a setting is out of range, or base and direction do not go together.
        RunError: If `out` holds something already, or the data have no training text.
        TrainingError: If the loss stops being finite.
    """
    settings = settings or FineTuneSettings()
    if direction not in DIRECTIONS:
        raise SettingsError(f"direction is {direction!r}; choose one of: {', '.join(DIRECTIONS)}.")
    started = {
        "base": dict(base) if isinstance(base, Mapping) else base,
        "direction": direction,
        "tokenizer": tokenizer,
        "fingerprint": data.fingerprint,
        "settings": asdict(settings),
    }
    if isinstance(base, str) and tokenizer is None and not Path(base).exists():
        data.examples("train")  # a model of the Hub has its own tokenizer: says at once if text is missing
    with training_in(out), without_progress_bars():
        is_resumed = check_folder(out, started, resume=resume)
        if hugging_face_config(out) is not None:  # killed at its very end
            PartialState().wait_for_everyone()  # each process has looked
            shutil.rmtree(out / FOLDER, ignore_errors=True)
            return read_metadata(out)
        opened = open_base(
            base,
            direction,
            tokenizer=tokenizer,
            data=data,
            seed=settings.seed,
            trust_remote_code=trust_remote_code,
        )
        task = FineTuneTask(data, opened, settings, started)
        loop = TrainingLoop(task, out, resume=is_resumed, observer=observer)
        loop.fit()
        described = describe_data(data, own_tokens=opened.has_data_tokenizer)
        if not opened.has_data_tokenizer:  # lengths of the data are in other tokens than the model's
            described["lengths"] = {"longest": task.longest_response}
        metadata = {
            **started,
            "data": described,
            **_describe_training(task, loop),
        }
        loop.accelerator.wait_for_everyone()
        if loop.is_main:
            _finish(out, task, metadata)
        loop.accelerator.wait_for_everyone()
    return metadata


class FineTuneTask:
    """A Hugging Face model and its pairs: a `TrainingTask`; one that is resumed must agree with `started`."""

    def __init__(
        self, data: PreparedData, base: Base, settings: FineTuneSettings, started: Mapping[str, Any]
    ) -> None:
        self.base, self.settings, self._started = base, settings, started
        direction, config = started["direction"], base.model.config
        self.directions: Sequence[Direction] = (
            list(Direction) if direction == "both" else [Direction(direction)]
        )
        self.loss_options: Mapping[str, Any] = {"label_smoothing": settings.label_smoothing}
        self.shares: Sequence[float] = [1 / len(self.directions)] * len(self.directions)
        if not config.is_encoder_decoder:
            set_prompt_end(config, base.tokenizer, settings.separator)
        limits = {
            "max_source_length": settings.max_source_length,
            "max_response_length": settings.max_response_length,
        }
        check_positions(base.model, **limits)
        check_generation_config(base.model)
        network = ModelWithLoss(base.model)
        self.network: nn.Module = network
        self.is_capturable = network.has_fixed_layers
        self._pairs = {
            split: from_prepared(data.split(split), base.tokenizer, config, **limits)
            if base.has_data_tokenizer
            else encode_pairs(data.text_pairs(split), base.tokenizer, config, base.source_tokenizer, **limits)
            for split in ("train", "validation")
        }

    @property
    def longest_response(self) -> int:
        """The tokens of the longest response in training, its end counted."""
        return int(self._pairs["train"].response_lengths.max())

    def batches(self, split: str, device: torch.device) -> TokenBatches:
        """The pairs of a split."""
        return TokenBatches(
            self._pairs[split],
            self.directions,
            special=special_ids(self.base.tokenizer),
            pad_id=padding_id(self.base.tokenizer),
            is_encoder_decoder=self.base.model.config.is_encoder_decoder,
            batch_size=self.settings.batch_size,
            device=device,
        )

    def schedule(self, total_steps: int) -> LinearSchedule:
        """AdamW with warm-up, then linear decay."""
        return LinearSchedule(self.network, self.settings, total_steps)

    def mark_started(self, run: Path) -> None:
        """Write what a resumed training must agree with."""
        write_json(run / STARTED_FILE, self._started)

    def save_weights(self, run: Path) -> None:
        """Keep the weights in the training folder: `out` has a model only when it is finished."""
        write_weights(run / FOLDER / KEPT_WEIGHTS, unique_weights(self.network))


def _describe_training(task: FineTuneTask, loop: TrainingLoop) -> dict[str, Any]:
    """What bidibeam.json says of a training that has ended."""
    evaluations = [
        {"epoch": round(record["step"] / loop.steps_per_epoch, 4), "step": record["step"]}
        | {name: record[name] for name in record if name.startswith("loss")}
        for record in read_metrics(loop.run)
        if record["kind"] == "validation"
    ]
    return {
        "bidibeam_version": __version__,
        "is_fresh": task.base.is_fresh,
        **({"source_tokenizer": SOURCE_TOKENIZER_FILE} if task.base.has_two_tokenizers else {}),
        "parameters": sum(parameter.numel() for parameter in task.network.parameters()),
        "trained_on": len(loop.batches),
        "steps": loop.position.step,
        "evaluations": evaluations,
        "best": min(evaluations, key=lambda each: float(each["loss"])),
    }


def _finish(out: Path, task: FineTuneTask, metadata: dict[str, Any]) -> None:
    """Write the kept weights and all that belongs to them; the training folder goes."""
    kept, final = out / FOLDER / KEPT_WEIGHTS, out / FOLDER / "final"
    load_unique(task.network, load_file(kept), kept)
    shutil.rmtree(final, ignore_errors=True)
    save_model(task.base.model, task.base.tokenizer, task.base.source_tokenizer, final)
    write_text(final / "README.md", model_card(metadata))
    write_json(final / METADATA_FILE, metadata)
    names = sorted(path.name for path in final.iterdir())
    for name in sorted(names, key=lambda name: name == "config.json"):  # a folder that has it has them all
        (final / name).replace(out / name)
    shutil.rmtree(out / FOLDER)
