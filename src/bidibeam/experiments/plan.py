"""What all stages of an experiment know: its settings, its files, its model, and who shows progress."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from bidibeam.data.prepared import PreparedData
from bidibeam.evaluation.systems import TUNED
from bidibeam.experiments.layout import TEST, VALIDATION, Layout, SeedLayout, plan_searches
from bidibeam.experiments.settings import ExperimentSettings
from bidibeam.experiments.stages import Progress, hash_file
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.base import Model
from bidibeam.models.loading import load
from bidibeam.strategies.naming import SystemName, requirements_of

TUNED_STRATEGIES = ("bidis", TUNED)


@dataclass(frozen=True)
class GivenModel:
    """A model that is measured and not trained: what `bidibeam.load` takes, and the model's fingerprint."""

    name: str
    reverse: str | None = None
    dtype: str | None = None
    trust_remote_code: bool = False
    weights: str = ""

    def load(self, device: str | None) -> Model:
        """Loads it."""
        trust = self.trust_remote_code
        return load(self.name, self.reverse, device=device, dtype=self.dtype, trust_remote_code=trust)

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
    data: Path | None = None
    """Prepared data to use as they are, instead of preparing."""
    vectors: Path | None = None
    """Word vectors: embeddings start from them, and WMD is computed among them."""
    device: str | None = None
    """Where to compute; the first GPU, if there is one, by default."""
    workers: int = 1
    """Processes and threads for scoring."""
    progress: Progress = field(default_factory=Progress)
    """Told what happens."""
    given: GivenModel | None = None
    """A model to measure instead of training one."""

    @cached_property
    def layout(self) -> Layout:
        """Its files."""
        return Layout(self.folder, self.data or self.folder / "data")

    @cached_property
    def names(self) -> list[SystemName]:
        """The systems."""
        return [SystemName.of(name) for name in self.settings.systems]

    @cached_property
    def beams(self) -> dict[str, dict[int, tuple[tuple[Direction, ...], tuple[Direction, ...]]]]:
        """By split and beam size: the directions to search, and those that the other one scores."""
        requirements = [(name, requirements_of(str(name))) for name in self.names]
        tuning = [each for name, each in requirements if name.is_tuned or name.strategy in TUNED_STRATEGIES]
        return {
            VALIDATION: plan_searches(tuning, self.settings.beam_sizes),
            TEST: plan_searches((each for _, each in requirements), self.settings.beam_sizes),
        }

    @property
    def tuned_sizes(self) -> tuple[int, ...]:
        """Every N_B, if there is something to tune."""
        return tuple(sorted(self.settings.beam_sizes)) if self.beams[VALIDATION] else ()

    def count_sources(self, split: str) -> int | None:
        """Returns how many sources of a split are used; None for all."""
        return self.settings.validation_sources if split == VALIDATION else self.settings.sources

    def read_examples(self, split: str, count: int | None) -> list[Beams]:
        """Reads sources with references."""
        data = PreparedData.open(self.layout.data)
        return [
            Beams(example["id"], example["source"], example["reference"])
            for example in islice(data.examples(split), count)
        ]

    def load_model(self, place: SeedLayout, device: str | None = None) -> Model:
        """Loads the model that is given, or that of a seed."""
        device = device or self.device
        return load(place.run, device=device) if self.given is None else self.given.load(device)

    @cached_property
    def vectors_identity(self) -> dict[str, Any]:
        """Identifies the word vectors; empty if there are none."""
        return {} if self.vectors is None else {"vectors": [self.vectors.name, hash_file(self.vectors)]}
