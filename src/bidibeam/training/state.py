"""A training run on disk, so that a kill at any moment costs at most the steps since the last checkpoint.

A checkpoint is a folder, training/step-00000123, that appears under its name only when it is complete. The
newest one is what a resumed training continues from; older ones are removed once a newer one stands.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file

from bidibeam.errors import RunError
from bidibeam.files import write_json
from bidibeam.models.checkpoint import check_weights

if TYPE_CHECKING:
    from pathlib import Path

    from accelerate import Accelerator
    from torch import Tensor, nn
    from torch.optim import Optimizer

FOLDER = "training"
STATE_FILE, MODEL_FILE, OPTIMIZER_FILE = "state.json", "model.safetensors", "optimizer.safetensors"
RANDOM_FILE = "random-{}.safetensors"
FORMAT_VERSION = 1


@dataclass
class Position:
    """Where training stands."""

    step: int = 0
    """Optimizer steps taken."""
    epoch: int = 0
    """The epoch in progress, from 0."""
    batch: int = 0
    """Batches of this epoch already used."""
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
    random_state = {"cpu": torch.get_rng_state()}
    if accelerator.device.type == "cuda":
        random_state["cuda"] = torch.cuda.get_rng_state(accelerator.device)
    save_file(random_state, partial / RANDOM_FILE.format(accelerator.process_index))
    if accelerator.is_main_process:
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in unique_weights(model).items()}
        save_file(weights, partial / MODEL_FILE)
        tensors = {
            f"{name}/{key}": torch.as_tensor(value).detach().cpu().contiguous()
            for name, parameter in model.named_parameters()
            for key, value in optimizer.state.get(parameter, {}).items()
        }
        save_file(tensors, partial / OPTIMIZER_FILE)
        write_json(partial / STATE_FILE, {"format_version": FORMAT_VERSION, **asdict(position)})
    accelerator.wait_for_everyone()
    if not accelerator.is_main_process:
        return
    if target.exists():
        (partial / STATE_FILE).replace(target / STATE_FILE)
        shutil.rmtree(partial)
        return
    for file in partial.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    partial.rename(target)
    for old in target.parent.iterdir():
        if old != target and "step-" in old.name:
            shutil.rmtree(old, ignore_errors=True)


def load(folder: Path, model: nn.Module, optimizer: Optimizer, accelerator: Accelerator) -> Position:
    """Put a checkpoint back into `model`, `optimizer` and the random generators.

    Raises:
        RunError: If a file of it is missing, damaged or of another version.
    """
    try:
        content = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        version = content.pop("format_version", None)
        position = Position(**content) if version == FORMAT_VERSION else None
        load_unique(model, load_file(folder / MODEL_FILE), folder)
        _load_optimizer(model, optimizer, load_file(folder / OPTIMIZER_FILE))
        random_state = load_file(folder / RANDOM_FILE.format(accelerator.process_index))
        torch.set_rng_state(random_state["cpu"])
        if accelerator.device.type == "cuda" and "cuda" in random_state:
            torch.cuda.set_rng_state(random_state["cuda"], accelerator.device)
    except Exception as error:
        raise RunError(
            f"The checkpoint {folder} cannot be read ({error}). Restore it from a copy, or remove that "
            "folder to train from the start."
        ) from error
    if position is None:
        raise RunError(
            f"{folder} has format version {version!r}, but this bidibeam reads version {FORMAT_VERSION}. "
            "Resume with the version that wrote it, or train again."
        )
    return position


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


def _load_optimizer(model: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    names = {parameter: name for name, parameter in model.named_parameters()}
    by_name: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, kind = key.rpartition("/")
        by_name.setdefault(name, {})[kind] = value
    ordered = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    state = {index: by_name[name] for index, name in enumerate(ordered) if name in by_name}
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
