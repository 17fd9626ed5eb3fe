"""What `bidibeam tune` tunes: a run, or a pair of Hugging Face models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bidibeam.data.prepared import PreparedData
    from bidibeam.decoding.decoder import Decoder
    from bidibeam.similarities.spaces import WordVectors


@dataclass(frozen=True)
class Tunable:
    """Something that searches, and a folder for what is found.

    Attributes:
        folder: Where tuned.json goes.
        has_both: Whether there are both directions.
        has_vectors: Whether it has vectors of words of its own.
        weights: What tells it from any other.
        facts: What its training says of its data, as far as that is known.
        named: How `bidibeam decode` is told to use it.
        decoder: Makes a decoder: strategy, settings, and further options.
        space: Word vectors: those of a file, or its own.
    """

    folder: Path
    has_both: bool
    has_vectors: bool
    weights: str
    facts: Mapping[str, Any]
    named: str
    decoder: Callable[..., Decoder]
    space: Callable[[Path | None], WordVectors]

    def data(self, given: Path | None) -> PreparedData:
        """The prepared data that it was trained on.

        Raises:
            SettingsError: If they are not known, or are others.
        """
        from bidibeam.data.prepared import PreparedData
        from bidibeam.errors import SettingsError

        path = given or (Path(self.facts["path"]) if "path" in self.facts else None)
        if path is None:
            raise SettingsError(f"{self.folder} does not say where its data are: give --data DIR.")
        if given is None and not path.is_dir():
            raise SettingsError(f"The data of {self.folder} are not at {path} any more: give --data DIR.")
        data = PreparedData.open(path)
        trained_on = self.facts.get("fingerprint")
        if trained_on is not None and data.fingerprint != trained_on:
            raise SettingsError(
                f"{path} holds other data than {self.folder} was trained on (fingerprint {data.fingerprint}, "
                f"not {trained_on}). Give the data it was trained on with --data."
            )
        return data


def of_run(path: Path, *, device: str | None) -> Tunable:
    """A run of bidibeam's own.

    Raises:
        RunError: If it cannot be loaded.
        SettingsError: If there is no such device.
    """
    from functools import partial

    from bidibeam.api import load_decoder, load_run

    run = load_run(path, device=device)
    return Tunable(
        run.path,
        len(run.directions) > 1,
        True,
        run.fingerprint,
        run.config.facts.get("data", {}),
        str(path),
        partial(load_decoder, run),
        run.word_vectors,
    )


def of_models(regular: str | None, reverse: str | None, *, device: str | None, dtype: str | None) -> Tunable:
    """A pair of Hugging Face models, or a regular one; tuned.json goes into the folder of the regular one.

    Raises:
        BidibeamError: If a model cannot be used, the two do not fit together, or there is no such folder.
    """
    from functools import partial

    from bidibeam.cli.answering import saying_if_slow
    from bidibeam.errors import SettingsError
    from bidibeam.hypotheses import Direction
    from bidibeam.models.huggingface.texts import needing_transformers

    if regular is None:
        raise SettingsError(
            "Tuning needs the regular model, whose folder tuned.json goes into: --regular DIR."
        )
    folder = Path(regular)
    if not folder.is_dir():
        raise SettingsError(
            f"{regular} is no folder, and tuned.json goes beside the regular model: save it into a folder "
            "first, with save_pretrained."
        )
    with saying_if_slow("Loading the models ..."):
        with needing_transformers("A Hugging Face model"):
            from bidibeam.models.huggingface.decoding import (
                load_hf_decoder,
                load_pair,
                space_of,
                writes_words,
            )
            from bidibeam.models.huggingface.loading import training_facts, weights_of
        models = load_pair(regular, reverse, device=device, dtype=dtype)

    def decoder(strategy: Any, *, settings: Any, **options: Any) -> Decoder:
        return load_hf_decoder(strategy=strategy, settings=settings, models=models, dtype=dtype, **options)

    return Tunable(
        folder,
        len(models) > 1,
        writes_words(models[Direction.REGULAR]),
        weights_of(models),
        training_facts(folder).get("data", {}),
        f"--regular {regular}" + (f" --reverse {reverse}" if reverse is not None else ""),
        decoder,
        partial(space_of, models),
    )
