"""Training a network of our own on prepared token ids, into a run directory."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from bidibeam.data.batching import PairBatches
from bidibeam.errors import RunError
from bidibeam.files import names_in
from bidibeam.hypotheses import Direction
from bidibeam.models import checkpoint
from bidibeam.models.networks import NETWORKS
from bidibeam.training import state
from bidibeam.training.loop import TrainingLoop
from bidibeam.training.optimization import PlateauSchedule, make_adam
from bidibeam.training.task import check_same_settings, describe_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from torch.optim import Optimizer

    from bidibeam.data.prepared import PreparedData
    from bidibeam.training.logs import TrainingObserver
    from bidibeam.training.settings import TrainingSettings


class NetworkTask:
    """A network of the `NETWORKS` registry and prepared ids: a `TrainingTask`.

    Args:
        data: Prepared pairs.
        architecture: The network's name.
        model_settings: Its shape.
        settings: How to train it.
        initialise: Changes the fresh network's weights, to start from pretrained embeddings, say.
        facts: Kept in config.json.
    """

    is_capturable = True

    def __init__(
        self,
        data: PreparedData,
        *,
        architecture: str,
        model_settings: Any,
        settings: TrainingSettings,
        initialise: Callable[[Any], None] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.data, self.architecture, self.settings = data, architecture, settings
        torch.manual_seed(settings.seed)
        self.network = NETWORKS.create(architecture, model_settings, data.tokenizer.vocabulary_size)
        if initialise is not None:
            initialise(self.network)
        self.directions: Sequence[Direction] = self.network.directions
        self.loss_options = {"regular_weight": settings.regular_weight}
        self.shares = _shares(self.directions, settings.regular_weight)
        self.facts = {**(facts or {}), "training": asdict(settings), "data": describe_data(data)}

    def batches(self, split: str, device: torch.device) -> PairBatches:
        """The pairs of a split."""
        return PairBatches(
            self.data.split(split), self.directions, batch_size=self.settings.batch_size, device=device
        )

    def optimizer(self) -> Optimizer:
        """The paper's Adam."""
        return make_adam(self.network, self.settings)

    def schedule(self, optimizer: Optimizer, total_steps: int) -> PlateauSchedule:  # noqa: ARG002
        """Lowers the learning rate on a plateau."""
        return PlateauSchedule(optimizer, self.settings)

    def mark_started(self, run: Path) -> None:
        """Write the tokenizer and config.json."""
        self.data.tokenizer.save(run / checkpoint.TOKENIZER_FILE)
        network = self.network
        checkpoint.write_config(run, self.architecture, network.settings, network.vocabulary_size, self.facts)

    def save_weights(self, run: Path) -> None:
        """Write model.safetensors."""
        checkpoint.write_weights(run / checkpoint.WEIGHTS_FILE, self.network.state_dict())


def train(
    data: PreparedData,
    run: Path,
    *,
    model_settings: Any,
    settings: TrainingSettings,
    architecture: str = "gru",
    initialise: Callable[[Any], None] | None = None,
    resume: bool = False,
    observer: TrainingObserver | None = None,
    facts: Mapping[str, Any] | None = None,
) -> state.Position:
    """Train a network of our own into a run directory, or go on where a killed run left off.

    Args:
        data: Prepared pairs.
        run: Where config.json, model.safetensors (the best weights, or the last), tokenizer.json,
            metrics.jsonl and training/ (the last state) go.
        model_settings: The network's shape, its class's `Settings`.
        settings: How to train it.
        architecture: Its name in `NETWORKS`.
        initialise: Changes the fresh network's weights, to start from pretrained embeddings, say.
        resume: Continue from the newest checkpoint in `run`, if there is one.
        observer: Told what happens.
        facts: Kept in config.json: where pretrained embeddings came from, say.

    Raises:
        RunError: If `run` holds something already, or does not belong to these data and settings.
        TrainingError: If the loss stops being finite; the last good checkpoint is kept.
    """
    exists = (run / checkpoint.CONFIG_FILE).exists()
    if exists and not resume:
        raise RunError(
            f"{run} already holds a run. Pass resume to go on with it, or choose another directory."
        )
    names = names_in(run)
    if not exists and (
        names - {state.FOLDER, checkpoint.TOKENIZER_FILE} or (names and state.FOLDER not in names)
    ):
        raise RunError(f"{run} holds other things. Name an empty or new directory.")
    if exists:
        now = {**asdict(model_settings), **asdict(settings), "architecture": architecture}
        facts = {**_check_same_run(run, data, now), **(facts or {})}
    task = NetworkTask(
        data,
        architecture=architecture,
        model_settings=model_settings,
        settings=settings,
        initialise=initialise,
        facts=facts,
    )
    return TrainingLoop(task, run, resume=exists, observer=observer).fit()


def _check_same_run(run: Path, data: PreparedData, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Make sure that a run goes on with what it began with; return the facts it has kept."""
    config = checkpoint.read_config(run)
    fingerprint = config.facts.get("data", {}).get("fingerprint")
    if fingerprint != data.fingerprint:
        raise RunError(
            f"{run} was trained on other data (fingerprint {fingerprint}, not {data.fingerprint}). Give the "
            "data it began with, or choose another directory."
        )
    before = {**asdict(config.model), **config.facts.get("training", {}), "architecture": config.architecture}
    check_same_settings(run, before, settings)
    return config.facts


def _shares(directions: Sequence[Direction], regular_weight: float) -> list[float]:
    """Each direction's share of the loss; one that is alone has all of it."""
    if len(directions) == 1:
        return [1.0]
    return [
        regular_weight if direction is Direction.REGULAR else 1 - regular_weight for direction in directions
    ]
