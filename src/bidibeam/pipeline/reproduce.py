"""The experiment: prepare, train, search, tune, evaluate, report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from bidibeam._version import __version__
from bidibeam.assembly.decoders import default_batch, is_on_device, load_decoder, load_generator
from bidibeam.assembly.perplexity import perplexities
from bidibeam.assembly.runs import Run, load_run
from bidibeam.assembly.tuned import TUNED_FILE, write_tuned
from bidibeam.data.prepare import prepare
from bidibeam.data.prepared import FILES, HELD_OUT, INFO, PreparedData
from bidibeam.data.vectors import read_vectors
from bidibeam.decoding.decoder import searched
from bidibeam.errors import RunError, SettingsError
from bidibeam.evaluation.analyses.cost import formulas
from bidibeam.evaluation.analyses.positions import positions
from bidibeam.evaluation.systems import SystemName, needs_of, strategy_named
from bidibeam.files import write_json
from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange import nbest
from bidibeam.metrics import METRICS
from bidibeam.models.vectors import use_vectors
from bidibeam.pipeline.cost import measure_costs
from bidibeam.pipeline.layout import TEST, VALIDATION, BeamFiles, Layout, SeedLayout, searched_beams
from bidibeam.pipeline.measuring import Measurement, words_of
from bidibeam.pipeline.settings import ExperimentSettings, as_plain
from bidibeam.pipeline.stages import Stage, Stages, content_identity, digest, file_facts
from bidibeam.pipeline.watching import Audience, Nobody
from bidibeam.protocols import Needs
from bidibeam.reporting.report import REPORT_FILES, write_report
from bidibeam.selection.tuning import Tuned, tune, tune_penalty
from bidibeam.similarities.spaces import WordVectors
from bidibeam.training.logs import progress_of
from bidibeam.training.loop import train
from bidibeam.training.settings import TrainingSettings

RESULTS_VERSION = 1
TUNED_STRATEGIES = ("bidis", "vbs-tuned")
INDIFFERENT = {"tensorboard", "log_every", "save_every"}
"""Training settings that leave the weights as they are."""
TIMED = ("vbs", "bidis", "bidia bleu_t", "bidia wmd_t")
"""Systems whose time is taken; the others rank what one of these found."""


@dataclass(frozen=True)
class Experiment:
    """A corpus, settings and seeds, in a folder.

    Args:
        folder: Where everything goes.
        settings: What to do.
        preset: The name of what the settings began as, for the record.
        seeds: One training run each.
        source: Where the corpus lies, if it has no place of its own.
        data: Prepared data to use as they are, instead of preparing.
        vectors: Word vectors: embeddings start from them, and WMD is computed among them.
        device: Where to compute; the first GPU, if there is one, by default.
        workers: Processes and threads for scoring.
        command: What a person typed to get this, for the record.
        audience: Told what happens.
    """

    folder: Path
    settings: ExperimentSettings
    preset: str
    seeds: Sequence[int] = (0,)
    source: Path | None = None
    data: Path | None = None
    vectors: Path | None = None
    device: str | None = None
    workers: int = 1
    command: str = ""
    audience: Audience = field(default_factory=Nobody)

    def run(self) -> list[str]:
        """Do all that is not done; the names of the stages that ran.

        Raises:
            SettingsError: If the folder holds an experiment on another corpus.
        """
        self._check_corpus()
        return Stages(self.folder).run(self.stages(), self.audience)

    @property
    def layout(self) -> Layout:
        """Where things are."""
        return Layout(self.folder, self.data or self.folder / "data")

    def stages(self) -> list[Stage]:
        """Every stage, in order."""
        prepared = self._prepare()
        placed = self._positions(prepared)
        seeds = [self._seed_stages(seed, prepared) for seed in self.seeds]
        ends = [stages[-1] for stages in seeds]
        return [
            prepared,
            placed,
            *(stage for stages in seeds for stage in stages),
            self._report(ends, placed),
        ]

    # The corpus

    def _check_corpus(self) -> None:
        """Refuse to replace what was trained on another corpus."""
        before = self.folder / "data" / INFO
        if self.data is not None or not before.is_file():
            return
        corpus = _json(before).get("corpus")
        if corpus != self.settings.prepare.corpus:
            raise SettingsError(
                f"{self.folder} holds an experiment on {corpus}, which one on {self.settings.prepare.corpus} "
                "would replace. Name another --out, or remove it."
            )

    def _prepare(self) -> Stage:
        layout, settings = self.layout, self.settings

        def work() -> None:
            with self.audience.preparing() as progress:
                data = prepare(settings.prepare, self.source, layout.data, overwrite=True, progress=progress)
            self.audience.prepared(data)

        identity = content_identity(*(layout.data / name for name in (INFO, *HELD_OUT.values())))
        if self.data is not None:
            PreparedData.open(layout.data)
            return Stage("prepare", {"given": identity()}, (), lambda: None, identity=identity)
        facts = {"prepare": asdict(settings.prepare), "source": file_facts(self.source)}
        outputs = [layout.data / name for name in FILES]
        return Stage("prepare", facts, outputs, work, identity=identity)

    def _positions(self, prepared: Stage) -> Stage:
        path = self.layout.positions

        def work() -> None:
            data = PreparedData.open(self.layout.data)
            pairs = data.split("train")
            columns = zip(pairs.response_start.tolist(), pairs.response_length.tolist(), strict=True)
            texts = (
                data.tokenizer.tokens(pairs.tokens[start : start + size].tolist()) for start, size in columns
            )
            write_json(path, positions(self.audience.track(texts, len(pairs), "counting words")))

        return Stage("positions", {}, (path,), work, after=(prepared,), identity=content_identity(path))

    # One seed

    def _seed_stages(self, seed: int, prepared: Stage) -> list[Stage]:
        place = self.layout.seed(seed)
        trained = self._train(seed, place, prepared)
        searches = [
            self._search(seed, place, split, size, directions, trained)
            for split, beams in self._beams().items()
            for size, directions in beams.items()
        ]
        tuned = self._tune(seed, place, [stage for stage in searches if VALIDATION in stage.name], trained)
        surprise = self._perplexity(seed, place, trained)
        costs = [self._cost(seed, place, trained, tuned)] if self._is_timed(seed) else []
        measured = self._measure(seed, place, [trained, *searches, tuned])
        return [
            trained,
            *searches,
            tuned,
            surprise,
            *costs,
            measured,
            self._gather(seed, place, [measured, surprise, *costs]),
        ]

    def _train(self, seed: int, place: SeedLayout, prepared: Stage) -> Stage:
        settings = replace(self.settings.training, seed=seed)

        def work() -> None:
            data = PreparedData.open(self.layout.data)
            initialise = None
            if self.vectors is not None:
                tokens = data.tokenizer.tokens(range(data.tokenizer.vocabulary_size))
                found = read_vectors(self.vectors, {token: index for index, token in enumerate(tokens)})
                self.audience.note(f"{self.vectors.name} has vectors for {found.coverage:.1%} of the tokens.")
                initialise = partial(use_vectors, vectors=found)
            with self.audience.training() as observer:
                train(
                    data,
                    place.run,
                    model_settings=self.settings.model,
                    settings=settings,
                    initialise=initialise,
                    resume=True,
                    observer=observer,
                    facts={"vectors": self.vectors.name} if self.vectors is not None else None,
                )

            run = load_run(place.run, device="cpu")
            write_json(place.model, {"weights": run.fingerprint, "vocabulary": run.model.vocabulary_size})

        return Stage(
            f"train seed {seed}",
            {"model": as_plain(self.settings.model), "training": _deciding(settings), **self._vectors_fact()},
            (place.run, place.model),
            work,
            after=(prepared,),
            identity=content_identity(place.model),
        )

    def _beams(self) -> dict[str, dict[int, tuple[tuple[Direction, ...], tuple[Direction, ...]]]]:
        """By split and beam size: the directions to search, and those that the other one scores."""
        needs = [(name, needs_of(str(name))) for name in self._names]
        tuning = [need for name, need in needs if name.is_tuned or name.strategy in TUNED_STRATEGIES]
        return {
            VALIDATION: searched_beams(tuning, self.settings.beam_sizes),
            TEST: searched_beams((need for _, need in needs), self.settings.beam_sizes),
        }

    @property
    def _names(self) -> list[SystemName]:
        return [SystemName.of(name) for name in self.settings.systems]

    @property
    def _tuned_sizes(self) -> tuple[int, ...]:
        """Every N_B, if there is something to tune."""
        return tuple(sorted(self.settings.beam_sizes)) if self._beams()[VALIDATION] else ()

    def _search(
        self,
        seed: int,
        place: SeedLayout,
        split: str,
        size: int,
        directions: tuple[tuple[Direction, ...], tuple[Direction, ...]],
        trained: Stage,
    ) -> Stage:
        path, settings = place.beams(split, size), self.settings.searching(size)
        count = self.settings.validation_sources if split == VALIDATION else self.settings.sources
        wanted, judged = directions

        def work() -> None:
            run = self._run(place)
            generator = load_generator(run, wanted, settings, judged=judged)
            examples = self._examples(split, count)
            found = searched(
                generator, examples, default_batch(run), ahead=is_on_device(run), then=lambda beams: beams
            )
            nbest.write(self.audience.track(found, len(examples), f"{size} hypotheses, {split}"), path)

        facts = {"search": asdict(settings), "sources": count, "directions": wanted, "judged": judged}
        return Stage(f"search seed {seed} {split} {size}", facts, (path,), work, after=(trained,))

    def _tune(self, seed: int, place: SeedLayout, searches: Sequence[Stage], trained: Stage) -> Stage:
        settings = self.settings
        sizes = self._tuned_sizes
        paths = [place.tuned(size) for size in sizes]
        if settings.largest in sizes:
            paths.append(place.run / TUNED_FILE)

        def work() -> None:
            fingerprint = _json(place.model)["weights"]
            metric = METRICS.create("bleu").score([["a"]], [["a"]]).signature
            searched_sizes = self._beams()[VALIDATION]
            files = BeamFiles({size: place.beams(VALIDATION, size) for size in searched_sizes})
            space = cache(lambda: words_of(place, self.layout.data, self.vectors))
            for size in self.audience.track(sizes, len(sizes), "tuning by N_B"):
                tuned = self._tuned(size, files, space)
                targets = [place.tuned(size)]
                if size == settings.largest:
                    targets.append(place.run / TUNED_FILE)
                for path in targets:
                    write_tuned(
                        path,
                        tuned,
                        search=settings.searching(size),
                        weights=fingerprint,
                        split=VALIDATION,
                        metric=metric,
                    )

        facts = {"version": __version__, "systems": settings.systems, **self._vectors_fact()}
        return Stage(f"tune seed {seed}", facts, paths, work, after=(trained, *searches))

    def _tuned(self, size: int, files: BeamFiles, space: Callable[[], WordVectors]) -> Tuned:
        """Lambda and the length settings on the regular beam, and T on both."""
        names = self._names
        tuned = Tuned({}, {}, (), 0)
        if any(name.strategy in TUNED_STRATEGIES for name in names):
            lines = files.for_system(Needs((Direction.REGULAR,)), size) or []
            tuned = tune(line for line in lines if len(line.regular))
        strategies = {name.untuned: strategy_named(name.untuned) for name in names if name.is_tuned}
        both = files.for_system(Needs(tuple(Direction)), size) if strategies else None
        if both is None:
            return tuned
        whole = [line for line in both if len(line.regular) and len(line.reverse)]
        return tuned.joined(tune_penalty(whole, strategies, space=space))

    def _perplexity(self, seed: int, place: SeedLayout, trained: Stage) -> Stage:
        count = self.settings.sources

        def work() -> None:
            found = perplexities(self._run(place), self._examples(TEST, count))
            write_json(
                place.perplexity,
                {
                    direction: {"value": score.value, "signature": str(score.signature)}
                    for direction, score in found.items()
                },
            )

        return Stage(
            f"perplexity seed {seed}", {"sources": count}, (place.perplexity,), work, after=(trained,)
        )

    def _is_timed(self, seed: int) -> bool:
        return seed == self.seeds[0] and self.settings.cost_sources > 0 and "vbs" in self.settings.systems

    def _cost(self, seed: int, place: SeedLayout, trained: Stage, tuned: Stage) -> Stage:
        settings = self.settings

        def work() -> None:
            run = self._run(place)
            search = settings.searching(settings.largest)
            decoders = {
                name: load_decoder(
                    run,
                    replace(strategy_named(name), vectors=self.vectors if "wmd" in name else None),
                    settings=search,
                    replies_only=True,
                )
                for name in TIMED
                if name in settings.systems
            }
            sources = self._examples(TEST, settings.cost_sources)
            rows = measure_costs(
                decoders,
                sources,
                turns=settings.cost_turns,
                base="vbs",
                track=lambda turns: self.audience.track(turns, settings.cost_turns, "taking the time"),
            )
            write_json(place.cost, {**self._cost_facts(run, len(sources)), "rows": rows})

        facts = {
            "sources": settings.cost_sources,
            "turns": settings.cost_turns,
            "search": asdict(settings.searching(settings.largest)),
            "systems": [name for name in TIMED if name in settings.systems],
            **self._vectors_fact(),
        }
        return Stage(f"cost seed {seed}", facts, (place.cost,), work, after=(trained, tuned))

    def _cost_facts(self, run: Run, sources: int) -> dict[str, Any]:
        settings, device = self.settings, run.device
        vocabulary = run.model.vocabulary_size
        return {
            "N_B": settings.largest,
            "T": settings.search.max_length,
            "V": vocabulary,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
            "threads": torch.get_num_threads(),
            "batch": default_batch(run),
            "sources": sources,
            "turns": settings.cost_turns,
            "formulas": formulas(settings.largest, settings.search.max_length, vocabulary),
        }

    def _measure(self, seed: int, place: SeedLayout, before: Sequence[Stage]) -> Stage:
        settings = self.settings
        measurement = Measurement(
            place,
            settings,
            sizes=tuple(self._beams()[TEST]),
            tuned_sizes=self._tuned_sizes,
            data=self.layout.data,
            vectors=self.vectors,
            workers=self.workers,
        )

        def work() -> None:
            write_json(place.evaluation, measurement.whole(self.audience.track))

        facts = {
            "version": __version__,
            "beam_sizes": settings.beam_sizes,
            "systems": settings.systems,
            "examples": settings.examples,
            "search": asdict(settings.search),
            **self._vectors_fact(),
        }
        return Stage(f"evaluate seed {seed}", facts, (place.evaluation,), work, after=before)

    def _gather(self, seed: int, place: SeedLayout, before: Sequence[Stage]) -> Stage:
        """All numbers of a seed in one file."""
        path = place.folder / "results.json"

        def work() -> None:
            evaluation = _json(place.evaluation)
            if place.cost in [output for stage in before for output in stage.outputs]:
                evaluation["analyses"]["cost"] = _json(place.cost)
            write_json(
                path,
                {
                    "seed": seed,
                    "training": progress_of(place.run),
                    "perplexity": _json(place.perplexity),
                    **evaluation,
                },
            )

        return Stage(f"gather seed {seed}", {}, (path,), work, after=before, identity=content_identity(path))

    # All seeds

    def _report(self, ends: Sequence[Stage], placed: Stage) -> Stage:
        layout = self.layout
        facts = {"preset": self.preset, "command": self.command, "version": __version__}
        outputs = [layout.results, self.folder / "figures", *(self.folder / name for name in REPORT_FILES)]

        def work() -> None:
            results = self.results()
            write_json(layout.results, results)
            write_report(results, self.folder)

        return Stage("report", facts, outputs, work, after=(*ends, placed))

    def results(self) -> dict[str, Any]:
        """All that was found, as results.json has it."""
        settings, data = self.settings, PreparedData.open(self.layout.data)
        info = {name: value for name, value in data.info.items() if name != "path"}
        return {
            "format_version": RESULTS_VERSION,
            "bidibeam": __version__,
            "corpus": data.info["corpus"],
            "preset": self.preset,
            "command": self.command,
            "data": info,
            "settings": {
                "beam_sizes": list(settings.beam_sizes),
                "max_length": settings.search.max_length,
                "search": asdict(settings.search),
                "systems": list(settings.systems),
                "vectors": self.vectors.name if self.vectors is not None else None,
                "model": as_plain(settings.model),
                "training": asdict(settings.training),
                "sources": settings.sources,
                "validation_sources": settings.validation_sources,
                "examples": settings.examples,
                "cost_sources": settings.cost_sources,
                "cost_turns": settings.cost_turns,
            },
            "sources": len(self._examples(TEST, settings.sources)),
            "positions": _json(self.layout.positions),
            "seeds": [_json(self.layout.seed(seed).folder / "results.json") for seed in self.seeds],
        }

    def _run(self, place: SeedLayout) -> Run:
        return load_run(place.run, device=self.device)

    def _examples(self, split: str, count: int | None) -> list[Beams]:
        data = PreparedData.open(self.layout.data)
        return [
            Beams(example["id"], example["source"], example["reference"])
            for example in islice(data.examples(split), count)
        ]

    def _vectors_fact(self) -> dict[str, Any]:
        return {"vectors": self._vectors_digest} if self.vectors is not None else {}

    @cached_property
    def _vectors_digest(self) -> list[str]:
        return [self.vectors.name, digest(self.vectors)] if self.vectors is not None else []


def _deciding(settings: TrainingSettings) -> dict[str, Any]:
    """The training settings that decide the weights."""
    return {name: value for name, value in asdict(settings).items() if name not in INDIFFERENT}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(
            f"{path} is damaged ({error}). Remove it and call again: it will be made anew."
        ) from error
