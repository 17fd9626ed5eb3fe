"""What all stages of an experiment know: its settings, where things are, and who watches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError
from bidibeam.evaluation.names import TUNED
from bidibeam.experiments.layout import TEST, VALIDATION, Layout, SeedLayout, searched_beams
from bidibeam.experiments.settings import ExperimentSettings
from bidibeam.experiments.stages import digest
from bidibeam.experiments.watching import Audience
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.run import RunModel
from bidibeam.strategies.naming import SystemName, requirements_of

TUNED_STRATEGIES = ("bidis", TUNED)


@dataclass(frozen=True)
class Plan:
    """An experiment as its stages see it.

    Attributes:
        layout: Where things are.
        settings: What to do.
        vectors: Word vectors: embeddings start from them, and WMD is computed among them.
        device: Where to compute.
        workers: Processes and threads for scoring.
        audience: Told what happens.
    """

    layout: Layout
    settings: ExperimentSettings
    vectors: Path | None
    device: str | None
    workers: int
    audience: Audience

    @cached_property
    def names(self) -> list[SystemName]:
        """The systems."""
        return [SystemName.of(name) for name in self.settings.systems]

    @cached_property
    def beams(self) -> dict[str, dict[int, tuple[tuple[Direction, ...], tuple[Direction, ...]]]]:
        """By split and beam size: the directions to search, and those that the other one scores."""
        requirements = [(name, requirements_of(str(name))) for name in self.names]
        tuning = [need for name, need in requirements if name.is_tuned or name.strategy in TUNED_STRATEGIES]
        return {
            VALIDATION: searched_beams(tuning, self.settings.beam_sizes),
            TEST: searched_beams((need for _, need in requirements), self.settings.beam_sizes),
        }

    @property
    def tuned_sizes(self) -> tuple[int, ...]:
        """Every N_B, if there is something to tune."""
        return tuple(sorted(self.settings.beam_sizes)) if self.beams[VALIDATION] else ()

    def sources(self, split: str) -> int | None:
        """How many sources of a split are used; None for all."""
        return self.settings.validation_sources if split == VALIDATION else self.settings.sources

    def examples(self, split: str, count: int | None) -> list[Beams]:
        """Sources with references, nothing found for them yet."""
        data = PreparedData.open(self.layout.data)
        return [
            Beams(example["id"], example["source"], example["reference"])
            for example in islice(data.examples(split), count)
        ]

    def run(self, place: SeedLayout) -> RunModel:
        """A seed's run, ready to compute."""
        return RunModel.load(place.run, device=self.device)

    @cached_property
    def vectors_fact(self) -> dict[str, Any]:
        """What tells the word vectors from others; nothing if there are none."""
        return {} if self.vectors is None else {"vectors": [self.vectors.name, digest(self.vectors)]}


def read_json(path: Path) -> Any:
    """What a stage wrote.

    Raises:
        RunError: If it is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(
            f"{path} is damaged ({error}). Remove it and call again: it will be made anew."
        ) from error
