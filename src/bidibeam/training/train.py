"""Training from a run's settings: a network of our own, or a Hugging Face model that a config describes."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch

from bidibeam.data.batching import PairBatches
from bidibeam.data.vectors import read_vectors
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models import checkpoint
from bidibeam.models.loading import require_transformers
from bidibeam.models.networks import NETWORKS, create_network
from bidibeam.training.loop import TrainingLoop, describe_data
from bidibeam.training.optimization import PlateauSchedule
from bidibeam.training.settings import HUGGING_FACE
from bidibeam.training.state import check_folder, training_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bidibeam.data.prepared import PreparedData
    from bidibeam.training.logs import TrainingObserver
    from bidibeam.training.settings import RunSettings, TrainingSettings


class NetworkTask:
    """A network of the `NETWORKS` registry and prepared ids: a `TrainingTask`; config.json has metadata."""

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
        self.shares: Sequence[float] = [1.0]  # a direction that is alone has all of the loss
        if len(self.directions) > 1:
            self.shares = [weight if each is Direction.REGULAR else 1 - weight for each in self.directions]
        self.loss_options: Mapping[str, Any] = {"shares": self.shares}
        if settings.label_smoothing:  # which a network of another package need not know
            self.loss_options = {**self.loss_options, "label_smoothing": settings.label_smoothing}
        self.metadata = {**metadata, "training": asdict(settings), "data": describe_data(data)}

    def batches(self, split: str, device: torch.device) -> PairBatches:
        """The pairs of a split."""
        pairs, size = self.data.split(split), self.settings.batch_size
        return PairBatches(pairs, self.directions, batch_size=size, device=device)

    def schedule(self, total_steps: int) -> PlateauSchedule:  # noqa: ARG002
        """The paper's Adam, with a lower learning rate on a plateau."""
        return PlateauSchedule(self.network, self.settings)

    def mark_started(self, run: Path) -> None:
        """Write the tokenizers and config.json."""
        self.data.tokenizer.save(run / checkpoint.TOKENIZER_FILE)
        vocabulary_size, output_size = _find_sizes(self.data)
        if output_size is not None:
            self.data.source_tokenizer.save(run / checkpoint.SOURCE_TOKENIZER_FILE)
        shape = self.architecture, self.network.settings, vocabulary_size
        checkpoint.write_config(run, *shape, self.metadata, output_size)

    def save_weights(self, run: Path) -> None:
        """Write model.safetensors."""
        checkpoint.write_weights(run / checkpoint.WEIGHTS_FILE, self.network.state_dict())


def train(
    data: PreparedData,
    run: Path,
    settings: RunSettings,
    *,
    vectors: Path | None = None,
    resume: bool = False,
    observer: TrainingObserver | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> None:
    """Train a network of our own, or a Hugging Face model from its config, or go on where that was killed.

    Args:
        data: Prepared pairs.
        run: A folder that `load` takes when training is over. That of a network of our own gets config.json,
            model.safetensors (the best weights, or the last), tokenizer.json, source_tokenizer.json where
            sources have their own, metrics.jsonl and training/ (the last state).
        settings: The architecture, its shape and how to train it, as `bidibeam.config.resolve` gives them.
        vectors: A fastText file that the embeddings of a network of our own start from.
        resume: Go on from the newest checkpoint in `run`, if there is one.
        observer: Told of steps and losses.
        note: Told how many tokens have a vector.

    Raises:
        RunError: If `run` holds something already, or does not belong to these data.
        SettingsError: If a setting is not the one that the run began with, or cannot be used.
        TrainingError: If the loss stops being finite; the last good checkpoint is kept.
    """
    if settings.architecture == HUGGING_FACE:
        if vectors is not None:
            raise SettingsError("A Hugging Face model starts from no vectors: leave them out.")
        _train_from_config(data, run, settings, resume=resume, observer=observer)
        return
    architecture, model, training = settings.architecture, settings.model, settings.training
    metadata: dict[str, Any] = {}
    known = None
    if vectors is not None:
        if not hasattr(NETWORKS.get(architecture), "use_vectors"):
            raise SettingsError(f"A network of the architecture {architecture} starts from no vectors.")
        known = read_vectors(vectors, _number_tokens(data))
        count, size = len(known.ids), known.vocabulary_size
        note(f"{vectors.name} has vectors for {count:,} of {size:,} tokens ({known.coverage:.1%}).")
        metadata = {"vectors": vectors.name}
    sections = {"model": checkpoint.settings_mapping(model), "training": asdict(training)}
    now = {"architecture": architecture, "fingerprint": data.fingerprint, **sections}
    with training_in(run):
        is_resumed = check_folder(run, now, resume=resume)
        if is_resumed:
            metadata = {**checkpoint.read_config(run).metadata, **metadata}
        torch.manual_seed(training.seed)
        network = create_network(architecture, model, *_find_sizes(data))
        if known is not None:
            network.use_vectors(known)
        task = NetworkTask(data, network, training, architecture=architecture, metadata=metadata)
        TrainingLoop(task, run, resume=is_resumed, observer=observer).fit()


def _find_sizes(data: PreparedData) -> tuple[int, int | None]:
    """How many tokens there are, and how many of them are written, where sources have their own."""
    size = data.tokenizer.vocabulary_size
    is_alike = data.source_tokenizer is data.tokenizer
    return (size, None) if is_alike else (data.source_tokenizer.vocabulary_size, size)


def _number_tokens(data: PreparedData) -> dict[str, int]:
    """Tokens by id; of one that both sides have, the id on the side whose tokens are words."""
    tokenizers = sorted((data.source_tokenizer, data.tokenizer), key=lambda each: each.kind == "word")
    return {
        token: index
        for tokenizer in tokenizers
        for index, token in zip(tokenizer.own_ids, tokenizer.tokens(tokenizer.own_ids), strict=True)
    }


def _train_from_config(data: PreparedData, run: Path, settings: RunSettings, **options: Any) -> None:
    """Train fresh weights of a transformers config with the tokenizer of the data."""
    with require_transformers("A Hugging Face model"):
        from bidibeam.training.fine_tune import fine_tune
    config = dict(settings.model)
    directions = config.pop("directions", ["regular", "reverse"])
    if not directions or not isinstance(directions, list | tuple) or {*directions} - {"regular", "reverse"}:
        raise SettingsError(f"model.directions is {directions!r}; choose from: regular, reverse.")
    direction = "both" if len({*directions}) == 2 else directions[0]
    prepared = data.info["settings"]  # which has the longest pairs, without an end
    training = settings.training
    limits = {
        name: min(getattr(training, name), prepared[name] + 1)
        for name in ("max_source_length", "max_response_length")
    }
    training = replace(training, **limits)
    fine_tune(data, run, base=config, direction=direction, settings=training, **options)
