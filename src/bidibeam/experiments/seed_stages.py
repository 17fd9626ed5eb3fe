"""The stages of one seed (train, search, tune, measure, collect): what each depends on, and its files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from bidibeam._version import __version__
from bidibeam.config import DEFAULT_ARCHITECTURE
from bidibeam.experiments.plan import VALIDATION
from bidibeam.experiments.seeds import TIMED, Seed
from bidibeam.experiments.settings import stamp_settings
from bidibeam.experiments.stages import Stage, identify_content, json_stage
from bidibeam.training.state import NOT_DECISIVE


def model_stage(seed: Seed, prepared: Stage) -> Stage:
    """Returns the stage that trains the model on data that are prepared, or looks at the given one.

    What it makes is known by its data too: the stages after it search and measure those.
    """
    plan, path = seed.plan, seed.file("model")
    if plan.given is not None:
        known = {key: value for key, value in plan.given.metadata.items() if key in ("weights", "dtype")}
        return json_stage("model", known, path, seed.identify_model, after=(prepared,))
    settings = seed.run_settings
    training = stamp_settings(settings.training)
    stamp = {
        "model": stamp_settings(settings.model),
        "training": {name: value for name, value in training.items() if name not in NOT_DECISIVE},
        **plan.vectors_identity,
    }
    if settings.architecture != DEFAULT_ARCHITECTURE:
        stamp["architecture"] = settings.architecture
    name, outputs = f"train seed {seed.number}", (seed.run, path)
    identity = identify_content(path, *plan.data_files)
    return Stage(name, stamp, outputs, seed.train_model, after=(prepared,), identity=identity)


def search_stages(seed: Seed, before: Sequence[Stage]) -> list[Stage]:
    """Returns the stages that search, after those that make the models; the last one tunes."""
    plan = seed.plan
    searches = {
        (split, size): _search_stage(seed, split, size, before)
        for split, beams in plan.beams.items()
        for size in beams
    }
    validation = [stage for (split, _), stage in searches.items() if split == VALIDATION]
    outputs = [path for size in plan.tuned_sizes for path in seed.tuned_files(size)]
    after = (*before, *validation)
    tuned = Stage(f"tune {seed.label}", _stamp_systems(seed), outputs, seed.tune, after=after)
    return [*searches.values(), tuned]


def _search_stage(seed: Seed, split: str, size: int, before: Sequence[Stage]) -> Stage:
    plan, (directions, scored) = seed.plan, seed.plan.beams[split][size]
    stamp = {
        "search": stamp_settings(plan.settings.search_with(size)),
        "sources": plan.count_sources(split),
        "directions": directions,
        "judged": scored,
        **seed.search_stamp,
    }
    outputs, work = (seed.beams_file(split, size),), partial(seed.search, split, size)
    return Stage(f"search {seed.label} {split} {size}", stamp, outputs, work, after=before)


def seed_stages(
    seed: Seed, model: Stage, searches: Sequence[Stage], following: Sequence[Stage] = ()
) -> list[Stage]:
    """Returns every stage after `searches`, the `search_stages` of the seed; the last one has all numbers.

    A control that is the following seed's network scores what the searches of both have found.
    """
    plan, settings, label = seed.plan, seed.plan.settings, seed.label
    control: list[Stage] = []
    if seed.control is not None:
        found = [*searches[:-1], *following[:-1]] if plan.control is None else []
        control = search_stages(seed.control, [model, *found])
    perplexity = json_stage(
        f"perplexity {label}",
        {"sources": settings.sources},
        seed.file("perplexity"),
        seed.measure_perplexity,
        after=(model,),
    )
    timed = {
        "sources": settings.cost_sources,
        "turns": settings.cost_turns,
        "search": stamp_settings(settings.search_with(settings.largest)),
        "systems": [name for name in TIMED if name in settings.systems],
        **plan.vectors_identity,
    }
    cost = json_stage(
        f"cost {label}", timed, seed.file("cost"), seed.measure_cost, after=(model, searches[-1])
    )
    costs = [cost] if seed.is_timed else []
    evaluated = json_stage(
        f"evaluate {label}",
        {
            **_stamp_systems(seed),
            "beam_sizes": settings.beam_sizes,
            "examples": settings.examples,
            "search": stamp_settings(settings.search),
        },
        seed.file("evaluation"),
        seed.evaluate,
        after=(model, *searches, *control),
    )
    collected = json_stage(
        f"gather {label}",
        {},
        seed.file("results"),
        seed.collect,
        after=(evaluated, perplexity, *costs),
        by_content=True,
    )
    return [*control, perplexity, *costs, evaluated, collected]


def _stamp_systems(seed: Seed) -> dict[str, Any]:
    """Returns what both tuning and evaluation depend on."""
    plan, settings = seed.plan, seed.plan.settings
    length = {} if settings.penalty_length is None else {"penalty_length": settings.penalty_length}
    identity = {**plan.vectors_identity, **length, **plan.metric_identity}
    return {"version": __version__, "systems": settings.systems, **identity}
