"""Is a difference in corpus BLEU more than chance? Bootstrap intervals and two paired tests.

Definitions and random numbers are those of `sacrebleu.significance`, and so are corpus BLEU and p-values, to
the last bit; they are reached by matrix products: whichever sources are drawn, corpus BLEU follows from ten
sums over them. We differ where

- two systems never differ, whichever sources are drawn: p is 1 here, and 1 / (trials + 1) there;
- swapping replies makes the very difference that was seen, as it often does where the systems differ on few
  sources: that counts as "at least as large" here, so that one source that differs has p = 1, and not there,
  where it has 1 / (trials + 1);
- an interval is told: by its ends here, the percentiles 2.5 and 97.5 of resampled values; by the mean of all
  resampled values and half the distance of these percentiles there;
- a difference is told: it has an interval of its own here, and none there;
- a corpus has more than 16 million words: single precision rounds sums once here, and at every step there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sacrebleu

from bidibeam.errors import SettingsError
from bidibeam.metrics.ngrams import sign as recipe
from bidibeam.scores import Signature

if TYPE_CHECKING:
    from bidibeam.metrics.ngrams import NgramCounts

    Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

ORDER = 4
COLUMNS = 2 + 2 * ORDER
"""Words written, words wanted, matches by order, n-grams by order: sacreBLEU's sufficient statistics."""
SAME = 1e-9
"""Two differences in BLEU that are no further apart are the same, but for rounding."""
CHUNK = 2**22
"""How many random numbers are held at once, more or less."""
EVEN_ROWS = 32
"""NumPy draws truth values 32 at a time: in multiples of so many rows, parts draw what the whole would."""


@dataclass(frozen=True, slots=True)
class Resampling:
    """How often chance is tried; the defaults are sacreBLEU's.

    Attributes:
        samples: Bootstrap resamples, for intervals and for the paired bootstrap.
        trials: Trials of approximate randomisation.
        seed: Another seed, other random numbers.

    Raises:
        SettingsError: If a number is too small.
    """

    samples: int = 1000
    trials: int = 10_000
    seed: int = 12345

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("trials", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SettingsError(f"{name} must be a whole number of at least {least}, not {value!r}.")


@dataclass(frozen=True, slots=True)
class Chances:
    """A system's corpus BLEU, and what chance makes of it.

    Attributes:
        totals: (columns,), its statistics over all sources.
        resampled: (samples,), its BLEU on each bootstrap resample.
        selected: (trials, columns), its statistics over the sources that each trial selects.
    """

    totals: Array
    resampled: Array
    selected: Array

    @property
    def bleu(self) -> float:
        """On the sources as they are."""
        return float(bleu_of_sums(self.totals[np.newaxis])[0])


@dataclass(frozen=True, slots=True)
class PairedTest:
    """What two tests say of a system beside a baseline.

    Attributes:
        difference: The system's corpus BLEU less the baseline's.
        low: Where the difference's 95 % interval begins.
        high: Where it ends.
        paired_bootstrap: p-value of the paired bootstrap.
        approximate_randomisation: p-value of paired approximate randomisation.
        signature: How they were computed.
    """

    difference: float
    low: float
    high: float
    paired_bootstrap: float
    approximate_randomisation: float
    signature: Signature


def statistics_of(counts: NgramCounts) -> Array:
    """Each reply's sufficient statistics of BLEU, (sources, columns)."""
    return np.column_stack(
        [counts.reply_lengths, counts.reference_lengths, counts.matches, counts.reply_ngrams]
    )


def bleu_of_sums(sums: Array) -> Array:
    """Corpus BLEU of each row of summed statistics: (rows, columns) to (rows,).

    Precisions have the precision of `sums`. Logarithms are the C library's, as sacreBLEU's are: NumPy's own
    differ in the last bit on some machines, and a tie between trials is decided by it.
    """
    matches, ngrams = sums[:, 2 : 2 + ORDER], sums[:, 2 + ORDER :]
    is_positive = (matches > 0).any(axis=1) & (ngrams > 0).all(axis=1)
    matches, ngrams = matches[is_positive], ngrams[is_positive]
    smoothing = (2 ** np.cumsum(matches == 0, axis=1)).astype(sums.dtype)  # doubles at each order without
    precisions = np.where(matches == 0, 100 / (smoothing * ngrams), 100 * matches / ngrams)
    lengths = sums[is_positive, :2].tolist()
    scores = np.zeros(len(sums))
    scores[is_positive] = [
        (math.exp(1 - wanted / written) if written < wanted else 1.0)
        * math.exp(sum(map(math.log, row)) / ORDER)
        for (written, wanted), row in zip(lengths, precisions.tolist(), strict=True)
    ]
    return scores


def resampled_bleu(statistics: Array, resampling: Resampling) -> Array:
    """Corpus BLEU on bootstrap resamples of the sources, (samples,)."""
    return resampled_bleus([statistics], resampling)[0]


def resampled_bleus(statistics: Sequence[Array], resampling: Resampling) -> list[Array]:
    """By system, corpus BLEU on bootstrap resamples of the sources, (samples,); all on the same resamples."""
    rng, sources = np.random.default_rng(resampling.seed), len(statistics[0])
    beside = np.concatenate(statistics, axis=1).astype(np.float64)  # (sources, systems * columns)
    sums = []
    for rows in _chunks(resampling.samples, sources):
        drawn = rng.choice(sources, size=(rows, sources), replace=True)
        drawn += np.arange(0, rows * sources, sources)[:, np.newaxis]
        times = np.bincount(drawn.ravel(), minlength=rows * sources).reshape(rows, sources)
        sums.append(times.astype(np.float64) @ beside)
    whole = np.concatenate(sums).astype(np.float32)  # sacreBLEU has single precision here
    return [bleu_of_sums(each) for each in np.split(whole, len(statistics), axis=1)]


def selected_sums(statistics: Sequence[Array], resampling: Resampling) -> list[Array]:
    """By system, its statistics summed over the sources that each trial selects, (trials, columns)."""
    rng, sources = np.random.default_rng(resampling.seed), len(statistics[0])
    beside = np.concatenate(statistics, axis=1).astype(np.float64)  # (sources, systems * columns)
    sums = []
    for rows in _chunks(resampling.trials, sources):
        selects = rng.integers(2, size=(rows, sources), dtype=np.bool_)
        sums.append(selects.astype(np.float64) @ beside)
    return np.split(np.concatenate(sums), len(statistics), axis=1)


def chances_of(
    statistics: Sequence[Array], resampling: Resampling, resampled: Sequence[Array] | None = None
) -> list[Chances]:
    """What chance makes of systems on the same sources, all on the same random numbers.

    Args:
        statistics: By system, (sources, columns).
        resampling: How often chance is tried.
        resampled: By system, what `resampled_bleu` gives, where that is known already.
    """
    known = resampled_bleus(statistics, resampling) if resampled is None else resampled
    selected = selected_sums(statistics, resampling)
    return [
        Chances(numbers.sum(axis=0), scores, sums)
        for numbers, scores, sums in zip(statistics, known, selected, strict=True)
    ]


def interval(values: Array) -> tuple[float, float]:
    """Where the middle 95 % of resampled values begin and end."""
    ordered, cut = np.sort(values), len(values) // 40
    return float(ordered[cut]), float(ordered[-1 - cut])


def paired_test(system: Chances, baseline: Chances, resampling: Resampling) -> PairedTest:
    """Both tests of a system beside a baseline; they must have been tried on the same random numbers.

    A p-value is that of a difference at least as large either way if the two were alike. Where chance never
    makes a difference, as between equal replies, it is 1; sacreBLEU says 1 / (trials + 1) then.
    """
    difference = system.bleu - baseline.bleu
    differences = system.resampled - baseline.resampled
    distances = np.abs(differences)
    swapped = baseline.selected + (system.totals - system.selected)  # (trials, columns)
    others = system.selected + (baseline.totals - baseline.selected)
    shuffled = np.abs(bleu_of_sums(swapped) - bleu_of_sums(others))
    low, high = interval(differences)
    return PairedTest(
        difference,
        low,
        high,
        paired_bootstrap=_p_value(distances, distances - distances.mean(), abs(difference)),
        approximate_randomisation=_p_value(shuffled, shuffled, abs(difference) - SAME),
        signature=signature_of(resampling),
    )


def signature_of(resampling: Resampling) -> Signature:
    """How both tests and the interval of the difference were computed."""
    return recipe(
        tests="paired_bootstrap,approximate_randomisation",
        metric="bleu",
        interval="95%",
        samples=resampling.samples,
        trials=resampling.trials,
        seed=resampling.seed,
        sacrebleu=sacrebleu.__version__,
    )


def _p_value(found: Array, centred: Array, distance: float) -> float:
    if distance <= 0 and not found.any():
        return 1.0
    return (int((centred > distance).sum()) + 1) / (len(found) + 1)


def _chunks(rows: int, width: int) -> Iterator[int]:
    """So many rows in parts that are not too large."""
    part = max(1, CHUNK // width // EVEN_ROWS) * EVEN_ROWS
    for start in range(0, rows, part):
        yield min(part, rows - start)
