"""Training a network of our own on prepared ids, and of either kind of model from a run's settings."""

from __future__ import annotations

from dataclasses import asdict, replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import torch

from bidibeam.data.batching import PairBatches
from bidibeam.data.vectors import read_vectors
from bidibeam.errors import RunError, SettingsError, TransformersMissingError
from bidibeam.files import names_in
from bidibeam.hypotheses import Direction
from bidibeam.models import checkpoint
from bidibeam.models.networks import NETWORKS
from bidibeam.training import state
from bidibeam.training.loop import TrainingLoop, check_same_settings, describe_data
from bidibeam.training.optimization import PlateauSchedule, make_adam
from bidibeam.training.settings import HUGGING_FACE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from torch.optim import Optimizer

    from bidibeam.data.prepared import PreparedData
    from bidibeam.training.logs import TrainingObserver
    from bidibeam.training.settings import RunSettings, TrainingSettings


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
        _train_from_config(data, run, settings, vectors=vectors, resume=resume, observer=observer)
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
        options = {"initialise": methodcaller("use_vectors", found), "facts": {"vectors": vectors.name}}
    train(
        data,
        run,
        architecture=settings.architecture,
        model_settings=settings.model,
        settings=settings.training,
        resume=resume,
        observer=observer,
        **options,
    )


def _train_from_config(
    data: PreparedData,
    run: Path,
    settings: RunSettings,
    *,
    vectors: Path | None,
    resume: bool,
    observer: TrainingObserver | None,
) -> None:
    """Fresh weights of a transformers config, with the tokenizer of the data."""
    try:
        from bidibeam.training.fine_tune import fine_tune
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise TransformersMissingError(
            "A Hugging Face model needs transformers, which is not installed: pip install 'bidibeam[hf]'"
        ) from error

    if vectors is not None:
        raise SettingsError("A Hugging Face model starts from no vectors: leave them out.")
    if resume and checkpoint.hugging_face_config(run) is not None:
        return
    config = dict(settings.model)
    directions = config.pop("directions", ["regular", "reverse"])
    if not directions or not isinstance(directions, list | tuple) or {*directions} - {"regular", "reverse"}:
        raise SettingsError(f"model.directions is {directions!r}; choose from: regular, reverse.")
    prepared = data.info["settings"]  # the longest that prepared pairs are, and their end
    limits = {
        name: min(getattr(settings.training, name), prepared[name] + 1)
        for name in ("max_source_length", "max_response_length")
    }
    fine_tune(
        data,
        run,
        base=config,
        direction="both" if len({*directions}) == 2 else directions[0],
        settings=replace(settings.training, **limits),
        resume=resume,
        observer=observer,
    )
