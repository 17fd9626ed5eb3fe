"""A model and names to a working decoder: the one place where the parts meet."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from bidibeam.api.decoders import load_decoder
from bidibeam.api.tuned import TunedSettings
from bidibeam.errors import RunError
from bidibeam.models.loading import MODELS, bundled_path, find_kind, find_title, load
from bidibeam.models.run import RunModel
from bidibeam.training.logs import progress_of

__all__ = ["describe_model", "load", "load_decoder", "load_run"]


def load_run(path: Path | str | None = None, *, device: str | None = None) -> RunModel:
    """Load what `bidibeam train` or `bidibeam export` wrote, or the model that comes with the package.

    The device is "cpu", "cuda" or "cuda:1"; the first GPU, if there is one, by default.
    """
    return RunModel.load(bundled_path() if path is None else path, device=device)


def describe_model(folder: Path) -> tuple[str, dict[str, Any]]:
    """What kind of model a folder holds, and all that is known of it, without loading the model."""
    kind = find_kind(folder) if folder.is_dir() else "run"  # which says what is missing
    metadata: dict[str, Any] = MODELS.get(kind).describe(folder)  # type: ignore[attr-defined]
    if "training" in metadata:  # by our loop, whose log tells how far it came
        metadata.setdefault("progress", progress_of(folder))
    with suppress(RunError):  # what cannot be read says nothing
        if (tuned := TunedSettings.find(folder)) is not None:
            search, metric = tuned.content["search"], tuned.content["metric"].partition("|")[0]
            metadata["tuned"] = {
                "recommended": tuned.recommended or "nothing",
                "metric": metric.rpartition(":")[2],
                "beam size": search.get("beam_size"),
                "validation sources": tuned.content["sources"],
            }
    title = find_title(kind)
    return title[0].upper() + title[1:], metadata
