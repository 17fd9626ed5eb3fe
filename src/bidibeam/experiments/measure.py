"""Tuning, scores, tests, analyses and cost of one seed."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import torch

from bidibeam._version import __version__
from bidibeam.api.decoders import load_decoder
from bidibeam.api.tuned import TUNED_FILE, TunedSettings, write_tuned
from bidibeam.evaluation import analyse
from bidibeam.evaluation.cost import formulas, measure_costs
from bidibeam.evaluation.evaluate import compare, score_system
from bidibeam.evaluation.evidence import Evidence
from bidibeam.evaluation.systems import BASELINES, System, choose_system
from bidibeam.experiments.layout import TEST, VALIDATION, BeamFiles, SeedLayout, read_json
from bidibeam.experiments.plan import TUNED_STRATEGIES, Plan
from bidibeam.experiments.stages import Progress
from bidibeam.hypotheses import Direction
from bidibeam.metrics import METRICS
from bidibeam.protocols import Requirements
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.naming import requirements_of, strategy_named
from bidibeam.strategies.tuning import TuningResult, tune, tune_penalty

WORTH_A_PROCESS = 20_000
"""Replies to score: fewer take less time than starting a process."""
TIMED = ("vbs", "bidis", "bidia bleu_t", "bidia wmd_t")
"""Systems whose time is taken; the others rank the n-best lists of these."""


@dataclass(frozen=True)
class Measurement:
    """Measures one seed from the n-best lists on disk."""

    plan: Plan
    place: SeedLayout

    def tune(self) -> None:
        """Tunes on validation for every N_B; the run gets the settings of the largest as well."""
        plan, place, settings = self.plan, self.place, self.plan.settings
        weights = read_json(place.model)["weights"]
        metric = METRICS.create("bleu").score([["a"]], [["a"]]).signature
        files = BeamFiles({size: place.beams(VALIDATION, size) for size in plan.beams[VALIDATION]})
        notes: list[str] = []
        for size in plan.progress.track(plan.tuned_sizes, len(plan.tuned_sizes), "tuning by N_B"):
            tuned = self.tune_size(size, files)
            if size > 1:  # one hypothesis is chosen whatever the settings
                notes.extend(f"N_B = {size}: {note}" for note in (tuned.end_note, tuned.flat_note) if note)
            paths = [place.tuned(size)]
            if size == settings.largest and plan.given is None:
                paths.append(place.run / TUNED_FILE)
            search = settings.search_with(size)
            for path in paths:
                write_tuned(path, tuned, search=search, weights=weights, split=VALIDATION, metric=metric)
        if notes:
            plan.progress.note(" ".join(notes))

    def tune_size(self, size: int, files: BeamFiles) -> TuningResult:
        """Tunes lambda and the length settings on the regular beam, and T on both, for one N_B."""
        plan = self.plan
        tuned, search = TuningResult({}, {}, (), 0), plan.settings.search_with(size)
        if any(name.strategy in TUNED_STRATEGIES for name in plan.names):
            lines = files.for_system(Requirements((Direction.REGULAR,)), size) or []
            tuned = tune((line for line in lines if len(line.regular)), search=search)
        strategies = {name.untuned: strategy_named(name.untuned) for name in plan.names if name.is_tuned}
        both = files.for_system(Requirements(tuple(Direction)), size) if strategies else None
        if both is None:
            return tuned
        whole = [line for line in both if len(line.regular) and len(line.reverse)]
        return tuned.merge(tune_penalty(whole, strategies, space=self._space, search=search))

    def evaluate(self) -> dict[str, Any]:
        """Returns the scores at every N_B, and tests and analyses at the largest."""
        settings, track = self.plan.settings, self.plan.progress.track
        others = [size for size in settings.beam_sizes if size != settings.largest]
        rows: dict[str, dict[str, Any]] = {name: {} for name in settings.systems}
        scored = track(self._score_sizes(others), len(others), "scoring by N_B")
        for beam_size, scores in zip(others, scored, strict=True):
            for name, score in scores.items():
                rows[name][str(beam_size)] = score
        systems = self.build_systems(settings.largest, replies_only=False)
        for name in track(list(systems), len(systems), f"scoring at N_B {settings.largest}"):
            rows[name][str(settings.largest)] = score_system(systems[name])
        evidence = Evidence(
            systems={name: {settings.largest: system} for name, system in systems.items()},
            max_length=settings.search.max_length,
            space=self._space,
            tuned={size: self.read_tuned(size) for size in settings.beam_sizes},
            workers=self.plan.workers,
            examples=settings.examples,
            bleu={
                name: {int(size): row["scores"]["bleu"]["value"] for size, row in by_size.items()}
                for name, by_size in rows.items()
            },
        )
        contents, left_out = analyse(evidence)
        return {
            "tuned": {str(size): options for size, options in evidence.tuned.items()},
            "systems": {
                name: dict(sorted(scores.items(), key=lambda item: int(item[0])))
                for name, scores in rows.items()
            },
            "tests": compare(list(systems.values()), [name for name in BASELINES if name in systems]),
            "analyses": contents,
            "left_out": left_out,
        }

    def score_size(self, beam_size: int) -> dict[str, Any]:
        """Returns every system's scores at one N_B."""
        systems = self.build_systems(beam_size, replies_only=True)
        return {name: score_system(system) for name, system in systems.items()}

    def build_systems(self, beam_size: int, *, replies_only: bool) -> dict[str, System]:
        """Builds the systems that have enough hypotheses at an N_B, with their replies or whole rankings."""
        plan, settings = self.plan, self.plan.settings
        files = BeamFiles({size: self.place.beams(TEST, size) for size in plan.beams[TEST]})
        weights, found = read_json(self.place.model)["weights"], {}
        for name in settings.systems:
            beams = files.for_system(requirements_of(name), beam_size)
            if beams is None:
                continue
            strategy = strategy_named(name, self.read_tuned(beam_size))
            selection = strategy.build(max_length=settings.search.max_length, space=self._space)
            search = asdict(replace(settings.search, beam_size=beam_size))
            facts = {key: value for key, value in search.items() if value is not None}
            found[name] = choose_system(
                name,
                selection,
                beams,
                signature=selection.signature.extended(**facts, model=weights, bidibeam=__version__),
                beam_size=beam_size,
                replies_only=replies_only,
                workers=plan.workers,
            )
        return found

    def measure_cost(self) -> dict[str, Any]:
        """Measures time and work of the timed systems at the largest N_B, beside the paper's formulas."""
        plan, settings, model = self.plan, self.plan.settings, self.plan.load_model(self.place)
        size, length, device = settings.largest, settings.search.max_length, model.device
        tuned = self.read_tuned(size)
        decoders = {
            name: load_decoder(
                model,
                replace(strategy_named(name, tuned), vectors=plan.vectors if "wmd" in name else None),
                settings=settings.search_with(size),
                replies_only=True,
            )
            for name in TIMED
            if name in settings.systems
        }
        sources, turns = plan.read_examples(TEST, settings.cost_sources), settings.cost_turns
        facts = {
            "N_B": size,
            "T": length,
            "V": model.vocabulary_size,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
            "threads": torch.get_num_threads(),
            "batch": model.batch_size,
            "sources": len(sources),
            "turns": turns,
            "formulas": formulas(size, length, model.vocabulary_size),
        }
        track = lambda items: plan.progress.track(items, turns, "taking the time")  # noqa: E731
        return {**facts, "rows": measure_costs(decoders, sources, turns=turns, base="vbs", track=track)}

    def read_tuned(self, beam_size: int) -> dict[str, dict[str, float]]:
        """Reads the settings tuned for an N_B; empty if this experiment tunes nothing."""
        is_tuned = beam_size in self.plan.tuned_sizes  # an earlier experiment may have left a file
        return TunedSettings(self.place.tuned(beam_size)).options if is_tuned else {}

    def _score_sizes(self, beam_sizes: list[int]) -> Iterable[dict[str, Any]]:
        """Scores at each N_B, in several processes if there is enough to do."""
        workers, settings = self.plan.workers, self.plan.settings
        lines = settings.sources or WORTH_A_PROCESS
        if workers == 1 or lines * len(settings.systems) * len(beam_sizes) < WORTH_A_PROCESS:
            yield from map(self.score_size, beam_sizes)
            return
        alone = replace(self, plan=replace(self.plan, workers=1, progress=Progress()))
        context = multiprocessing.get_context("spawn")  # a forked process may not use the GPU's driver again
        with ProcessPoolExecutor(min(workers, len(beam_sizes)), mp_context=context) as pool:
            yield from pool.map(alone.score_size, beam_sizes)

    @cached_property
    def _vectors(self) -> WordVectors:
        return self.plan.load_model(self.place, device="cpu").word_vectors(self.plan.vectors)

    def _space(self) -> WordVectors:
        return self._vectors
