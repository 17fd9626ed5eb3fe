"""One seed of an experiment: its files, its model, and all that is computed of it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from bidibeam.api.decoders import load_decoder
from bidibeam.api.tuned import TUNED_FILE, Conditions, TunedSettings, write_tuned
from bidibeam.api.tuning import can_recommend
from bidibeam.data.prepared import PreparedData
from bidibeam.decoding.decoder import ModelGenerator
from bidibeam.evaluation import analyse
from bidibeam.evaluation.cost import formulas, measure_costs
from bidibeam.evaluation.evaluate import compare_all, score_system
from bidibeam.evaluation.perplexity import perplexities
from bidibeam.evaluation.systems import BASELINES, CONTROL, Evidence, System, choose_system, with_oracle
from bidibeam.experiments.plan import TEST, VALIDATION, BeamFiles, Plan, read_stage_file
from bidibeam.experiments.stages import ExperimentObserver
from bidibeam.files import write_json
from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange import nbest
from bidibeam.metrics.scoring import sign_references
from bidibeam.models.base import Model, usual_length
from bidibeam.models.loading import load
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.settings import requirements_of, strategy_named
from bidibeam.strategies.tuning import Tuner, TuningResult
from bidibeam.training.logs import progress_of
from bidibeam.training.settings import HUGGING_FACE, RunSettings
from bidibeam.training.state import is_finished_hugging_face
from bidibeam.training.train import train

WORTH_A_PROCESS = 20_000
"""Replies to score: fewer take less time than starting a process."""
TIMED = ("vbs", "bidis", "bidia bleu_t", "bidia wmd_t")
"""Systems whose time is taken; the others rank the n-best lists of these."""


@dataclass(frozen=True)
class Seed:
    """One trained model, or the given one, and everything that is measured of it, the cost if it is timed."""

    number: int
    plan: Plan
    is_timed: bool = False
    control: Seed | None = None  # the same with a second regular network in the reverse one's place

    @property
    def label(self) -> str:
        """What its stages are called by."""
        return f"seed {self.number}"

    @property
    def search_stamp(self) -> dict[str, Any]:
        """What else its searches depend on."""
        return {}

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return self.plan.folder / f"seed-{self.number}"

    @property
    def run(self) -> Path:
        """The trained model."""
        return self.folder / "run"

    def file(self, name: str) -> Path:
        """Returns the file of what a stage computes, by that stage; `results` has all numbers of the seed."""
        return self.folder / f"{name}.json"

    def beams_file(self, split: str, size: int) -> Path:
        """Returns the file of the n-best lists of a split."""
        return self.folder / "beams" / f"{split}-{size}.jsonl.gz"

    def tuned_files(self, size: int) -> list[Path]:
        """Returns the files that get the settings tuned for an N_B; the run has those of the largest too."""
        is_runs = size == self.plan.settings.largest and self.plan.given is None
        return [self.file(f"tuned/{size}"), *([self.run / TUNED_FILE] if is_runs else [])]

    def load_model(self, device: str | None = None) -> Model:
        """Loads the model that is given, or that of the seed."""
        given, device = self.plan.given, device or self.plan.device
        return load(self.run, device=device) if given is None else given.load(device)

    @property
    def run_settings(self) -> RunSettings:
        """The settings of its training."""
        settings = self.plan.settings
        training = replace(settings.training, seed=self.number)
        return RunSettings(settings.model, training, settings.architecture)

    def train_model(self) -> None:
        """Trains the model, or resumes its training, and writes down which one it is."""
        plan, settings = self.plan, self.run_settings
        is_ours = settings.architecture != HUGGING_FACE
        if is_ours or not is_finished_hugging_face(self.run):
            with plan.progress.show_training() as observer:
                train(
                    PreparedData.open(plan.data_folder),
                    self.run,
                    settings,
                    vectors=plan.vectors if is_ours else None,
                    resume=True,
                    observer=observer,
                    note=plan.progress.note,
                )
        write_json(self.file("model"), self.identify_model())

    def identify_model(self) -> dict[str, Any]:
        """Returns the fingerprint of the weights and the size of the vocabulary."""
        model = self.load_model(device="cpu")
        return {"weights": model.fingerprint, "vocabulary": model.vocabulary_size}

    @cached_property
    def weights(self) -> str:
        """The fingerprint of the weights."""
        return str(read_stage_file(self.file("model"))["weights"])

    @cached_property
    def word_vectors(self) -> WordVectors:
        """Those of the model, or those that were given."""
        return self.load_model(device="cpu").word_vectors(self.plan.vectors)

    def search(self, split: str, size: int) -> None:
        """Writes the n-best lists of a split, of that many hypotheses in each direction that is needed."""
        plan, model = self.plan, self.load_model()
        if split == TEST:
            plan.log_opening(f"search {self.label}, {size} hypotheses")
        directions, scored = plan.beams[split][size]
        generator = ModelGenerator(model, dict.fromkeys(directions, plan.settings.search_with(size)), scored)
        examples = plan.read_examples(split, plan.count_sources(split))
        found = generator.stream(examples)
        lists = plan.progress.track(found, len(examples), f"{size} hypotheses, {split}")
        nbest.write(lists, self.beams_file(split, size))

    def tune(self) -> None:
        """Tunes on validation for every N_B; the run gets the settings of the largest as well."""
        plan, settings = self.plan, self.plan.settings
        examples = plan.read_examples(VALIDATION, settings.validation_sources)
        metric = sign_references(settings.metrics[0].signature, [each.references for each in examples])
        files = BeamFiles({size: self.beams_file(VALIDATION, size) for size in plan.beams[VALIDATION]})
        notes: list[str] = []
        for size in plan.progress.track(plan.tuned_sizes, len(plan.tuned_sizes), "tuning by N_B"):
            tuned, search = self.tune_size(size, files), settings.search_with(size)
            if size > 1:  # one hypothesis is chosen whatever the settings
                notes.extend(f"N_B = {size}: {note}" for note in (tuned.end_note, tuned.flat_note) if note)
            conditions = Conditions(metric, search, self.weights, self.penalty_length)
            for path in self.tuned_files(size):
                write_tuned(path, tuned, conditions)
        if notes:
            plan.progress.note(" ".join(notes))

    def tune_size(self, size: int, files: BeamFiles) -> TuningResult:
        """Tunes every system that has settings for one N_B, and compares all that its lists serve."""
        plan = self.plan
        lists: dict[tuple[Direction, ...], list[Beams]] = {}
        needed = {each.system: requirements_of(each.system) for each in plan.systems}
        tuned = [each.system for each in plan.systems if each.is_tunable]
        for directions in dict.fromkeys(needed[name].directions for name in tuned):
            if (found := files.for_system(Requirements(directions), size)) is not None:
                lists[directions] = found
        tuner = Tuner(
            plan.settings.metrics[0],
            lists,
            plan.settings.search_with(size),
            self.penalty_length,
            space=lambda: self.word_vectors,
            workers=plan.workers,
        )
        served = (name for name, each in needed.items() if each.directions in lists and can_recommend(name))
        return tuner.compare(served)

    @cached_property
    def penalty_length(self) -> int | None:
        """T of similarities."""
        given = self.plan.settings.penalty_length
        return given if given is not None else usual_length(self.load_model(device="cpu"))

    def read_tuned(self, size: int) -> dict[str, dict[str, float]]:
        """Reads the settings tuned for an N_B; empty if this experiment tunes nothing."""
        is_tuned = size in self.plan.tuned_sizes  # an earlier experiment may have left a file
        return TunedSettings(self.tuned_files(size)[0]).options if is_tuned else {}

    def measure_perplexity(self) -> dict[str, Any]:
        """Measures the perplexity of the test references under each direction."""
        self.plan.log_opening(f"perplexity {self.label}")
        examples = self.plan.read_examples(TEST, self.plan.settings.sources)
        found = perplexities(self.load_model(), examples)
        return {
            name: {"value": value, "signature": str(signature)} for name, (value, signature) in found.items()
        }

    def measure_cost(self) -> dict[str, Any]:
        """Measures time and work of the timed systems at the largest N_B, beside the paper's formulas."""
        plan, settings, model = self.plan, self.plan.settings, self.load_model()
        size, length, device = settings.largest, settings.search.max_length, model.device
        tuned = self.read_tuned(size)
        decoders = {
            name: load_decoder(
                model,
                replace(
                    strategy_named(name, tuned).with_length(self.penalty_length),
                    vectors=plan.vectors if "wmd" in name else None,
                ),
                settings=settings.search_with(size),
                replies_only=True,
            )
            for name in TIMED
            if name in settings.systems
        }
        plan.log_opening(f"cost {self.label}")
        sources, turns = plan.read_examples(TEST, settings.cost_sources), settings.cost_turns
        track = lambda items: plan.progress.track(items, turns, "taking the time")  # noqa: E731
        return {
            "N_B": size,
            "T": length,
            "V": model.vocabulary_size,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
            "threads": torch.get_num_threads(),
            "batch": model.batch_size,
            "sources": len(sources),
            "turns": turns,
            "formulas": formulas(size, length, model.vocabulary_size),
            "rows": measure_costs(decoders, sources, turns=turns, base="vbs", track=track),
        }

    def evaluate(self) -> dict[str, Any]:
        """Returns the scores at every N_B, and tests and analyses at the largest."""
        settings, track = self.plan.settings, self.plan.progress.track
        self.plan.log_opening(f"evaluate {self.label}")
        smaller = [size for size in settings.beam_sizes if size != settings.largest]
        rows: dict[str, dict[str, Any]] = {name: {} for name in settings.systems}
        scored = track(self._score_sizes(smaller), len(smaller), "scoring by N_B")
        for beam_size, scores in zip(smaller, scored, strict=True):
            for name, score in scores.items():
                rows[name][str(beam_size)] = score
        systems = self.build_systems(settings.largest, replies_only=False)
        for name in track(list(systems), len(systems), f"scoring at N_B {settings.largest}"):
            rows[name][str(settings.largest)] = self.score(systems[name])
        controls = self._build_controls()
        for name, system in controls.items():
            rows[name] = {str(settings.largest): self.score(system)}
        metric = settings.metrics[0].name
        evidence = Evidence(
            systems={name: {settings.largest: system} for name, system in systems.items()},
            max_length=self.penalty_length,
            load_vectors=lambda: self.word_vectors,
            workers=self.plan.workers,
            examples=settings.examples,
            metric=settings.metrics[0],
            known={
                name: {int(size): row["scores"][metric]["value"] for size, row in by_size.items()}
                for name, by_size in rows.items()
            },
        )
        contents, missing = analyse(evidence)
        return {
            "tuned": {str(size): self.read_tuned(size) for size in settings.beam_sizes},
            "systems": {
                name: dict(sorted(scores.items(), key=lambda item: int(item[0])))
                for name, scores in rows.items()
            },
            **self._tell_choice(),
            "tests": self._test(systems, controls),
            **self._score_test_sets(systems, controls),
            "analyses": contents,
            "left_out": missing,
        }

    def _tell_choice(self) -> dict[str, Any]:
        """Returns what is recommended at the largest N_B, the scores behind it, and a control's settings."""
        size = self.plan.settings.largest
        if not self.plan.tuned_sizes:
            return {"recommended": None}
        tuned = TunedSettings(self.tuned_files(size)[0])
        found = {"recommended": tuned.recommended, "validation": tuned.content.get("ranking", [])}
        return found if self.control is None else {**found, "control_tuned": self.control.read_tuned(size)}

    def _build_controls(self) -> dict[str, System]:
        """Builds the control's systems at the largest N_B, by names that say what they are."""
        if self.control is None:
            return {}
        systems = self.control.build_systems(self.plan.settings.largest, replies_only=True)
        return {f"{name}{CONTROL}": replace(each, name=f"{name}{CONTROL}") for name, each in systems.items()}

    def _test(self, systems: Mapping[str, System], controls: Mapping[str, System]) -> list[dict[str, Any]]:
        """Tests every system against the baselines, and those of both ends against their controls."""
        baselines = [name for name in BASELINES if name in systems]
        return compare_all(
            [*systems.values(), *controls.values()], self.plan.settings.metrics[0], baselines, [*controls]
        )

    def _score_test_sets(
        self, systems: Mapping[str, System], controls: Mapping[str, System]
    ) -> dict[str, Any]:
        """Scores and tests every system on each test set alone, where there are several and all are used."""
        plan, found = self.plan, {}
        sets = PreparedData.open(plan.data_folder).test_sets
        if len(sets) == 1 or plan.settings.sources is not None:
            return {}
        metric = plan.settings.metrics[0]
        for name, part in sets.items():
            own, other = (
                {
                    system: replace(each, beams=each.beams[part], rankings=each.rankings[part])
                    for system, each in group.items()
                }
                for group in (systems, controls)
            )
            scores = {
                system: score_system(each, [metric], intervals=[metric.name])["scores"]
                for system, each in {**own, **other}.items()
            }
            found[name] = {
                "sources": part.stop - part.start,
                "scores": scores,
                "tests": self._test(own, other),
            }
        return {"test_sets": found}

    def _score_sizes(self, beam_sizes: list[int]) -> Iterable[dict[str, Any]]:
        """Scores at each N_B, in several processes if there is enough to do."""
        workers, settings = self.plan.workers, self.plan.settings
        sources = settings.sources or WORTH_A_PROCESS
        if workers == 1 or sources * len(settings.systems) * len(beam_sizes) < WORTH_A_PROCESS:
            yield from map(self.score_size, beam_sizes)
            return
        alone = replace(self, plan=replace(self.plan, workers=1, progress=ExperimentObserver()))
        context = multiprocessing.get_context("spawn")  # a forked process may not use the GPU's driver again
        with ProcessPoolExecutor(min(workers, len(beam_sizes)), mp_context=context) as pool:
            yield from pool.map(alone.score_size, beam_sizes)

    def score_size(self, beam_size: int) -> dict[str, Any]:
        """Returns every system's scores at one N_B."""
        systems = self.build_systems(beam_size, replies_only=True)
        return {name: self.score(system) for name, system in systems.items()}

    def score(self, system: System) -> dict[str, Any]:
        """Returns a system's scores, with the interval of that which systems are judged by."""
        metrics = self.plan.settings.metrics
        return score_system(system, metrics, intervals=[metrics[0].name])

    def build_systems(self, beam_size: int, *, replies_only: bool) -> dict[str, System]:
        """Builds the systems that have enough hypotheses at an N_B, with their replies or whole rankings."""
        plan, settings, tuned = self.plan, self.plan.settings, self.read_tuned(beam_size)
        files = BeamFiles({size: self.beams_file(TEST, size) for size in plan.beams[TEST]})
        search = Signature.of_settings(settings.search_with(beam_size)).extended(model=self.weights)
        systems = {}
        for name in settings.systems:
            beams = files.for_system(requirements_of(name), beam_size)
            if beams is None:
                continue
            strategy = with_oracle(strategy_named(name, tuned), settings.metrics[0]).build(
                max_length=self.penalty_length, space=lambda: self.word_vectors
            )
            systems[name] = choose_system(
                name,
                strategy,
                beams,
                facts=search.facts,
                beam_size=beam_size,
                replies_only=replies_only,
                workers=plan.workers,
            )
        return systems

    def collect(self) -> dict[str, Any]:
        """Collects all numbers of the seed."""
        evaluation: dict[str, Any] = read_stage_file(self.file("evaluation"))
        if self.is_timed:
            evaluation["analyses"]["cost"] = read_stage_file(self.file("cost"))
        return {
            "seed": self.number,
            "training": progress_of(self.run) if self.plan.given is None else {},
            "perplexity": read_stage_file(self.file("perplexity")),
            **evaluation,
        }
