"""What all stages of an experiment know: its settings, its files, its model, and who shows progress."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from bidibeam._version import __version__
from bidibeam.data.prepared import HELD_OUT, INFO, PreparedData
from bidibeam.experiments.settings import ExperimentSettings
from bidibeam.experiments.stages import ExperimentObserver, hash_content
from bidibeam.files import parse_json, reading
from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange import nbest
from bidibeam.metrics.bleu import OWN_WORDS, CorpusBleu
from bidibeam.models.base import Model
from bidibeam.models.loading import load
from bidibeam.protocols import Requirements
from bidibeam.strategies.settings import StrategySettings, requirements_of

VALIDATION, TEST = "validation", "test"
OPENINGS = "test-openings.jsonl"
"""Every opening of the test set since the experiment began."""
AGAIN = "Remove it and call again: it will be made anew."


@dataclass(frozen=True)
class GivenModel:
    """A model that is measured and not trained: what `bidibeam.load` takes, and the model's fingerprints."""

    name: str
    reverse: str | None = None
    dtype: str | None = None
    trust_remote_code: bool = False
    weights: str = ""
    data: str | None = None  # what it was trained on, if it says so

    def load(self, device: str | None) -> Model:
        """Loads it."""
        trust = self.trust_remote_code
        return load(self.name, self.reverse, device=device, dtype=self.dtype, trust_remote_code=trust)

    def identified_by(self, loaded: Model) -> GivenModel:
        """Returns the same with the fingerprints of the loaded model and of its data."""
        return replace(self, weights=loaded.fingerprint, data=loaded.data.get("fingerprint"))

    @property
    def metadata(self) -> dict[str, str | None]:
        """What results say of it; of a folder only the name."""
        names = [
            name and (Path(name).name if Path(name).is_dir() else name) for name in (self.name, self.reverse)
        ]
        dtype = {} if self.dtype is None else {"dtype": self.dtype}
        return {"name": names[0], "reverse": names[1], "weights": self.weights, **dtype}


@dataclass(frozen=True)
class Plan:
    """An experiment as its stages see it."""

    folder: Path
    settings: ExperimentSettings
    _: KW_ONLY
    data: Path | None = None  # prepared data to use as they are, instead of preparing
    vectors: Path | None = None  # of words: embeddings start from them, and WMD is computed among them
    device: str | None = None  # where to compute; the first GPU, if there is one, by default
    workers: int = 1  # processes and threads for scoring
    progress: ExperimentObserver = field(default_factory=ExperimentObserver)  # told what happens
    given: GivenModel | None = None  # a model to measure instead of training one
    control: GivenModel | None = None  # a second regular network, in place of the next seed's

    @property
    def data_folder(self) -> Path:
        """Where the prepared data are, or will be."""
        return self.data or self.folder / "data"

    @property
    def data_files(self) -> list[Path]:
        """The files by which prepared data are known."""
        return [self.data_folder / name for name in (INFO, *HELD_OUT.values())]

    @cached_property
    def systems(self) -> list[StrategySettings]:
        """The systems."""
        return [StrategySettings.named(name) for name in self.settings.systems]

    @cached_property
    def beams(self) -> dict[str, dict[int, tuple[tuple[Direction, ...], tuple[Direction, ...]]]]:
        """By split and beam size: the directions to search, and those that the other one scores."""
        requirements = [(each, requirements_of(each.system)) for each in self.systems]
        tuning = [needed for each, needed in requirements if each.is_tunable]
        return {
            VALIDATION: plan_searches(tuning, self.settings.beam_sizes),
            TEST: plan_searches((needed for _, needed in requirements), self.settings.beam_sizes),
        }

    @property
    def tuned_sizes(self) -> tuple[int, ...]:
        """Every N_B, if there is something to tune."""
        return tuple(sorted(self.settings.beam_sizes)) if self.beams[VALIDATION] else ()

    def count_sources(self, split: str) -> int | None:
        """Returns how many sources of a split are searched; None for all."""
        return self.settings.validation_sources if split == VALIDATION else self.settings.sources

    def read_examples(self, split: str, count: int | None) -> list[Beams]:
        """Reads so many sources with references, spread over the split; all if `count` is None."""
        examples = PreparedData.open(self.data_folder).sample(split, count)
        return [Beams(example["id"], example["source"], tuple(example["references"])) for example in examples]

    def log_opening(self, purpose: str) -> None:
        """Writes down that the test set is opened, and what for."""
        opening = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "purpose": purpose}
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / OPENINGS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({**opening, "bidibeam": __version__}) + "\n")

    def read_openings(self) -> list[dict[str, str]]:
        """Reads when the test set was opened, and what for."""
        path = self.folder / OPENINGS
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        with reading(path, AGAIN):
            return [parse_json(line) for line in lines]

    @property
    def metric_identity(self) -> dict[str, Any]:
        """Identifies the metric; empty if it is corpus BLEU of words, which older stamps do not name."""
        metric = self.settings.metrics[0]
        return {} if metric == CorpusBleu(OWN_WORDS) else {"metric": str(metric.signature)}

    @cached_property
    def vectors_identity(self) -> dict[str, Any]:
        """Identifies the word vectors; empty if there are none."""
        return {} if self.vectors is None else {"vectors": [self.vectors.name, hash_content(self.vectors)]}


def plan_searches(
    requirements: Iterable[Requirements], beam_sizes: Sequence[int]
) -> dict[int, tuple[tuple[Direction, ...], tuple[Direction, ...]]]:
    """Returns by beam size the directions to search, and those whose hypotheses the other direction scores.

    A search of b hypotheses in each direction serves the strategies that need one direction at N_B = b, and
    those that need both at N_B = 2b.
    """
    searched: dict[int, set[Direction]] = {}
    scored: dict[int, set[Direction]] = {}
    for each in requirements:
        for beam_size in beam_sizes:
            for direction, size in (each.split(beam_size) or {}).items():
                searched.setdefault(size, set()).add(direction)
                if direction in each.scored:
                    scored.setdefault(size, set()).add(direction)

    def order(directions: set[Direction]) -> tuple[Direction, ...]:
        return tuple(direction for direction in Direction if direction in directions)

    return {size: (order(searched[size]), order(scored.get(size, set()))) for size in sorted(searched)}


class BeamFiles:
    """The n-best lists of a split, by beam size, read when they are first needed."""

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self._paths = paths
        self._read: dict[int, list[Beams]] = {}

    def for_system(self, requirements: Requirements, beam_size: int) -> list[Beams] | None:
        """Returns the lists that a strategy may choose from at an N_B; None if that is too small for it."""
        parts = requirements.split(beam_size)
        if parts is None:
            return None
        for size in parts.values():
            if size not in self._read:
                self._read[size] = read_beams(self._paths[size])
        merged = []
        for sources in zip(*(self._read[size] for size in parts.values()), strict=True):
            beams = Beams(sources[0].id, sources[0].source, sources[0].references)
            for direction, read in zip(parts, sources, strict=True):
                beams = beams.with_hypotheses(direction, read.of(direction))
            merged.append(beams)
        return merged


def read_beams(path: Path) -> list[Beams]:
    """Reads the n-best lists that a search wrote."""
    with reading(path, AGAIN):
        return list(nbest.read(path, allow_empty=True))


def read_stage_file(path: Path) -> Any:
    """Reads what a stage wrote."""
    with reading(path, AGAIN):
        return parse_json(path.read_bytes())
