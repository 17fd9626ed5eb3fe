"""Training of either kind of model from a run's settings, as `train` and `reproduce` do it."""

from __future__ import annotations

from dataclasses import replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from bidibeam.data.vectors import read_vectors
from bidibeam.errors import SettingsError, TransformersMissingError
from bidibeam.models.checkpoint import hugging_face_config
from bidibeam.models.networks import NETWORKS
from bidibeam.training.networks import train
from bidibeam.training.settings import HUGGING_FACE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bidibeam.data.prepared import PreparedData
    from bidibeam.training.logs import TrainingObserver
    from bidibeam.training.settings import RunSettings


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
    if resume and hugging_face_config(run) is not None:
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
