"""What choices among hypotheses are worth by a metric: a text's statistics are counted once, then summed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bidibeam.errors import InputError
from bidibeam.hypotheses import Direction, Hypothesis
from bidibeam.metrics.resampling import CHUNK, Resampling, bootstrap
from bidibeam.metrics.scoring import check_tunable, orient, score

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bidibeam.hypotheses import Beams
    from bidibeam.protocols import Array, Metric


FOLDS = 5
"""Parts of the sources, one behind another: settings that the others decide are measured on each."""
NOTHING = Hypothesis("", (), 0.0, 1, 0.0, other_log_prob=0.0)
"""What stands for a list without hypotheses."""


class Outcomes:
    """The statistics of every text that may answer a source.

    A choice is an array of row numbers, one for each source; several choices are a matrix of those.

    Args:
        metric: What is to be high, or low.
        lists: Lists of beams of the same sources, in the same order.
    """

    def __init__(self, metric: Metric, *lists: Sequence[Beams]) -> None:
        check_tunable(metric)
        self.metric, self.sources = metric, len(lists[0])
        if not self.sources:
            raise InputError("There are no sources to tune on.")
        replies: list[str] = []
        references: list[Sequence[str]] = []
        self._rows: list[dict[str, int]] = []
        for lines in zip(*lists, strict=True):
            if not lines[0].references:
                raise InputError(
                    f"Source {lines[0].id!r} has no reference, and tuning compares replies with one."
                )
            found = (each.text for line in lines for direction in Direction for each in line.of(direction))
            texts = dict.fromkeys(["", *found])
            self._rows.append({text: len(replies) + place for place, text in enumerate(texts)})
            replies += texts
            references += [lines[0].references] * len(texts)
        self._statistics: Array = metric.statistics(replies, references)  # (rows, columns)
        self.folds = min(FOLDS, self.sources)
        self._fold_starts = np.arange(self.folds) * self.sources // self.folds  # (folds,)
        self.fold_of = np.repeat(np.arange(self.folds), np.diff([*self._fold_starts, self.sources]))

    def row(self, source: int, text: str) -> int:
        """Returns the row of a text."""
        return self._rows[source][text]

    def sum_folds(self, choices: Array) -> Array:
        """Sums the statistics of (choices, sources) over each fold: (choices, folds, columns)."""
        columns = self._statistics.shape[1]
        sums = np.empty((len(choices), self.folds, columns))
        step = max(1, CHUNK // (self.sources * columns))
        for start in range(0, len(choices), step):
            chosen = self._statistics[choices[start : start + step]]  # (choices, sources, columns)
            sums[start : start + step] = np.add.reduceat(chosen, self._fold_starts, axis=1)
        return sums

    def measure(self, choice: Array) -> float:
        """Returns the metric of one choice."""
        return score(self.metric, self._statistics[choice])

    def gains(self, sums: Array) -> Array:
        """Returns the metric of rows of summed statistics, turned so that higher is better."""
        values = np.asarray(self.metric.values(sums), dtype=np.float64)
        gains: Array = np.nan_to_num(orient(self.metric, values), nan=-np.inf)
        return gains

    def gains_without(self, sums: Array, fold: int | None) -> Array:
        """Returns the gains of (choices, folds, columns) on all folds but one; on all if there is but one."""
        total = sums.sum(axis=1)
        return self.gains(total if fold is None or self.folds == 1 else total - sums[:, fold])

    def cross_validate(self, sums: Array, choices: Array, pick: Callable[[Array], int]) -> Array:
        """Returns for each source what the other folds would have picked: one choice."""
        picked = np.array([pick(self.gains_without(sums, fold)) for fold in range(self.folds)])
        result: Array = choices[picked[self.fold_of], np.arange(self.sources)]
        return result

    def resample(self, choices: Sequence[Array]) -> Array:
        """Returns the metric of choices on the same bootstrap resamples of sources: (choices, samples)."""
        return np.stack(bootstrap(self.metric, [self._statistics[each] for each in choices], Resampling()))

    def prefer_first(self, choices: Sequence[Array], *, by_errors: float = 1.0) -> int:
        """Returns the first of choices that the best does not beat by a standard error, or so many.

        The standard error is that of the difference of the two, by the bootstrap; after Breiman et al.
        (1984). Candidates that make similar choices have a small one. Prefers the simplest candidate of
        equal quality.
        """
        gains = self.gains(np.stack([self._statistics[choice].sum(axis=0) for choice in choices]))
        resampled, best = self.resample(choices), int(np.argmax(gains))
        errors = (resampled[best] - resampled).std(axis=1)  # (choices,)
        found = int(np.argmax(gains[best] - gains <= by_errors * errors))
        return int(np.argmax(gains >= gains[found]))


class FlatBeams:
    """The hypotheses of one list of beams that may answer, end to end, and their numbers as arrays."""

    def __init__(self, outcomes: Outcomes, lines: Sequence[Beams], directions: Sequence[Direction]) -> None:
        self.outcomes = outcomes
        self._found: list[tuple[Direction, Hypothesis]] = []
        rows: list[int] = []
        sizes: list[int] = []
        for source, line in enumerate(lines):
            found = [(direction, each) for direction in directions for each in line.of(direction)]
            found = found or [(directions[0], NOTHING)]
            rows += [outcomes.row(source, each.text) for _, each in found]
            self._found += found
            sizes.append(len(found))
        self._rows = np.array(rows, dtype=np.int32)
        self._starts = np.cumsum([0, *sizes[:-1]])  # (sources,)
        self._owners = np.repeat(np.arange(len(sizes)), sizes)  # (candidates,)
        finished = np.array([each.finished for _, each in self._found])
        has_finished = np.logical_or.reduceat(finished, self._starts)  # (sources,)
        self._is_last = ~finished & has_finished[self._owners]  # cut off beside finished ones

    def numbers(self, value: Callable[[Direction, Hypothesis], float]) -> Array:
        """Returns a number for every candidate."""
        return np.array([value(*found) for found in self._found], dtype=np.float64)

    def choose(self, scores: Array) -> Array:
        """Returns choices by scores (settings, candidates): finished ones first, then the first of equals."""
        ranked = np.where(self._is_last, -np.inf, scores)
        highest = np.maximum.reduceat(ranked, self._starts, axis=1)  # (settings, sources)
        places = np.where(ranked == highest[:, self._owners], np.arange(len(self._rows)), len(self._rows))
        result: Array = self._rows[np.minimum.reduceat(places, self._starts, axis=1)]
        return result
