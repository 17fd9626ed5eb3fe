"""A training on disk: what it began with, and its checkpoints: a kill costs at most the steps since the last.

A checkpoint is a folder, training/step-00000123, that appears under its name only when it is complete. The
newest one is what a resumed training continues from; older ones are removed once a newer one stands.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file

from bidibeam.errors import RunError, SettingsError, TrainingError, check_setting, describe_error
from bidibeam.fields import build, build_known
from bidibeam.files import alone_in, names_in, read_json, reading, write_json
from bidibeam.models.checkpoint import (
    AGAIN,
    CONFIG_FILE,
    SOURCE_TOKENIZER_FILE,
    STARTED_FILE,
    TOKENIZER_FILE,
    check_weights,
    hugging_face_config,
    read_config,
    save_tensors,
    settings_mapping,
)
from bidibeam.models.huggingface.configs import METADATA_FILE
from bidibeam.training.settings import HUGGING_FACE, LARGEST, FineTuneSettings, TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from accelerate import Accelerator
    from torch import Tensor, nn
    from torch.optim import Optimizer

FOLDER = "training"
STATE_FILE, MODEL_FILE, OPTIMIZER_FILE = "state.json", "model.safetensors", "optimizer.safetensors"
RANDOM_FILE = "random-{}.safetensors"
FORMAT_VERSION = 1
NOT_DECISIVE = {"save_every", "log_every", "tensorboard"}
"""Settings that do not change the weights."""
MAY_CHANGE_ON_RESUME = {"epochs", "max_steps", "early_stopping"} | NOT_DECISIVE


@dataclass(frozen=True, slots=True)
class Started:
    """What started.json, and then bidibeam.json, says of the training of a Hugging Face model."""

    base: str | dict[str, Any]
    direction: str
    tokenizer: str | None
    fingerprint: str
    settings: FineTuneSettings


def started_with(run: Path) -> dict[str, Any] | None:
    """What the training in a folder began with; None where there is none, or no more of it.

    Of a Hugging Face model: its base, direction, tokenizer and settings, and the fingerprint of the data. Of
    a network of our own: architecture, model, training and fingerprint.
    """
    for path in (run / STARTED_FILE, run / METADATA_FILE):  # the latter if only the removal was not finished
        if path.is_file() and (run / FOLDER).is_dir():
            with reading(path, f"Remove {run}, and train again."):
                return asdict(build_known(Started, read_json(path)))
    if not (run / CONFIG_FILE).exists() or hugging_face_config(run) is not None:
        return None
    config = read_config(run)
    with reading(run / CONFIG_FILE, AGAIN):
        training = build_known(TrainingSettings, config.metadata.get("training", {}), section="training.")
    return {
        "architecture": config.architecture,
        "model": settings_mapping(config.model),
        "training": asdict(training),
        "fingerprint": config.metadata.get("data", {}).get("fingerprint"),
    }


def is_finished_hugging_face(run: Path) -> bool:
    """Whether a folder holds a Hugging Face model, and nothing of its training any more."""
    return hugging_face_config(run) is not None and started_with(run) is None


@contextmanager
def training_in(run: Path) -> Iterator[None]:
    """Run a training in a folder, from which other trainings are kept until it ends, however it does.

    Of several processes that train together the first one locks the folder for all.

    Raises:
        RunError: If another process is training there.
        TrainingError: If the disk is full; it says how to go on.
    """
    is_first = os.environ.get("RANK", "0") == "0"  # as launchers number them
    with alone_in(run, "training in") if is_first else nullcontext():
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise TrainingError(
                f"{run} cannot be written: {error.strerror}. Make room; `resume` goes on from the last "
                "checkpoint."
            ) from error


def check_folder(run: Path, now: Mapping[str, Any], *, resume: bool) -> bool:
    """Return whether a training goes on in a folder, which began as this one does, or it begins there.

    Args:
        run: The folder.
        now: What this training is, as `started_with` tells it.
        resume: Whether one may go on.

    Raises:
        RunError: If the folder holds something else, or was trained on other data.
        SettingsError: If a setting differs, which is named.
    """
    is_written = hugging_face_config(run) is not None  # if not finished: killed at its very end
    if is_written and (not resume or is_finished_hugging_face(run)):
        what = (
            "is finished already: there is nothing to resume" if resume else "holds a finished model already"
        )
        raise RunError(
            f"{run} {what}. To train it further, give it as the base, and write to another folder."
        )
    if not (run / CONFIG_FILE).exists() and not (run / STARTED_FILE).is_file():
        names = names_in(run)  # a kill may have come before anything told of a training
        is_begun = FOLDER in names and names <= {FOLDER, TOKENIZER_FILE, SOURCE_TOKENIZER_FILE}
        if (run.exists() and not run.is_dir()) or (names and not is_begun):
            raise RunError(f"{run} holds other things. Name an empty or new directory.")
        return False
    if not resume:
        raise RunError(f"{run} already holds a run. Go on with it by `resume`, or choose another directory.")
    before, now = (_flatten(each) for each in (started_with(run) or {}, now))
    if any((run / FOLDER).glob("checkpoint-*")):
        raise RunError(
            f"{run} holds a training that an earlier bidibeam began, which this one cannot resume: remove "
            "it, and start anew."
        )
    if before["fingerprint"] != now["fingerprint"]:
        raise RunError(
            f"{run} was trained on other data (fingerprint {before['fingerprint']}, not "
            f"{now['fingerprint']}). Give the data it began with, or choose another directory."
        )
    may_change = NOT_DECISIVE if is_written else MAY_CHANGE_ON_RESUME
    for name in sorted(set(before) & set(now) - may_change):
        if before[name] != now[name]:
            raise SettingsError(
                f"{run} began with {name}={before[name]!r}, not {now[name]!r}. Resume with the same "
                "settings, or choose another directory."
            )
    return True


def _flatten(started: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting of a training by its name, with what else it began with."""
    flat = {"architecture": HUGGING_FACE, "fingerprint": None, **started}
    for section in ("model", "training", "settings"):
        flat |= flat.pop(section, {})
    return flat


@dataclass
class Position:
    """Where training stands."""

    step: int = 0
    """Optimizer steps taken."""
    epoch: int = 0
    """The epoch in progress, from 0."""
    batch: int = 0
    """Batches of this epoch already used, of all processes."""
    batches_per_step: int = 0
    """Batches of a step, as many as when training began, whatever number of processes shares them."""
    evaluated_step: int = -1
    """The step of the last evaluation; -1 before the first."""
    best_loss: float | None = None
    """The lowest validation loss so far."""
    lowest_scheduled: float | None = None
    """The lowest of the evaluations that early stopping counts."""
    stale_evaluations: int = 0
    """Those since then."""
    stopped_by: str | None = None
    """What ended training of itself: "epochs", "max_steps" or "early_stopping"."""
    learning_rate: float | None = None
    """The learning rate in force; None before the first step."""
    scheduler: dict[str, Any] = field(default_factory=dict)
    """The learning-rate schedule's own state."""

    def __post_init__(self) -> None:
        check_setting(self.batches_per_step >= 0, "batches_per_step", self.batches_per_step, "a count")
        for name in ("step", "epoch", "batch", "stale_evaluations"):
            check_setting(0 <= getattr(self, name) <= LARGEST, name, getattr(self, name), "a count")
        for name, value in self.scheduler.items():
            check_setting(isinstance(value, int | float), name, value, "a number")


def newest(run: Path) -> Path | None:
    """The newest complete checkpoint of a run, if it has one."""
    folders = sorted((run / FOLDER).glob("step-*"))
    return folders[-1] if folders else None


def save(
    run: Path, position: Position, model: nn.Module, optimizer: Optimizer, accelerator: Accelerator
) -> None:
    """Write a checkpoint: every process its own random state, the first one all that they share.

    A step that has a checkpoint already only gets the newer position: its weights are the same.
    """
    partial, target = (
        run / FOLDER / name.format(position.step) for name in (".step-{:08d}.partial", "step-{:08d}")
    )
    if accelerator.is_main_process:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    accelerator.wait_for_everyone()
    try:
        _write(partial, position, model, optimizer, accelerator)
    except BaseException:  # a full disk, or an end that was asked for
        shutil.rmtree(partial, ignore_errors=True)
        raise
    accelerator.wait_for_everyone()
    if not accelerator.is_main_process:
        return
    if target.exists():
        (partial / STATE_FILE).replace(target / STATE_FILE)
    else:
        for file in partial.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        partial.rename(target)
    for old in target.parent.iterdir():
        if old != target and "step-" in old.name:
            shutil.rmtree(old, ignore_errors=True)


def _write(
    folder: Path, position: Position, model: nn.Module, optimizer: Optimizer, accelerator: Accelerator
) -> None:
    """Write this process' files of a checkpoint."""
    random_state = {"cpu": torch.get_rng_state()}
    if accelerator.device.type == "cuda":
        random_state["cuda"] = torch.cuda.get_rng_state(accelerator.device)
    save_tensors(random_state, folder / RANDOM_FILE.format(accelerator.process_index))
    if accelerator.is_main_process:
        save_tensors(unique_weights(model), folder / MODEL_FILE)
        tensors = {
            f"{name}/{key}": torch.as_tensor(value)
            for name, parameter in model.named_parameters()
            for key, value in optimizer.state.get(parameter, {}).items()
        }
        save_tensors(tensors, folder / OPTIMIZER_FILE)
        write_json(folder / STATE_FILE, {"format_version": FORMAT_VERSION, **asdict(position)})


def read_position(folder: Path) -> Position:
    """Where a checkpoint stands.

    Raises:
        RunError: If it cannot be read, or is of another version.
    """
    with _reading(folder):
        content = read_json(folder / STATE_FILE)
        version = content.pop("format_version", None)
        if version == FORMAT_VERSION:
            return build(Position, content)
    raise RunError(
        f"{folder} has format version {version!r}, but this bidibeam reads version {FORMAT_VERSION}. "
        "Resume with the version that wrote it, or train again."
    )


def count_processes(folder: Path) -> int:
    """How many processes wrote a checkpoint."""
    return len(list(folder.glob(RANDOM_FILE.format("*"))))


def load(
    folder: Path, model: nn.Module, optimizer: Optimizer, accelerator: Accelerator, *, seeds: Sequence[int]
) -> None:
    """Put a checkpoint back into `model`, `optimizer` and the random generators.

    Those of a process that was not there when it was written start from `seeds`.

    Raises:
        RunError: If a file of it is missing or damaged.
    """
    with _reading(folder):
        weights, averages = load_file(folder / MODEL_FILE), load_file(folder / OPTIMIZER_FILE)
        _check_finite({name: weights[name] for name, _ in model.named_parameters() if name in weights})
        _check_finite(averages)
        load_unique(model, weights, folder)
        _load_optimizer(model, optimizer, averages)
        file = folder / RANDOM_FILE.format(accelerator.process_index)
        if not file.exists() and not accelerator.is_main_process:
            own = np.random.SeedSequence((*seeds, accelerator.process_index))
            torch.manual_seed(int(own.generate_state(1)[0]))
            return
        random_state = load_file(file)
        torch.set_rng_state(random_state["cpu"])
        if accelerator.device.type == "cuda" and "cuda" in random_state:
            torch.cuda.set_rng_state(random_state["cuda"], accelerator.device)


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Turn whatever is wrong with a checkpoint into one sentence."""
    try:
        yield
    except Exception as error:
        raise RunError(
            f"The checkpoint {folder} cannot be read ({describe_error(error)}). Restore it from a copy, or "
            "remove that folder to train from the start."
        ) from error


def unique_weights(model: nn.Module) -> dict[str, Tensor]:
    """A model's weights and buffers, those that are tied under their first name alone."""
    names: dict[tuple[int, torch.Size], str] = {}
    weights = model.state_dict()
    return {
        name: tensor
        for name, tensor in weights.items()
        if names.setdefault((tensor.data_ptr(), tensor.shape), name) == name or not tensor.numel()
    }


def load_unique(model: nn.Module, weights: dict[str, Tensor], origin: Path) -> None:
    """Put back what `unique_weights` gave.

    Raises:
        RunError: If these are weights of another model.
    """
    check_weights(weights, unique_weights(model), origin)
    model.load_state_dict(weights, strict=False)


def _check_finite(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"numbers of {name!r} are not finite")


def _load_optimizer(model: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    names = {parameter: name for name, parameter in model.named_parameters()}
    shapes = {name: parameter.shape for parameter, name in names.items()}
    by_name: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, kind = key.rpartition("/")
        by_name.setdefault(name, {})[kind] = value
        if name not in shapes or value.shape not in ((), shapes[name]):
            raise ValueError(f"{OPTIMIZER_FILE} does not fit the model: {key}")
    if len({frozenset(kinds) for kinds in by_name.values()}) > 1:
        raise ValueError(f"{OPTIMIZER_FILE} lacks some of its tensors")
    ordered = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    state = {index: by_name[name] for index, name in enumerate(ordered) if name in by_name}
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
