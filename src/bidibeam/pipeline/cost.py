"""What strategies cost: time from sources to replies, beside counted work."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from random import Random
from statistics import median
from typing import Any

from bidibeam.decoding.decoder import Decoder
from bidibeam.hypotheses import Beams
from bidibeam.work import Work, counting


def measure_costs(
    decoders: Mapping[str, Decoder],
    sources: Sequence[Beams],
    *,
    turns: int,
    base: str,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[dict[str, Any]]:
    """Time and work of each decoder, choosing included, loading and compiling not.

    The decoders take turns in an order that changes, so that a busy machine slows all of them. A ratio is the
    median, over turns, of a decoder's time over that of `base` in the same turn.

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
            "ms_a_source": 1000 * sum(times[name]) / (turns * len(sources)),
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
