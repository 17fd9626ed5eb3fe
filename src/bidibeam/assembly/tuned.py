"""tuned.json: what `bidibeam tune` found for a run, kept beside its weights."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam._version import __version__
from bidibeam.errors import RunError, SettingsError
from bidibeam.files import write_json

if TYPE_CHECKING:
    from bidibeam.scores import Signature
    from bidibeam.search.settings import SearchSettings
    from bidibeam.selection.tuning import Tuned

TUNED_FILE = "tuned.json"
FORMAT_VERSION = 1


class TunedSettings:
    """What a tuned.json says.

    Args:
        path: The file.

    Raises:
        RunError: If it is missing, damaged or of another version.
    """

    def __init__(self, path: Path) -> None:
        try:
            raw = path.read_bytes()
            self.content: dict[str, Any] = json.loads(raw)
            version = self.content["format_version"]
            if version != FORMAT_VERSION:
                raise RunError(
                    f"{path} has format version {version!r}; bidibeam {__version__} reads version "
                    f"{FORMAT_VERSION}. Make it again with `bidibeam tune RUN`."
                )
            self.options: dict[str, dict[str, float]] = {
                strategy: {name: float(value) for name, value in options.items()}
                for strategy, options in self.content["options"].items()
            }
        except FileNotFoundError:
            raise RunError(f"There is no {path}: `bidibeam tune RUN` writes it.") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"{path} is damaged ({error!r}). Make it again with `bidibeam tune RUN`."
            ) from error
        self.path = path
        self.name = f"{path.name}@{hashlib.sha256(raw).hexdigest()[:8]}"

    def check_weights(self, fingerprint: str) -> None:
        """Make sure that it was tuned for these weights.

        Raises:
            SettingsError: If not.
        """
        if self.content.get("weights") != fingerprint:
            raise SettingsError(
                f"{self.path} was tuned for other weights ({self.content.get('weights')}, not "
                f"{fingerprint}). Run `bidibeam tune` again, or give the strategy's settings as flags."
            )


def write_tuned(
    path: Path, tuned: Tuned, *, search: SearchSettings, weights: str, split: str, metric: Signature
) -> None:
    """Write what was found, with all that it depends on, in one step."""
    write_json(
        path,
        {
            "format_version": FORMAT_VERSION,
            "bidibeam_version": __version__,
            "weights": weights,
            "split": split,
            "sources": tuned.sources,
            "search": asdict(search),
            "metric": str(metric),
            "options": tuned.options,
            "bleu": tuned.bleu,
            "curves": [asdict(curve) for curve in tuned.curves],
        },
    )
