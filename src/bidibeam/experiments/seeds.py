"""The stages of one seed: train, search, tune, perplexity, cost, evaluate, gather."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bidibeam._version import __version__
from bidibeam.api.decoders import load_generator
from bidibeam.api.tuned import TUNED_FILE
from bidibeam.config import DEFAULT_ARCHITECTURE
from bidibeam.data.prepared import PreparedData
from bidibeam.decoding.decoder import search_batches
from bidibeam.evaluation.perplexity import perplexities
from bidibeam.experiments.layout import TEST, VALIDATION, SeedLayout, read_json
from bidibeam.experiments.measure import TIMED, Measurement
from bidibeam.experiments.plan import Plan
from bidibeam.experiments.settings import stamp_settings
from bidibeam.experiments.stages import Stage, identify_content
from bidibeam.files import write_json
from bidibeam.interchange import nbest
from bidibeam.training.logs import progress_of
from bidibeam.training.networks import train_run
from bidibeam.training.settings import HUGGING_FACE, RunSettings

NOT_DECISIVE = {"tensorboard", "log_every", "save_every"}
"""Training settings that do not change the weights."""


@dataclass(frozen=True)
class Seed:
    """One trained model, or the given one, and everything that is measured of it, the cost if it is timed."""

    number: int
    plan: Plan
    is_timed: bool = False

    @property
    def place(self) -> SeedLayout:
        """Its files."""
        return self.plan.layout.seed(self.number)

    def stages(self, prepared: Stage) -> list[Stage]:
        """Returns every stage after that which prepares the data; the last one has all numbers."""
        model = self._train(prepared) if self.plan.given is None else self._take_given()
        searches = {
            (split, size): self._search(split, size, model)
            for split, beams in self.plan.beams.items()
            for size in beams
        }
        tuned = self._tune([stage for (split, _), stage in searches.items() if split == VALIDATION], model)
        perplexity = self._measure_perplexity(model)
        costs = [self._measure_cost(model, tuned)] if self.is_timed else []
        evaluated = self._evaluate([model, *searches.values(), tuned])
        collected = self._collect([evaluated, perplexity, *costs])
        return [model, *searches.values(), tuned, perplexity, *costs, evaluated, collected]

    def _train(self, prepared: Stage) -> Stage:
        plan, place = self.plan, self.place
        training = replace(plan.settings.training, seed=self.number)
        settings = RunSettings(plan.settings.model, training, plan.settings.architecture)
        is_ours = settings.architecture != HUGGING_FACE

        def work() -> None:
            with plan.progress.show_training() as observer:
                train_run(
                    PreparedData.open(plan.layout.data),
                    place.run,
                    settings,
                    vectors=plan.vectors if is_ours else None,
                    resume=True,
                    observer=observer,
                    note=plan.progress.note,
                )
            self._write_model()

        stamped = stamp_settings(training)
        facts = {
            "model": stamp_settings(settings.model),
            "training": {name: value for name, value in stamped.items() if name not in NOT_DECISIVE},
            **plan.vectors_identity,
        }
        if settings.architecture != DEFAULT_ARCHITECTURE:
            facts["architecture"] = settings.architecture
        name, outputs, identity = f"train seed {self.number}", (place.run, place.model), place.model
        return Stage(name, facts, outputs, work, after=(prepared,), identity=identify_content(identity))

    def _take_given(self) -> Stage:
        """The model that is given stands for a trained one."""
        given, path = self.plan.given, self.place.model
        assert given is not None
        facts = {key: value for key, value in given.metadata.items() if key in ("weights", "dtype")}
        return Stage("model", facts, (path,), self._write_model)

    def _write_model(self) -> None:
        model = self.plan.load_model(self.place, device="cpu")
        write_json(self.place.model, {"weights": model.fingerprint, "vocabulary": model.vocabulary_size})

    def _search(self, split: str, size: int, model: Stage) -> Stage:
        plan, path, count = self.plan, self.place.beams(split, size), self.plan.count_sources(split)
        settings = plan.settings.search_with(size)
        directions, scored = plan.beams[split][size]

        def work() -> None:
            loaded = plan.load_model(self.place)
            generator = load_generator(loaded, directions, settings, scored=scored)
            examples = plan.read_examples(split, count)
            options: dict[str, Any] = {"then": lambda beams: beams, "prefetch": loaded.device.type != "cpu"}
            found = search_batches(generator, examples, loaded.batch_size, **options)
            nbest.write(plan.progress.track(found, len(examples), f"{size} hypotheses, {split}"), path)

        search = stamp_settings(settings)
        facts = {"search": search, "sources": count, "directions": directions, "judged": scored}
        return Stage(f"search seed {self.number} {split} {size}", facts, (path,), work, after=(model,))

    def _tune(self, searches: Sequence[Stage], model: Stage) -> Stage:
        plan, place = self.plan, self.place
        paths = [place.tuned(size) for size in plan.tuned_sizes]
        if plan.settings.largest in plan.tuned_sizes and plan.given is None:
            paths.append(place.run / TUNED_FILE)
        facts = {"version": __version__, "systems": plan.settings.systems, **plan.vectors_identity}
        work = Measurement(plan, place).tune
        return Stage(f"tune seed {self.number}", facts, paths, work, after=(model, *searches))

    def _measure_perplexity(self, model: Stage) -> Stage:
        plan, path, count = self.plan, self.place.perplexity, self.plan.settings.sources

        def work() -> None:
            found = perplexities(plan.load_model(self.place), plan.read_examples(TEST, count)).items()
            write_json(
                path, {name: {"value": one.value, "signature": str(one.signature)} for name, one in found}
            )

        return Stage(f"perplexity seed {self.number}", {"sources": count}, (path,), work, after=(model,))

    def _measure_cost(self, model: Stage, tuned: Stage) -> Stage:
        plan, path, settings = self.plan, self.place.cost, self.plan.settings
        facts = {
            "sources": settings.cost_sources,
            "turns": settings.cost_turns,
            "search": stamp_settings(settings.search_with(settings.largest)),
            "systems": [name for name in TIMED if name in settings.systems],
            **plan.vectors_identity,
        }
        measurement = Measurement(plan, self.place)
        work = lambda: write_json(path, measurement.measure_cost())  # noqa: E731
        return Stage(f"cost seed {self.number}", facts, (path,), work, after=(model, tuned))

    def _evaluate(self, before: Sequence[Stage]) -> Stage:
        plan, path, settings = self.plan, self.place.evaluation, self.plan.settings
        facts = {
            "version": __version__,
            "beam_sizes": settings.beam_sizes,
            "systems": settings.systems,
            "examples": settings.examples,
            "search": stamp_settings(settings.search),
            **plan.vectors_identity,
        }
        measurement = Measurement(plan, self.place)
        work = lambda: write_json(path, measurement.evaluate())  # noqa: E731
        return Stage(f"evaluate seed {self.number}", facts, (path,), work, after=before)

    def _collect(self, before: Sequence[Stage]) -> Stage:
        """All numbers of a seed in one file."""
        place = self.place

        def work() -> None:
            evaluation: dict[str, Any] = read_json(place.evaluation)
            if self.is_timed:
                evaluation["analyses"]["cost"] = read_json(place.cost)
            results = {
                "seed": self.number,
                "training": progress_of(place.run) if self.plan.given is None else {},
                "perplexity": read_json(place.perplexity),
                **evaluation,
            }
            write_json(place.results, results)

        name, identity = f"gather seed {self.number}", identify_content(place.results)
        return Stage(name, {}, (place.results,), work, after=before, identity=identity)
