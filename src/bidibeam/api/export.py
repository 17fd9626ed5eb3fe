"""Models as folders to pass on: a run without its training state, or what CTranslate2 converts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.api.cards import find_package, read_metadata, read_scores, render_card
from bidibeam.api.describe import read_progress
from bidibeam.api.tuned import TUNED_FILE, TunedSettings
from bidibeam.errors import SettingsError
from bidibeam.files import leftovers, names_in, write_json, write_text
from bidibeam.models.checkpoint import (
    CONFIG_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    read_config,
    to_half_precision,
    write_config,
    write_weights,
)
from bidibeam.models.ctranslate2.model import CTranslate2Model
from bidibeam.models.loading import require_transformers
from bidibeam.models.run import RunModel, fingerprint_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bidibeam.models.base import Model


CARD_FILE = "MODEL_CARD.md"
FILES = (CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE, TUNED_FILE, CARD_FILE)
"""All that an export may hold."""


def export_run(
    path: Path,
    out: Path,
    *,
    half: bool = False,
    overwrite: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> RunModel:
    """Write a run's weights, tokenizer, configuration and tuned settings into another folder.

    The configuration says, under "exported", of which weights this is an export and how far their training
    came; where the data were is left out. config.json comes last: a folder that has it has the rest.

    Args:
        path: A run.
        out: A new or empty directory.
        half: Whether to store the weights in half precision.
        overwrite: Whether `out` may hold an earlier export, which is replaced.
        facts: More to keep under "exported".

    Returns:
        What was written, loaded.

    Raises:
        RunError: If `path` is no run, or damaged, or its weights cannot be stored in half precision.
        SettingsError: If `out` holds something, or the run's tuned.json is not for its weights.
    """
    _check_free(path, out, overwrite=overwrite)
    run = RunModel.load(path, device="cpu")
    tuned = _read_tuned(run)
    weights = run.network.state_dict()
    stored = to_half_precision(weights) if half else weights
    for earlier in (*(out / name for name in FILES), *leftovers(out, FILES)):
        earlier.unlink(missing_ok=True)
    write_weights(out / WEIGHTS_FILE, stored)
    run.tokenizer.save(out / TOKENIZER_FILE)
    if tuned is not None:
        write_json(out / TUNED_FILE, {**tuned.content, "weights": fingerprint_of(out / WEIGHTS_FILE)})
    exported = {
        "from": run.fingerprint,
        "precision": "float16" if half else "float32",
        "progress": read_progress(run.path, run.config.facts),
        **(facts or {}),
    }
    kept = {**run.config.facts, "exported": exported}
    if "data" in kept:
        kept["data"] = {name: value for name, value in kept["data"].items() if name != "path"}
    write_config(out, run.config.architecture, run.config.model, run.config.vocabulary_size, kept)
    return RunModel.load(out, device="cpu")


def _read_tuned(run: RunModel) -> TunedSettings | None:
    """What was tuned for the run, if anything."""
    if not (run.path / TUNED_FILE).is_file():
        return None
    tuned = TunedSettings(run.path / TUNED_FILE)
    tuned.check_weights(run.fingerprint)
    return tuned


def _check_free(path: Path, out: Path, *, overwrite: bool) -> None:
    """Refuse to write where something is that an export would not replace."""
    if not out.exists():
        return
    if not out.is_dir():
        raise SettingsError(f"{out} is a file. Name an empty or new directory.")
    names = names_in(out)
    if out.resolve() == path.resolve() or names - set(FILES):
        raise SettingsError(f"{out} holds other things. Name an empty or new directory.")
    if names and not overwrite:
        raise SettingsError(
            f"{out} holds an exported run already. Name an empty or new directory, or pass overwrite."
        )


def export_run_with_card(
    path: Path, out: Path, *, half: bool, overwrite: bool, card: bool, results: Path | None
) -> None:
    """Export a run, with its corpus' package, its test scores and a model card where they are wanted.

    Args:
        path: A run.
        out: A new or empty directory.
        half: Whether to store the weights in half precision.
        overwrite: Whether an earlier export may be replaced.
        card: Whether to write a model card.
        results: A results.json of `bidibeam reproduce`, whose test scores are kept.

    Raises:
        RunError: If `path` is no run, or damaged.
        SettingsError: If `out` holds something.
    """
    metadata: dict[str, Any] = {}
    config = read_config(path)
    if package := find_package(str(config.facts.get("data", {}).get("corpus"))):
        metadata["corpus"] = package
    if results is not None:
        metadata["scores"] = read_scores(results, fingerprint_of(path / WEIGHTS_FILE))
    export_run(path, out, half=half, overwrite=overwrite, facts=metadata)
    if card:
        write_text(out / CARD_FILE, render_card(read_metadata(out)))


def export_converted(model: Model, out: Path, *, quantization: str, overwrite: bool) -> None:
    """Convert a Hugging Face model, or a pair, for CTranslate2.

    Args:
        model: The model.
        out: A new or empty directory.
        quantization: "int8" or "float32".
        overwrite: Whether an earlier export may be replaced.

    Raises:
        SettingsError: If CTranslate2 does not support the model, or `out` holds something.
    """
    if out.exists() and (not out.is_dir() or names_in(out)):
        is_earlier = CTranslate2Model.recognises(out)
        if not (overwrite and is_earlier):
            way_out = ", or pass overwrite" if is_earlier else ""
            raise SettingsError(f"{out} holds other things. Name an empty or new directory{way_out}.")
    with require_transformers("A CTranslate2 export"):
        from bidibeam.models.ctranslate2.export import export_to_ctranslate2
    export_to_ctranslate2(model, out, quantization=quantization)
