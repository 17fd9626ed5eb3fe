"""What strategies cost: the paper's formulas, and time from sources to replies beside counted work."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from math import log
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from bidibeam.errors import SettingsError
from bidibeam.work import Work, counting

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams


class TimedDecoder(Protocol):
    """What is timed: `bidibeam.Decoder`."""

    @property
    def batch_size(self) -> int:
        """Sources searched at once."""
        ...

    def answers(self, beams: Iterable[Beams]) -> Iterable[Any]:
        """Answers a stream of sources in order."""
        ...


def formulas(beam_size: int, max_length: int, vocabulary: int) -> list[dict[str, Any]]:
    """Returns the paper's complexities, every constant taken as 1, natural logarithms, and ratios to VBS's.

    The paper counts B^2 / 8 word mover's distances; two beams of B / 2 have (B / 2)^2 pairs, which is a row
    of its own. Reference: Colombo et al. (2021), arXiv:2110.03389, "Proofs of Complexity analysis".
    """
    for name, value, smallest in (("N_B", beam_size, 1), ("T", max_length, 1), ("V", vocabulary, 2)):
        if value < smallest:
            raise SettingsError(f"{name} must be at least {smallest} for the formulas, not {value}.")
    pool = beam_size * vocabulary
    vbs = max_length * pool * log(pool)
    halves = 2 * max_length * (pool / 2) * log(pool / 2)
    distance = 8 * max_length**3 * log(2 * max_length)
    searches, each = "2 T * B/2 V log(B V / 2)", "8 T^3 log(2 T)"
    printed = halves + beam_size**2 / 8 * distance + max_length
    all_pairs = halves + (beam_size / 2) ** 2 * distance + max_length
    rows = [
        ("vbs", "T * B V log(B V)", vbs),
        ("bidis", "T * B V log(B V)", vbs),
        ("bidia wmd_t, as printed", f"{searches} + B^2/8 * {each} + T", printed),
        ("bidia wmd_t, all pairs", f"{searches} + (B/2)^2 * {each} + T", all_pairs),
        ("bidia bleu_t", searches, halves),
    ]
    return [
        {"strategy": name, "formula": formula, "value": value, "ratio": value / vbs}
        for name, formula, value in rows
    ]


def measure_costs(
    decoders: Mapping[str, TimedDecoder],
    sources: Sequence[Beams],
    *,
    turns: int,
    base: str,
    track: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> list[dict[str, Any]]:
    """Measures time and work of each decoder, choosing included, loading and compiling not.

    The decoders take turns in an order that changes, so that a busy machine slows all of them. Times are
    medians over turns, and a ratio is the median of a decoder's time over that of `base` in the same turn.
    """
    order = Random(0)
    times: dict[str, list[float]] = defaultdict(list)
    work: dict[str, Work] = {}
    for decoder in decoders.values():  # warm up
        _measure(decoder, sources[: decoder.batch_size])
    for _ in track(range(turns)):
        for name in order.sample(sorted(decoders), len(decoders)):
            took_s, work[name] = _measure(decoders[name], sources)
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


def _measure(decoder: TimedDecoder, sources: Sequence[Beams]) -> tuple[float, Work]:
    with counting() as work:
        began = time.perf_counter()
        for answer in decoder.answers(sources):
            answer.text  # noqa: B018
        return time.perf_counter() - began, work
