"""What strategies cost: time from sources to replies, beside counted work."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from random import Random
from statistics import median
from typing import Any

import torch

from bidibeam.api.decoders import load_decoder
from bidibeam.decoding.decoder import Decoder
from bidibeam.evaluation.analyses.cost import formulas
from bidibeam.experiments.layout import TEST, SeedLayout
from bidibeam.experiments.plan import Plan
from bidibeam.experiments.settings import ExperimentSettings
from bidibeam.hypotheses import Beams
from bidibeam.models.base import Model
from bidibeam.strategies.naming import strategy_named
from bidibeam.work import Work, counting

TIMED = ("vbs", "bidis", "bidia bleu_t", "bidia wmd_t")
"""Systems whose time is taken; the others rank what one of these found."""


def costs_of(plan: Plan, place: SeedLayout) -> dict[str, Any]:
    """What the timed systems of an experiment cost at the largest N_B, beside the paper's formulas."""
    settings, run = plan.settings, plan.run(place)
    decoders = {
        name: load_decoder(
            run,
            replace(strategy_named(name), vectors=plan.vectors if "wmd" in name else None),
            settings=settings.searching(settings.largest),
            replies_only=True,
        )
        for name in TIMED
        if name in settings.systems
    }
    sources = plan.examples(TEST, settings.cost_sources)
    rows = measure_costs(
        decoders,
        sources,
        turns=settings.cost_turns,
        base="vbs",
        track=lambda turns: plan.audience.track(turns, settings.cost_turns, "taking the time"),
    )
    return {**_facts(settings, run, len(sources)), "rows": rows}


def _facts(settings: ExperimentSettings, model: Model, sources: int) -> dict[str, Any]:
    """What the numbers depend on."""
    device, vocabulary = model.device, model.vocabulary_size
    return {
        "N_B": settings.largest,
        "T": settings.search.max_length,
        "V": vocabulary,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "threads": torch.get_num_threads(),
        "batch": model.batch_size,
        "sources": sources,
        "turns": settings.cost_turns,
        "formulas": formulas(settings.largest, settings.search.max_length, vocabulary),
    }


def measure_costs(
    decoders: Mapping[str, Decoder],
    sources: Sequence[Beams],
    *,
    turns: int,
    base: str,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[dict[str, Any]]:
    """Time and work of each decoder, choosing included, loading and compiling not.

    The decoders take turns in an order that changes, so that a busy machine slows all of them. Times are
    medians over turns, and a ratio is the median of a decoder's time over that of `base` in the same turn.

    Args:
        decoders: By name.
        sources: What all of them answer.
        turns: How often.
        base: The name that ratios are to.
        track: Counts the turns for whoever watches.
    """
    chance = Random(0)
    times: dict[str, list[float]] = defaultdict(list)
    work: dict[str, Work] = {}
    for decoder in decoders.values():  # warm up
        _timed(decoder, sources[: decoder.batch_size])
    for _ in track(range(turns)):
        for name in chance.sample(sorted(decoders), len(decoders)):
            took_s, work[name] = _timed(decoders[name], sources)
            times[name].append(took_s)
    return [
        {
            "strategy": name,
            "ratio": median(own / other for own, other in zip(times[name], times[base], strict=True)),
            "ms_a_source": 1000 * median(times[name]) / len(sources),
            "turns_ms": [round(1000 * took_s, 3) for took_s in times[name]],
            **{field: value / len(sources) for field, value in asdict(work[name]).items()},
        }
        for name in decoders
    ]


def _timed(decoder: Decoder, sources: Sequence[Beams]) -> tuple[float, Work]:
    with counting() as work:
        began = time.perf_counter()
        for answer in decoder.answers(sources):
            answer.text  # noqa: B018
        return time.perf_counter() - began, work
