"""Bootstrap intervals of any metric, and two paired tests: is a difference more than random?

Definitions and random numbers are those of `sacrebleu.significance`, and so are the values and p-values of
BLEU, to the last bit, and those of chrF and TER but for rounding; they are reached by matrix products:
whichever sources are drawn, a metric's value follows from sums over them. A metric that is known for a whole
corpus alone is computed anew for every sample, of which there are at most `MOST_OF_CORPORA`. We differ where

- two systems never differ, whichever sources are drawn: p is 1 here, and 1 / (trials + 1) there;
- swapping replies makes the very difference that was seen, as it often does where the systems differ on few
  sources: that counts as "at least as large" here, so that one source that differs has p = 1, and not there,
  where it has 1 / (trials + 1);
- an interval is reported: by its ends here, the percentiles 2.5 and 97.5 of resampled values; by the mean of
  all resampled values and half the distance of these percentiles there;
- a difference is reported: it has an interval of its own here, and none there;
- a corpus has more than 16 million words: single precision rounds sums once here, and at every step there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sacrebleu

from bidibeam.metrics.ngrams import sign
from bidibeam.metrics.resampling import Resampling, bootstrap, count_sources, interval, sum_samples
from bidibeam.metrics.scoring import Texts, add_up, score
from bidibeam.scores import Signature

if TYPE_CHECKING:
    from bidibeam.protocols import Array, Metric

SAME = 1e-9
"""Two differences that are no further apart are the same, but for rounding."""


@dataclass(frozen=True, slots=True)
class Samples:
    """A system's value by a metric, and the same on random samples of the sources."""

    metric: Metric
    measured: Array | Texts  # of all sources
    resampled: Array  # (samples,), the value on each bootstrap resample
    selected: (
        Array  # (trials, columns), statistics over the sources that each trial selects; or which those are
    )

    @property
    def value(self) -> float:
        """The value on the sources as they are."""
        return score(self.metric, self.measured)

    def swap(self, other: Samples) -> Array:
        """Returns how far apart the two are, (trials,), each trial having swapped some of their replies."""
        if isinstance(self.measured, Texts):
            return np.array(list(self._swap_texts(other)))
        assert not isinstance(other.measured, Texts)  # both come from one call
        swapped = other.selected + (add_up(self.measured) - self.selected)  # (trials, columns)
        rest = self.selected + (add_up(other.measured) - other.selected)
        distances: Array = np.abs(self.metric.values(swapped) - self.metric.values(rest))
        return distances

    def _swap_texts(self, other: Samples) -> Iterator[float]:
        metric: Any = self.metric
        replies, references = self.measured
        for selected in self.selected:
            pair = (
                Swapped(replies, other.measured[0], ~selected),
                Swapped(replies, other.measured[0], selected),
            )
            one, two = (metric.score(each, references) for each in pair)
            yield abs(one - two)


class Swapped(Sequence[str]):
    """Replies of one system, and of another where they are swapped."""

    def __init__(self, own: Sequence[str], others: Sequence[str], is_swapped: Array) -> None:
        self._sides, self._is_swapped = (own, others), is_swapped

    def __len__(self) -> int:
        return len(self._is_swapped)

    def __getitem__(self, place: Any) -> Any:
        return self._sides[int(self._is_swapped[place])][place]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A difference of a system and a baseline by a metric, its 95 % interval, p-values of two tests."""

    difference: float
    low: float
    high: float
    paired_bootstrap: float
    approximate_randomisation: float
    signature: Signature


def sample(metric: Metric, measured: Sequence[Array | Texts], resampling: Resampling) -> list[Samples]:
    """Draws the same resamples and trials for all systems; what is `measured` is as for `bootstrap`."""
    resampling = resampling.limit(metric)
    rng, sources = np.random.default_rng(resampling.seed), count_sources(measured)

    def draw(rows: int) -> Array:
        return rng.integers(2, size=(rows, sources), dtype=np.bool_)

    if isinstance(measured[0], Texts):
        selected = [draw(resampling.trials)] * len(measured)
    else:
        selected = sum_samples(measured, resampling.trials, draw)  # type: ignore[arg-type]
    resampled = bootstrap(metric, measured, resampling)
    found = zip(measured, resampled, selected, strict=True)
    return [Samples(metric, each, values, trials) for each, values, trials in found]


def paired_test(system: Samples, baseline: Samples, resampling: Resampling) -> PairedTest:
    """Tests a system beside a baseline; both must come from one call of `sample`.

    A p-value is that of a difference at least as large either way if the two were alike. Where no sample has
    a difference, as between equal replies, it is 1; sacreBLEU says 1 / (trials + 1) then.
    """
    metric, resampling = system.metric, resampling.limit(system.metric)
    difference = system.value - baseline.value
    differences = system.resampled - baseline.resampled
    distances = np.abs(differences)
    shuffled = system.swap(baseline)
    low, high = interval(differences)
    return PairedTest(
        difference,
        low,
        high,
        paired_bootstrap=_p_value(distances, distances - distances.mean(), abs(difference)),
        approximate_randomisation=_p_value(shuffled, shuffled, abs(difference) - SAME),
        signature=sign(
            tests="paired_bootstrap,approximate_randomisation",
            metric=metric.name,
            interval="95%",
            samples=resampling.samples,
            trials=resampling.trials,
            seed=resampling.seed,
            sacrebleu=sacrebleu.__version__,
        ),
    )


def _p_value(distances: Array, centred: Array, distance: float) -> float:
    if distance <= 0 and not distances.any():
        return 1.0
    return (int((centred > distance).sum()) + 1) / (len(distances) + 1)
