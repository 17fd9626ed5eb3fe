"""Values of any metric on random samples of the sources, and the intervals that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.errors import SettingsError
from bidibeam.metrics.scoring import Texts, has_statistics

if TYPE_CHECKING:
    from bidibeam.protocols import Metric

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

CHUNK = 2**22
"""How many random numbers are held at once, more or less."""
EVEN_ROWS = 32  # so that at least as many rows are drawn at once, and a source takes a byte in each
"""NumPy draws truth values 32 at a time: in multiples of so many rows, parts draw what the whole would."""
PIECE = CHUNK // EVEN_ROWS
"""Of so many sources sums are computed at once: of more, their last bit may depend on it."""
MOST_OF_CORPORA = 100
"""Samples, and trials, of a metric that must be computed anew for each."""


@dataclass(frozen=True, slots=True)
class Resampling:
    """How many random samples are drawn; the defaults are sacreBLEU's."""

    samples: int = 1000  # bootstrap resamples, for intervals and for the paired bootstrap
    trials: int = 10_000  # of approximate randomisation
    seed: int = 12345

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("trials", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SettingsError(f"{name} must be a whole number of at least {least}, not {value!r}.")

    def limit(self, metric: Metric) -> Resampling:
        """Returns the same, or less of it for a metric that must be computed anew for every sample."""
        if has_statistics(metric):
            return self
        most = MOST_OF_CORPORA
        return replace(self, samples=min(most, self.samples), trials=min(most, self.trials))


def bootstrap(metric: Any, measured: Sequence[Array | Texts], resampling: Resampling) -> list[Array]:
    """Returns by system the metric's value on the same resamples, (samples,).

    What is `measured` are statistics, (sources, columns), or texts for a metric of whole corpora. A resample
    repeats some texts, which such a metric may count: there are fewer distinct words, say. So its values are
    moved to lie around the value of the texts as they are.
    """
    resampling = resampling.limit(metric)
    rng, sources = np.random.default_rng(resampling.seed), count_sources(measured)
    if isinstance(measured[0], Texts):
        draws = (rng.choice(sources, size=sources, replace=True) for _ in range(resampling.samples))
        scorers = [_prepare(metric, *each) for each in measured]
        values = np.array([[score_drawn(drawn) for score_drawn in scorers] for drawn in draws])
        pairs = zip(measured, values.T, strict=True)
        return [of_system + (metric.score(*each) - np.mean(of_system)) for each, of_system in pairs]

    def count_drawn(rows: int) -> Array:
        counts = np.zeros((rows, sources), np.uint8)  # one more than 255 has a probability below 1e-490
        for row in counts:
            for start in range(0, sources, CHUNK):
                drawn = rng.choice(sources, size=min(CHUNK, sources - start), replace=True)
                row += np.bincount(drawn, minlength=sources).astype(row.dtype)
        return counts

    sums = sum_samples(measured, resampling.samples, count_drawn)  # type: ignore[arg-type]
    precision = getattr(metric, "resampled_as", np.float64)  # sacreBLEU has single precision here
    return [metric.values(each.astype(precision)).astype(np.float64) for each in sums]


def count_sources(measured: Sequence[Array | Texts]) -> int:
    """Returns how many sources were measured."""
    return len(measured[0].replies if isinstance(measured[0], Texts) else measured[0])


def sum_samples(statistics: Sequence[Array], samples: int, draw: Callable[[int], Array]) -> list[Array]:
    """Returns by system the sums of its statistics over the sources of each sample, (samples, columns).

    `draw` returns how often each sample has each source, (rows, sources), for some rows at a time.
    """
    part = max(1, CHUNK // len(statistics[0]) // EVEN_ROWS) * EVEN_ROWS
    parts = (min(part, samples - start) for start in range(0, samples, part))
    sums = [_multiply(draw(rows), statistics) for rows in parts]
    return np.split(np.concatenate(sums), len(statistics), axis=1)


def _multiply(drawn: Array, statistics: Sequence[Array]) -> Array:
    """Returns (rows, sources) times (sources, columns) of all systems, in float64, some sources at a time."""
    sums = np.zeros(())
    for start in range(0, len(statistics[0]), PIECE):
        piece = slice(start, start + PIECE)
        columns = np.concatenate([each[piece] for each in statistics], axis=1)
        sums = sums + drawn[:, piece].astype(np.float64) @ columns.astype(np.float64)
    return sums


def _prepare(
    metric: Any, replies: Sequence[str], references: Sequence[Sequence[str]]
) -> Callable[[Array], float]:
    """Returns the metric as a function of the sources that are drawn, by its shortcut where it has one."""
    if (prepare := getattr(metric, "prepare", None)) is not None:
        scorer: Callable[[Array], float] = prepare(replies)
        return scorer
    return lambda drawn: float(metric.score(Drawn(replies, drawn), Drawn(references, drawn)))


class Drawn(Sequence[Any]):
    """Texts of the sources that were drawn, which are looked up one at a time."""

    def __init__(self, texts: Sequence[Any], drawn: Array) -> None:
        self._texts, self._drawn = texts, drawn

    def __len__(self) -> int:
        return len(self._drawn)

    def __getitem__(self, place: Any) -> Any:
        return self._texts[self._drawn[place]]


def interval(values: Array) -> tuple[float, float]:
    """Returns where the middle 95 % of resampled values begin and end."""
    ordered, cut = np.sort(values), len(values) // 40
    return float(ordered[cut]), float(ordered[-1 - cut])
