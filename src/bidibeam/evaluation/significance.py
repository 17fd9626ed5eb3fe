"""Bootstrap intervals of corpus BLEU, and two paired tests: is a difference more than random?

Definitions and random numbers are those of `sacrebleu.significance`, and so are corpus BLEU and p-values, to
the last bit; they are reached by matrix products: whichever sources are drawn, corpus BLEU follows from ten
sums over them. We differ where

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sacrebleu

from bidibeam.errors import SettingsError
from bidibeam.metrics.bleu import corpus_bleu
from bidibeam.metrics.ngrams import sign
from bidibeam.scores import Signature

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

SAME = 1e-9
"""Two differences in BLEU that are no further apart are the same, but for rounding."""
CHUNK = 2**22
"""How many random numbers are held at once, more or less."""
EVEN_ROWS = 32
"""NumPy draws truth values 32 at a time: in multiples of so many rows, parts draw what the whole would."""


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


@dataclass(frozen=True, slots=True)
class BleuSamples:
    """A system's corpus BLEU, and the same on random samples of the sources."""

    totals: Array  # (columns,), BLEU's statistics over all sources
    resampled: Array  # (samples,), BLEU on each bootstrap resample
    selected: Array  # (trials, columns), the statistics over the sources that each trial selects

    @property
    def bleu(self) -> float:
        """Corpus BLEU on the sources as they are."""
        return float(corpus_bleu(self.totals[np.newaxis])[0])


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A difference in corpus BLEU of a system and a baseline, its 95 % interval, p-values of two tests."""

    difference: float
    low: float
    high: float
    paired_bootstrap: float
    approximate_randomisation: float
    signature: Signature


def bootstrap_bleu(statistics: Sequence[Array], resampling: Resampling) -> list[Array]:
    """Returns by system corpus BLEU on the same resamples, (samples,), of statistics (sources, columns)."""
    rng, sources = np.random.default_rng(resampling.seed), len(statistics[0])

    def count_drawn(rows: int) -> Array:
        drawn = rng.choice(sources, size=(rows, sources), replace=True)
        drawn += np.arange(0, rows * sources, sources)[:, np.newaxis]
        return np.bincount(drawn.ravel(), minlength=rows * sources).reshape(rows, sources)

    sums = _sum_samples(statistics, resampling.samples, count_drawn)
    return [corpus_bleu(each.astype(np.float32)) for each in sums]  # sacreBLEU has single precision here


def sample_bleu(statistics: Sequence[Array], resampling: Resampling) -> list[BleuSamples]:
    """Draws the same resamples and trials for all systems, whose statistics are (sources, columns) each."""
    rng, sources = np.random.default_rng(resampling.seed), len(statistics[0])
    selected = _sum_samples(
        statistics, resampling.trials, lambda rows: rng.integers(2, size=(rows, sources), dtype=np.bool_)
    )
    resampled = bootstrap_bleu(statistics, resampling)
    return [
        BleuSamples(each.sum(axis=0), bleu, trials)
        for each, bleu, trials in zip(statistics, resampled, selected, strict=True)
    ]


def _sum_samples(statistics: Sequence[Array], samples: int, draw: Callable[[int], Array]) -> list[Array]:
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


def paired_test(system: BleuSamples, baseline: BleuSamples, resampling: Resampling) -> PairedTest:
    """Tests a system beside a baseline; both must come from one call of `sample_bleu`.

    A p-value is that of a difference at least as large either way if the two were alike. Where no sample has
    a difference, as between equal replies, it is 1; sacreBLEU says 1 / (trials + 1) then.
    """
    difference = system.bleu - baseline.bleu
    differences = system.resampled - baseline.resampled
    distances = np.abs(differences)
    swapped = baseline.selected + (system.totals - system.selected)  # (trials, columns)
    rest = system.selected + (baseline.totals - baseline.selected)
    shuffled = np.abs(corpus_bleu(swapped) - corpus_bleu(rest))
    low, high = interval(differences)
    return PairedTest(
        difference,
        low,
        high,
        paired_bootstrap=_p_value(distances, distances - distances.mean(), abs(difference)),
        approximate_randomisation=_p_value(shuffled, shuffled, abs(difference) - SAME),
        signature=sign(
            tests="paired_bootstrap,approximate_randomisation",
            metric="bleu",
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
