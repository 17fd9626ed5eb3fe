"""A training run on disk, so that a kill at any moment costs at most the steps since the last checkpoint.

A checkpoint is a folder, training/step-00000123, that appears under its name only when it is complete. The
newest one is what `--resume` continues from; older ones are removed once a newer one stands.
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

    from torch import Tensor, nn
    from torch.optim import Optimizer

FOLDER = "training"
STATE_FILE, MODEL_FILE, OPTIMIZER_FILE = "state.json", "model.safetensors", "optimizer.safetensors"
FORMAT_VERSION = 1


@dataclass
class Position:
    """Where training stands.

    Attributes:
        step: Optimizer steps taken.
        epoch: The epoch in progress, from 0.
        batch: Batches of this epoch already used.
        evaluated_step: The step of the last evaluation; -1 before the first.
        best_loss: The lowest validation loss so far.
        lowest_scheduled: The lowest of the evaluations that early stopping counts.
        stale_evaluations: Those since then.
        stopped_by: What ended training of itself: "epochs", "max_steps" or "early_stopping".
        learning_rate: The learning rate in force; None before the first step.
        scheduler: The learning-rate schedule's own state.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    evaluated_step: int = -1
    best_loss: float | None = None
    lowest_scheduled: float | None = None
    stale_evaluations: int = 0
    stopped_by: str | None = None
    learning_rate: float | None = None
    scheduler: dict[str, Any] = field(default_factory=dict)


def newest(run: Path) -> Path | None:
    """The newest complete checkpoint of a run, if it has one."""
    folders = sorted((run / FOLDER).glob("step-*"))
    return folders[-1] if folders else None


class CheckpointWriter:
    """Writes checkpoints in one step each.

    Args:
        run: The run directory.
        rank: This process among those that train together; the first writes what they share.
    """

    def __init__(self, run: Path, *, rank: int = 0) -> None:
        self._folder = run / FOLDER
        self._rank = rank

    def begin(self, position: Position) -> Path:
        """Where the files of the next checkpoint go until it is complete."""
        partial = self._folder / f".step-{position.step:08d}.partial"
        if self._rank == 0:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        return partial

    def write_random_state(self, partial: Path, device: torch.device) -> None:
        """Every process keeps its own random state."""
        tensors = {"cpu": torch.get_rng_state()}
        if device.type == "cuda":
            tensors["cuda"] = torch.cuda.get_rng_state(device)
        save_file(tensors, partial / random_file(self._rank))

    def write_shared(self, partial: Path, model: nn.Module, optimizer: Optimizer, position: Position) -> None:
        """Weights, optimizer and position; the first process alone calls this."""
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in unique_weights(model).items()}
        save_file(weights, partial / MODEL_FILE)
        save_file(_optimizer_tensors(model, optimizer), partial / OPTIMIZER_FILE)
        write_json(partial / STATE_FILE, {"format_version": FORMAT_VERSION, **asdict(position)})

    def commit(self, partial: Path, position: Position) -> None:
        """Give the checkpoint its name, and remove those before it.

        A step that has one already only gets the newer position: its weights are the same.
        """
        target = self._folder / f"step-{position.step:08d}"
        if target.exists():
            (partial / STATE_FILE).replace(target / STATE_FILE)
            shutil.rmtree(partial)
            return
        for file in partial.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        partial.rename(target)
        for old in self._folder.iterdir():
            if old != target and "step-" in old.name:
                shutil.rmtree(old, ignore_errors=True)


def load(
    folder: Path, model: nn.Module, optimizer: Optimizer, *, rank: int, device: torch.device
) -> Position:
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
        random_state = load_file(folder / random_file(rank))
        torch.set_rng_state(random_state["cpu"])
        if device.type == "cuda" and "cuda" in random_state:
            torch.cuda.set_rng_state(random_state["cuda"], device)
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


def random_file(rank: int) -> str:
    """Name of a process' random state."""
    return f"random-{rank}.safetensors"


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


def _optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}/{key}": torch.as_tensor(value).detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def _load_optimizer(model: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    names = {parameter: name for name, parameter in model.named_parameters()}
    by_name: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, kind = key.rpartition("/")
        by_name.setdefault(name, {})[kind] = value
    ordered = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    state = {index: by_name[name] for index, name in enumerate(ordered) if name in by_name}
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
