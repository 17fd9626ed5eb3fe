"""Beams on disk to scores, tests and analyses: the part of an experiment that needs no search."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bidibeam._version import __version__
from bidibeam.api.tuned import TunedSettings
from bidibeam.decoding.decoder import Ranker
from bidibeam.evaluation.analyses import analyse
from bidibeam.evaluation.analyses.evidence import Evidence
from bidibeam.evaluation.evaluate import compare, score_system
from bidibeam.evaluation.systems import BASELINES, System
from bidibeam.experiments.layout import TEST, BeamFiles, SeedLayout
from bidibeam.experiments.settings import ExperimentSettings
from bidibeam.models.run import RunModel
from bidibeam.scores import Signature
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.naming import requirements_of, strategy_named

WORTH_A_PROCESS = 20_000
"""Replies to score; fewer are done before another process is up."""


@dataclass(frozen=True)
class Measurement:
    """What is to be measured of one seed.

    Attributes:
        place: The seed's folder.
        settings: Those of the experiment.
        sizes: The beam sizes that were searched.
        tuned_sizes: Those N_B that were tuned for.
        data: The prepared data.
        vectors: A file of word vectors, or None for the network's own embeddings.
        workers: Processes and threads to use.
    """

    place: SeedLayout
    settings: ExperimentSettings
    sizes: tuple[int, ...]
    tuned_sizes: tuple[int, ...]
    data: Path
    vectors: Path | None = None
    workers: int = 1

    def whole(self, track: Callable[[Iterable[Any], int, str], Iterable[Any]]) -> dict[str, Any]:
        """Scores at every N_B; tests and analyses at the largest."""
        settings = self.settings
        others = [size for size in settings.beam_sizes if size != settings.largest]
        rows: dict[str, dict[str, Any]] = {name: {} for name in settings.systems}
        for beam_size, scores in zip(
            others, track(self._scored(others), len(others), "scoring by N_B"), strict=True
        ):
            for name, score in scores.items():
                rows[name][str(beam_size)] = score
        systems = self.systems(settings.largest, whole=True)
        for name in track(list(systems), len(systems), f"scoring at N_B {settings.largest}"):
            rows[name][str(settings.largest)] = score_system(systems[name])
        contents, left_out = analyse(self._evidence(systems, rows))
        return {
            "tuned": {str(size): self._tuned(size) for size in settings.beam_sizes},
            "systems": {
                name: dict(sorted(scores.items(), key=lambda item: int(item[0])))
                for name, scores in rows.items()
            },
            "tests": compare(list(systems.values()), [name for name in BASELINES if name in systems]),
            "analyses": contents,
            "left_out": left_out,
        }

    def scores(self, beam_size: int) -> dict[str, Any]:
        """Every system's scores at one N_B."""
        return {name: score_system(system) for name, system in self.systems(beam_size).items()}

    def systems(self, beam_size: int, *, whole: bool = False) -> dict[str, System]:
        """Every system that has enough hypotheses at an N_B, with its replies, or with whole rankings."""
        files = BeamFiles({size: self.place.beams(TEST, size) for size in self.sizes})
        found = {}
        for name in self.settings.systems:
            beams = files.for_system(requirements_of(name), beam_size)
            if beams is None:
                continue
            strategy = strategy_named(name, self._tuned(beam_size))
            selection = strategy.build(max_length=self.settings.search.max_length, space=self._space)
            ranker = Ranker(selection, self.workers, replies_only=not whole)
            rankings = [answer.ranking for answer in ranker.answers(beams)]
            signature = self._signature(selection.signature, beam_size)
            found[name] = System(name, beam_size, beams, rankings, signature)
        return found

    def _scored(self, beam_sizes: list[int]) -> Iterable[dict[str, Any]]:
        """The scores at each N_B, in as many processes as are worth it."""
        lines = self.settings.sources or WORTH_A_PROCESS
        if self.workers == 1 or lines * len(self.settings.systems) * len(beam_sizes) < WORTH_A_PROCESS:
            yield from map(self.scores, beam_sizes)
            return
        alone = replace(self, workers=1)
        context = multiprocessing.get_context("spawn")  # a forked process may not use the GPU's driver again
        with ProcessPoolExecutor(min(self.workers, len(beam_sizes)), mp_context=context) as pool:
            yield from pool.map(alone.scores, beam_sizes)

    def _tuned(self, beam_size: int) -> dict[str, dict[str, float]]:
        is_there = beam_size in self.tuned_sizes  # or an earlier experiment left it
        return TunedSettings(self.place.tuned(beam_size)).options if is_there else {}

    @cached_property
    def _words(self) -> WordVectors:
        """Read at most once."""
        return words_of(self.place, self.vectors)

    def _space(self) -> WordVectors:
        return self._words

    def _signature(self, strategy: Signature, beam_size: int) -> Signature:
        search = asdict(replace(self.settings.search, beam_size=beam_size))
        facts = {name: value for name, value in search.items() if value is not None}
        weights = json.loads(self.place.model.read_text(encoding="utf-8"))["weights"]
        return strategy.extended(**facts, model=weights, bidibeam=__version__)

    def _evidence(self, systems: Mapping[str, System], rows: Mapping[str, Mapping[str, Any]]) -> Evidence:
        settings = self.settings
        return Evidence(
            systems={name: {settings.largest: system} for name, system in systems.items()},
            max_length=settings.search.max_length,
            space=self._space,
            tuned={size: self._tuned(size) for size in settings.beam_sizes},
            workers=self.workers,
            examples=settings.examples,
            bleu={
                name: {int(size): row["scores"]["bleu"]["value"] for size, row in by_size.items()}
                for name, by_size in rows.items()
            },
        )


def words_of(place: SeedLayout, vectors: Path | None) -> WordVectors:
    """The vectors of a file, or the model's own embeddings."""
    return RunModel.load(place.run, device="cpu").word_vectors(vectors)
