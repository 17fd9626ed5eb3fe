"""Training a network of our own on prepared ids, and of either kind of model from a run's settings."""

from __future__ import annotations

from dataclasses import asdict
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import torch

from bidibeam.data.batching import PairBatches
from bidibeam.data.vectors import read_vectors
from bidibeam.errors import RunError, SettingsError
from bidibeam.files import names_in
from bidibeam.hypotheses import Direction
from bidibeam.models import checkpoint
from bidibeam.models.loading import require_transformers
from bidibeam.models.networks import NETWORKS
from bidibeam.training import state
from bidibeam.training.loop import TrainingLoop, check_same_settings, describe_data
from bidibeam.training.optimization import PlateauSchedule
from bidibeam.training.settings import HUGGING_FACE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bidibeam.data.prepared import PreparedData
    from bidibeam.training.logs import TrainingObserver
    from bidibeam.training.settings import RunSettings, TrainingSettings


class NetworkTask:
    """A network of the `NETWORKS` registry and prepared ids: a `TrainingTask`.

    Args:
        data: Prepared pairs.
        network: The network, its weights as training starts from.
        settings: How to train it.
        architecture: Its name.
        metadata: Kept in config.json.
    """

    is_capturable = True

    def __init__(
        self,
        data: PreparedData,
        network: Any,
        settings: TrainingSettings,
        *,
        architecture: str,
        metadata: Mapping[str, Any],
    ) -> None:
        self.data, self.network, self.settings, self.architecture = data, network, settings, architecture
        self.directions: Sequence[Direction] = network.directions
        weight = settings.regular_weight
        self.loss_options: Mapping[str, Any] = {"regular_weight": weight}
        self.shares: Sequence[float] = [1.0]  # a direction that is alone has all of the loss
        if len(self.directions) > 1:
            self.shares = [weight if each is Direction.REGULAR else 1 - weight for each in self.directions]
        self.metadata = {**metadata, "training": asdict(settings), "data": describe_data(data)}

    def batches(self, split: str, device: torch.device) -> PairBatches:
        """The pairs of a split."""
        pairs, size = self.data.split(split), self.settings.batch_size
        return PairBatches(pairs, self.directions, batch_size=size, device=device)

    def schedule(self, total_steps: int) -> PlateauSchedule:  # noqa: ARG002
        """The paper's Adam, with a lower learning rate on a plateau."""
        return PlateauSchedule(self.network, self.settings)

    def mark_started(self, run: Path) -> None:
        """Write the tokenizer and config.json."""
        self.data.tokenizer.save(run / checkpoint.TOKENIZER_FILE)
        network = self.network
        checkpoint.write_config(
            run, self.architecture, network.settings, network.vocabulary_size, self.metadata
        )

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
    metadata: Mapping[str, Any] | None = None,
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
        metadata: Kept in config.json: where pretrained embeddings came from, say.

    Raises:
        RunError: If `run` holds something already, or does not belong to these data and settings.
        TrainingError: If the loss stops being finite; the last good checkpoint is kept.
    """
    is_run, names = (run / checkpoint.CONFIG_FILE).exists(), names_in(run)
    if is_run and not resume:
        raise RunError(f"{run} already holds a run. Go on with it by `resume`, or choose another directory.")
    is_begun = state.FOLDER in names and not names - {state.FOLDER, checkpoint.TOKENIZER_FILE}
    if names and not is_run and not is_begun:
        raise RunError(f"{run} holds other things. Name an empty or new directory.")
    known = dict(metadata or {})
    if is_run:
        now = {**asdict(model_settings), **asdict(settings), "architecture": architecture}
        known = {**_check_same_run(run, data, now), **known}
    torch.manual_seed(settings.seed)
    network = NETWORKS.create(architecture, model_settings, data.tokenizer.vocabulary_size)
    if initialise is not None:
        initialise(network)
    task = NetworkTask(data, network, settings, architecture=architecture, metadata=known)
    return TrainingLoop(task, run, resume=is_run, observer=observer).fit()


def _check_same_run(run: Path, data: PreparedData, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Make sure that a run goes on with what it began with; return the metadata it has kept."""
    config = checkpoint.read_config(run)
    fingerprint = config.metadata.get("data", {}).get("fingerprint")
    if fingerprint != data.fingerprint:
        raise RunError(
            f"{run} was trained on other data (fingerprint {fingerprint}, not {data.fingerprint}). Give the "
            "data it began with, or choose another directory."
        )
    before = {
        **asdict(config.model),
        **config.metadata.get("training", {}),
        "architecture": config.architecture,
    }
    check_same_settings(run, before, settings)
    return config.metadata


def train_run(
    data: PreparedData,
    run: Path,
    settings: RunSettings,
    *,
    vectors: Path | None = None,
    resume: bool = False,
    observer: TrainingObserver | None = None,
    note: Callable[[str], None] | None = None,
) -> None:
    """Train a network of our own, or a Hugging Face model from its config, into a folder that `load` takes.

    Args:
        data: Prepared pairs.
        run: The folder.
        settings: The architecture, its shape and how to train it, as `bidibeam.config.resolve` gives them.
        vectors: A fastText file that the embeddings of a network of our own start from.
        resume: Go on with what is there; a model that is finished stays as it is.
        observer: Told of steps and losses.
        note: Told how many tokens have a vector.

    Raises:
        BidibeamError: As `train` and `fine_tune`.
    """
    if settings.architecture == HUGGING_FACE:
        with require_transformers("A Hugging Face model"):
            from bidibeam.training.fine_tune import train_from_config
        if vectors is not None:
            raise SettingsError("A Hugging Face model starts from no vectors: leave them out.")
        train_from_config(data, run, settings, resume=resume, observer=observer)
        return
    options: dict[str, Any] = {}
    if vectors is not None:
        if not hasattr(NETWORKS.get(settings.architecture), "use_vectors"):
            raise SettingsError(
                f"A network of the architecture {settings.architecture} starts from no vectors."
            )
        tokens = data.tokenizer.tokens(range(data.tokenizer.vocabulary_size))
        found = read_vectors(vectors, {token: index for index, token in enumerate(tokens)})
        if note is not None:
            count, size = len(found.ids), found.vocabulary_size
            note(f"{vectors.name} has vectors for {count:,} of {size:,} tokens ({found.coverage:.1%}).")
        options = {"initialise": methodcaller("use_vectors", found), "metadata": {"vectors": vectors.name}}
    options |= {"model_settings": settings.model, "settings": settings.training}
    train(data, run, architecture=settings.architecture, resume=resume, observer=observer, **options)
