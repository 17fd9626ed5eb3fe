"""tuned.json: what `bidibeam tune` found for a run, kept beside its weights."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam._version import __version__
from bidibeam.errors import RunError, SettingsError, check_setting
from bidibeam.fields import build_known
from bidibeam.files import open_binary, parse_object, reading, write_json
from bidibeam.scores import recorded
from bidibeam.search.settings import SearchSettings

if TYPE_CHECKING:
    from bidibeam.models.base import Model
    from bidibeam.scores import Signature
    from bidibeam.strategies.settings import StrategySettings
    from bidibeam.strategies.tuning import TuningResult

TUNED_FILE = "tuned.json"
SPLIT = "validation"
FORMAT_VERSION = 2
AS_TUNED = (
    "beam_size",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "repetition_penalty",
    "bad_words",
)
"""Search options that decide what is found: a model is searched with those that it was tuned with."""
DEPENDENCIES = {
    "weights": "other weights",
    "split": "another split",
    "sources": "another number of sources",
    "search": "another search",
    "metric": "another metric",
    "penalty_length": "another T",
    "lists": "other lists",
}
"""What tuned settings depend on, by its name in tuned.json, and what it is called where it has changed."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The types of what tuned.json must have, and of what it may have."""

    options: dict[str, dict[str, float]]
    weights: str | None = None
    split: str = SPLIT
    sources: int = 0
    search: dict[str, Any] = field(default_factory=dict)
    metric: str = ""
    values: dict[str, float] = field(default_factory=dict)
    recommended: str | None = None  # the system that answers where none is asked for
    penalty_length: int | None = None  # T of similarities, where it is known


class TunedSettings:
    """What a tuned.json says; a RunError says that it is missing, damaged or of another version."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise RunError(f"There is no {path}: `bidibeam tune RUN` writes it.")
        with reading(path, "Make it again with `bidibeam tune RUN`."):
            with open_binary(path) as file:
                raw = file.read()
            self.content = parse_object(raw)
            version = self.content["format_version"]
            if version != FORMAT_VERSION:
                raise RunError(
                    f"{path} has format version {version!r}; bidibeam {__version__} reads version "
                    f"{FORMAT_VERSION}. Make it again with `bidibeam tune RUN`."
                )
            known = build_known(Tuned, self.content)
            self.content |= asdict(known)
            self.options = known.options
            self.recommended = known.recommended or None
            self.penalty_length = length = known.penalty_length
            check_setting(length is None or length >= 1, "penalty_length", length, "at least 1")
            self.search = {name: known.search[name] for name in AS_TUNED if name in known.search}
            SearchSettings(**self.search)
        self.path = path
        self.name = f"{path.name}@{hashlib.sha256(raw).hexdigest()[:8]}"

    @classmethod
    def at(cls, path: Path) -> TunedSettings:
        """What a file says, or that of a run."""
        return cls(path / TUNED_FILE if path.is_dir() else path)

    @classmethod
    def find(cls, place: Model | Path) -> TunedSettings | None:
        """What was tuned for a model, or lies in a folder; None if nothing does."""
        folder = place if isinstance(place, Path) else place.path
        return cls(folder / TUNED_FILE) if folder is not None and (folder / TUNED_FILE).is_file() else None

    @classmethod
    def known_for(cls, model: Model) -> TunedSettings | None:
        """What was tuned for a model with these weights; None if nothing was, or the file is unusable."""
        with suppress(RunError):
            found = cls.find(model)
            if found is not None and found.has_weights(model.fingerprint):
                return found
        return None

    def apply(self, strategy: StrategySettings) -> tuple[StrategySettings, TunedSettings | None]:
        """The strategy with tuned options under its own; and this, if any of them was used."""
        chosen = strategy.with_tuned(self.options)
        return chosen, None if chosen == strategy else self

    def has_weights(self, fingerprint: str) -> bool:
        """Whether it was tuned for these weights; of a pair, one model may be left out."""
        return set(fingerprint.split("+")) <= set(str(self.content.get("weights")).split("+"))

    def check_weights(self, fingerprint: str) -> None:
        """Refuse what was tuned for other weights."""
        if not self.has_weights(fingerprint):
            raise SettingsError(
                f"{self.path} was tuned for other weights ({self.content.get('weights')}, not "
                f"{fingerprint}). Run `bidibeam tune` again, or give the strategy's settings yourself."
            )


@dataclass(frozen=True, slots=True)
class Conditions:
    """What tuned settings depend on, besides the sources."""

    metric: Signature  # with the number of references
    search: SearchSettings | None  # None of lists that do not say it, like the next
    weights: str | None
    penalty_length: int | None = None  # T of similarities, where it is known
    lists: str | None = None  # what tells them from others, where they are not a model's

    def describe(self, sources: int) -> dict[str, Any]:
        """As tuned.json has them."""
        found_on = {"weights": self.weights, "split": SPLIT, "sources": sources}
        searched = {} if self.search is None else recorded(self.search)
        compared = {"metric": str(self.metric), "penalty_length": self.penalty_length}
        compared |= {} if self.lists is None else {"lists": self.lists}
        return {**found_on, "search": searched, **compared}


def write_tuned(path: Path, tuned: TuningResult, conditions: Conditions) -> None:
    """Write what was found, with all that it depends on, in one step."""
    write_json(
        path,
        {
            "format_version": FORMAT_VERSION,
            "bidibeam_version": __version__,
            **conditions.describe(tuned.sources),
            "recommended": tuned.recommended,
            "options": tuned.options,
            "values": tuned.values,
            "ranking": [asdict(each) for each in tuned.ranking],
            "curves": [asdict(curve) for curve in tuned.curves],
        },
    )


def merge_with_earlier(path: Path, tuned: TuningResult, conditions: Conditions) -> tuple[TuningResult, str]:
    """What was found, and what a tuned.json has found before for others, all else being the same.

    Returns:
        Both together, and a sentence that says which entries are lost and why; it is empty if none is.
    """
    from bidibeam.strategies.tuning import Compared, Curve, TuningResult

    try:
        earlier = TunedSettings(path)
    except RunError:  # there is none, or it is unusable
        return tuned, ""
    content, lost = earlier.content, [name for name in earlier.options if name not in tuned.options]
    told = f"what tuned.json had for {', '.join(lost)} is gone: it was" if lost else ""
    now = conditions.describe(tuned.sources)
    if changed := [DEPENDENCIES[key] for key, value in now.items() if content.get(key) != value]:
        return tuned, told and f"{told} tuned for {' and '.join(changed)}."
    try:
        before = TuningResult(
            content["options"],
            content["values"],
            tuple(
                Curve(**{**each, "values": tuple(each["values"]), "scores": tuple(each["scores"])})
                for each in content["curves"]
            ),
            content["sources"],
            tuple(Compared(**each) for each in content["ranking"]),
            earlier.recommended,
        )
        return tuned.over(before), ""
    except (KeyError, TypeError, ValueError):  # the file was edited
        return tuned, told and f"{told} damaged."
