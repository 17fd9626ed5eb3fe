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
EVEN_ROWS = 32
"""NumPy draws truth values 32 at a time: in multiples of so many rows, parts draw what the whole would."""
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
        drawn = rng.choice(sources, size=(resampling.samples, sources), replace=True).tolist()
        found = []
        for each in measured:
            values = [metric.score(*([texts[at] for at in rows] for texts in each)) for rows in drawn]
            found.append(np.array(values) + (metric.score(*each) - np.mean(values)))
        return found

    def count_drawn(rows: int) -> Array:
        drawn = rng.choice(sources, size=(rows, sources), replace=True)
        drawn += np.arange(0, rows * sources, sources)[:, np.newaxis]
        return np.bincount(drawn.ravel(), minlength=rows * sources).reshape(rows, sources)

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
    columns = np.concatenate(statistics, axis=1).astype(np.float64)  # (sources, systems * columns)
    part = max(1, CHUNK // len(columns) // EVEN_ROWS) * EVEN_ROWS
    parts = (min(part, samples - start) for start in range(0, samples, part))
    sums = [draw(rows).astype(np.float64) @ columns for rows in parts]
    return np.split(np.concatenate(sums), len(statistics), axis=1)


def interval(values: Array) -> tuple[float, float]:
    """Returns where the middle 95 % of resampled values begin and end."""
    ordered, cut = np.sort(values), len(values) // 40
    return float(ordered[cut]), float(ordered[-1 - cut])
