"""Models as folders to pass on: a run without its training state, or what CTranslate2 converts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from bidibeam.api.cards import EXCHANGES_FILE, find_package, read_scores, render_card
from bidibeam.api.tuned import TUNED_FILE, TunedSettings
from bidibeam.errors import SettingsError
from bidibeam.files import names_in, reading, replacing_folder, resolve, write_json, write_text
from bidibeam.models.checkpoint import (
    CONFIG_FILE,
    SOURCE_TOKENIZER_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    fingerprint_of,
    read_config,
    to_half_precision,
    write_config,
    write_weights,
)
from bidibeam.models.ctranslate2.model import CTranslate2Model
from bidibeam.models.loading import require_transformers
from bidibeam.models.run import RunModel
from bidibeam.training.logs import progress_of

if TYPE_CHECKING:
    from pathlib import Path

    from bidibeam.models.base import Model


CARD_FILE = "MODEL_CARD.md"
FILES = (
    CONFIG_FILE,
    WEIGHTS_FILE,
    TOKENIZER_FILE,
    SOURCE_TOKENIZER_FILE,
    TUNED_FILE,
    EXCHANGES_FILE,
    CARD_FILE,
)
"""All that an export may hold."""


def export_run(
    path: Path,
    out: Path,
    *,
    half: bool = False,
    overwrite: bool = False,
    card: bool = False,
    results: Path | None = None,
) -> None:
    """Write a run's weights, tokenizer, configuration and tuned settings into another folder.

    The configuration says, under "exported", of which weights this is an export and how far their training
    came; where the data were is left out. An earlier export stays as it is until all is written.
    Weights are stored in half precision if `half`; test scores of `results`, a results.json of `bidibeam
    reproduce`, are kept; `overwrite` replaces an earlier export.

    Raises:
        RunError: If `path` is no run, or damaged, or its weights cannot be stored in half precision.
        SettingsError: If `out` holds something, or the run's tuned.json is not for its weights.
    """
    metadata, exported = read_config(path).metadata, dict[str, Any]()
    if package := find_package(str(metadata.get("data", {}).get("corpus"))):
        exported["corpus"] = package
    if results is not None:
        exported["scores"] = read_scores(results, fingerprint_of(path / WEIGHTS_FILE))
    is_earlier = names_in(out) <= {*FILES} and resolve(out) != resolve(path)
    _check_free(out, is_earlier=is_earlier and out.is_dir(), overwrite=overwrite)
    run = RunModel.load(path, device="cpu")
    tuned = TunedSettings.find(path)
    if tuned is not None:
        tuned.check_weights(run.fingerprint)
    weights = run.network.state_dict()
    stored = to_half_precision(weights) if half else weights
    exported = {
        "from": run.fingerprint,
        "precision": "float16" if half else "float32",
        "progress": metadata["exported"].get("progress", {}) if "exported" in metadata else progress_of(path),
        **exported,
    }
    kept = {**metadata, "exported": exported}
    if "data" in kept:
        kept["data"] = {name: value for name, value in kept["data"].items() if name != "path"}
    with replacing_folder(out) as made:
        write_weights(made / WEIGHTS_FILE, stored)
        run.tokenizer.save(made / TOKENIZER_FILE)
        if run.source_tokenizer is not None:
            run.source_tokenizer.save(made / SOURCE_TOKENIZER_FILE)
        if tuned is not None:
            write_json(made / TUNED_FILE, {**tuned.content, "weights": fingerprint_of(made / WEIGHTS_FILE)})
        config = run.config
        shape = config.architecture, config.model, config.vocabulary_size
        write_config(made, *shape, kept, config.output_size)
        if (path / EXCHANGES_FILE).is_file():
            shutil.copyfile(path / EXCHANGES_FILE, made / EXCHANGES_FILE)
        if card:
            with reading(path, "Train again, or leave out the card."):
                write_text(made / CARD_FILE, render_card(made))


def export_converted(model: Model, out: Path, *, quantization: str, overwrite: bool) -> None:
    """Convert a Hugging Face model, or a pair, for CTranslate2, with weights in "int8" or "float32".

    Raises:
        SettingsError: If CTranslate2 does not support the model, or `out` holds something; with `overwrite`,
            something other than an earlier export.
    """
    _check_free(out, is_earlier=CTranslate2Model.recognises(out), overwrite=overwrite)
    with require_transformers("A CTranslate2 export"):
        from bidibeam.models.ctranslate2.export import export_to_ctranslate2
    export_to_ctranslate2(model, out, quantization=quantization)


def _check_free(out: Path, *, is_earlier: bool, overwrite: bool) -> None:
    """Refuse to write where something is, but for an earlier export that is to be replaced."""
    if (out.is_dir() and (not names_in(out) or (is_earlier and overwrite))) or not out.exists():
        return
    what = (
        "is a file" if not out.is_dir() else "holds an export already" if is_earlier else "holds other things"
    )
    way_out = ", or pass `overwrite`" if is_earlier else ""
    raise SettingsError(f"{out} {what}. Name an empty or new directory{way_out}.")
