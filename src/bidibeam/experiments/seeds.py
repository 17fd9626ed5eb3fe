"""The stages of one seed: train, search, tune, perplexity, cost, evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any

from bidibeam._version import __version__
from bidibeam.api.decoders import load_generator
from bidibeam.api.perplexity import perplexities
from bidibeam.api.tuned import TUNED_FILE
from bidibeam.data.prepared import PreparedData
from bidibeam.data.vectors import read_vectors
from bidibeam.decoding.decoder import search_batches
from bidibeam.experiments.cost import TIMED, costs_of
from bidibeam.experiments.gathering import gather_stage
from bidibeam.experiments.layout import TEST, VALIDATION, SeedLayout
from bidibeam.experiments.measuring import Measurement
from bidibeam.experiments.plan import Plan
from bidibeam.experiments.settings import facts_of
from bidibeam.experiments.stages import Stage, content_identity
from bidibeam.experiments.tuning import tune_sizes
from bidibeam.files import write_json
from bidibeam.interchange import nbest
from bidibeam.models.run import RunModel
from bidibeam.training.networks import train
from bidibeam.training.settings import TrainingSettings

INDIFFERENT = {"tensorboard", "log_every", "save_every"}
"""Training settings that leave the weights as they are."""


@dataclass(frozen=True)
class Seed:
    """One training run, and all that is made of it.

    Attributes:
        number: The seed.
        plan: The experiment.
        is_timed: Whether what its strategies cost is measured.
    """

    number: int
    plan: Plan
    is_timed: bool = False

    @property
    def place(self) -> SeedLayout:
        """Where its things are."""
        return self.plan.layout.seed(self.number)

    def stages(self, prepared: Stage) -> list[Stage]:
        """Every stage, in order; the last one has all numbers.

        Args:
            prepared: The stage that makes the data.
        """
        trained = self._train(prepared)
        searches = {
            (split, size): self._search(split, size, trained)
            for split, beams in self.plan.beams.items()
            for size in beams
        }
        tuned = self._tune([stage for (split, _), stage in searches.items() if split == VALIDATION], trained)
        surprise = self._perplexity(trained)
        costs = [self._cost(trained, tuned)] if self.is_timed else []
        measured = self._measure([trained, *searches.values(), tuned])
        gathered = gather_stage(self.number, self.place, [measured, surprise, *costs])
        return [trained, *searches.values(), tuned, surprise, *costs, measured, gathered]

    def _train(self, prepared: Stage) -> Stage:
        plan, place = self.plan, self.place
        settings = replace(plan.settings.training, seed=self.number)

        def work() -> None:
            data = PreparedData.open(plan.layout.data)
            initialise = None
            if plan.vectors is not None:
                tokens = data.tokenizer.tokens(range(data.tokenizer.vocabulary_size))
                found = read_vectors(plan.vectors, {token: index for index, token in enumerate(tokens)})
                plan.audience.note(f"{plan.vectors.name} has vectors for {found.coverage:.1%} of the tokens.")
                initialise = methodcaller("use_vectors", found)
            with plan.audience.training() as observer:
                train(
                    data,
                    place.run,
                    model_settings=plan.settings.model,
                    settings=settings,
                    initialise=initialise,
                    resume=True,
                    observer=observer,
                    facts={"vectors": plan.vectors.name} if plan.vectors is not None else None,
                )
            run = RunModel.load(place.run, device="cpu")
            write_json(place.model, {"weights": run.fingerprint, "vocabulary": run.vocabulary_size})

        return Stage(
            f"train seed {self.number}",
            {"model": facts_of(plan.settings.model), "training": _deciding(settings), **plan.vectors_fact},
            (place.run, place.model),
            work,
            after=(prepared,),
            identity=content_identity(place.model),
        )

    def _search(self, split: str, size: int, trained: Stage) -> Stage:
        plan, path, settings = self.plan, self.place.beams(split, size), self.plan.settings.searching(size)
        count = plan.sources(split)
        wanted, judged = plan.beams[split][size]

        def work() -> None:
            run = plan.run(self.place)
            generator = load_generator(run, wanted, settings, scored=judged)
            examples = plan.examples(split, count)
            found = search_batches(
                generator,
                examples,
                run.batch_size,
                then=lambda beams: beams,
                prefetch=run.device.type != "cpu",
            )
            nbest.write(plan.audience.track(found, len(examples), f"{size} hypotheses, {split}"), path)

        facts = {"search": facts_of(settings), "sources": count, "directions": wanted, "judged": judged}
        return Stage(f"search seed {self.number} {split} {size}", facts, (path,), work, after=(trained,))

    def _tune(self, searches: Sequence[Stage], trained: Stage) -> Stage:
        plan, place = self.plan, self.place
        paths = [place.tuned(size) for size in plan.tuned_sizes]
        if plan.settings.largest in plan.tuned_sizes:
            paths.append(place.run / TUNED_FILE)
        facts = {"version": __version__, "systems": plan.settings.systems, **plan.vectors_fact}
        return Stage(
            f"tune seed {self.number}",
            facts,
            paths,
            lambda: tune_sizes(plan, place),
            after=(trained, *searches),
        )

    def _perplexity(self, trained: Stage) -> Stage:
        plan, place, count = self.plan, self.place, self.plan.settings.sources

        def work() -> None:
            found = perplexities(plan.run(place), plan.examples(TEST, count))
            write_json(
                place.perplexity,
                {
                    direction: {"value": score.value, "signature": str(score.signature)}
                    for direction, score in found.items()
                },
            )

        return Stage(
            f"perplexity seed {self.number}", {"sources": count}, (place.perplexity,), work, after=(trained,)
        )

    def _cost(self, trained: Stage, tuned: Stage) -> Stage:
        plan, place, settings = self.plan, self.place, self.plan.settings
        facts = {
            "sources": settings.cost_sources,
            "turns": settings.cost_turns,
            "search": facts_of(settings.searching(settings.largest)),
            "systems": [name for name in TIMED if name in settings.systems],
            **plan.vectors_fact,
        }
        return Stage(
            f"cost seed {self.number}",
            facts,
            (place.cost,),
            lambda: write_json(place.cost, costs_of(plan, place)),
            after=(trained, tuned),
        )

    def _measure(self, before: Sequence[Stage]) -> Stage:
        plan, place, settings = self.plan, self.place, self.plan.settings
        measurement = Measurement(
            place,
            settings,
            sizes=tuple(plan.beams[TEST]),
            tuned_sizes=plan.tuned_sizes,
            data=plan.layout.data,
            vectors=plan.vectors,
            workers=plan.workers,
        )
        facts = {
            "version": __version__,
            "beam_sizes": settings.beam_sizes,
            "systems": settings.systems,
            "examples": settings.examples,
            "search": facts_of(settings.search),
            **plan.vectors_fact,
        }
        return Stage(
            f"evaluate seed {self.number}",
            facts,
            (place.evaluation,),
            lambda: write_json(place.evaluation, measurement.whole(plan.audience.track)),
            after=before,
        )


def _deciding(settings: TrainingSettings) -> dict[str, Any]:
    """The training settings that decide the weights."""
    return {name: value for name, value in facts_of(settings).items() if name not in INDIFFERENT}
