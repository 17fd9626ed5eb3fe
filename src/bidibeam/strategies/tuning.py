"""Tuning finds lambda, length settings and T of BP_T: those with the highest corpus BLEU on held-out sources.

Every setting reranks the same hypotheses, so each hypothesis' n-gram matches with its reference are counted
once. After that lambda and the length settings cost one weighted sum and one choice per source, and a T costs
what `bidia` costs that looks for the reply alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bidibeam.errors import InputError
from bidibeam.hypotheses import Direction, NBest
from bidibeam.metrics.bleu import OWN_WORDS, Bleu, corpus_bleu
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.bidis import BidiS, normalise_other
from bidibeam.strategies.ranking import choose, number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from bidibeam.hypotheses import Beams, Hypothesis
    from bidibeam.similarities.word_vectors import WordVectors
    from bidibeam.strategies.settings import StrategySettings

    Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

LAMBDAS = tuple(round(0.1 * step, 1) for step in range(21)) + tuple(2.5 + 0.5 * step for step in range(16))
"""0 to 2 by tenths, and on to 10 by halves."""
EXPONENTS = tuple(round(0.1 * step, 1) for step in range(41))
"""0 to 4 by tenths."""
REWARDS = tuple(round(0.1 * step, 1) for step in range(41))
"""0 to 4 by tenths, in natural logarithms a token."""
PENALTIES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60)
"""T of BP_T, in tokens: from hardly a penalty to one that favours the longest."""
OUTER = 0.1
"""A value this near the upper end of its grid, as a share of the grid, lies at it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Corpus BLEU along the values of one setting, while the others are held."""

    setting: str
    held: dict[str, float]
    values: tuple[float, ...]
    bleu: tuple[float, ...]

    @property
    def best(self) -> tuple[float, float]:
        """The value with the highest BLEU, the first of equal ones, and that BLEU."""
        index = int(np.argmax(self.bleu))
        return self.values[index], self.bleu[index]

    @property
    def is_flat(self) -> bool:
        """Whether all values are as good as each other."""
        return len(set(self.bleu)) == 1

    @property
    def is_at_end(self) -> bool:
        """Whether a better value may lie beyond those tried.

        So it is if the best is the first, unless that is 0, which stands for nothing at all; or if it lies in
        the last tenth of the grid. Where all values are as good, nothing was decided.
        """
        first, last = self.values[0], self.values[-1]
        if self.is_flat:
            return False
        value, _ = self.best
        return (value == first and first != 0) or value >= last - OUTER * (last - first)

    def choose(self, default: float) -> tuple[float, float]:
        """Returns the best value and its BLEU; where all are as good, the one nearest the default."""
        return (_nearest(self.values, default), self.bleu[0]) if self.is_flat else self.best


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The values that tuning chose, and BLEU along every setting.

    There is a curve for each option, in the order of `options`: against lambda, against the exponent and the
    word reward, each with the other as it was chosen, and against every T.
    """

    options: dict[str, dict[str, float]]  # by strategy; T by strategy and similarity, "bidia bleu_t"
    bleu: dict[str, float]  # by the same names, with these options; and that of VBS as it was searched
    curves: tuple[Curve, ...]
    sources: int  # how many decided

    @property
    def named_curves(self) -> list[tuple[str, Curve, float]]:
        """Each curve with the name in `options` that it belongs to, and the value that was chosen on it."""
        chosen = [(name, value) for name, options in self.options.items() for value in options.values()]
        return [(name, curve, value) for (name, value), curve in zip(chosen, self.curves, strict=True)]

    @property
    def curves_at_end(self) -> list[tuple[str, Curve]]:
        """The curves, by name, whose best value lies at the end of what was tried."""
        return [(name, curve) for name, curve, _ in self.named_curves if curve.is_at_end]

    @property
    def end_note(self) -> str:
        """Which values lie at the end of their grids, in a sentence; empty if none does."""
        parts = [
            f"{curve.setting.replace('_', ' ')} of {name} ({curve.best[0]:g} of {curve.values[0]:g} to "
            f"{curve.values[-1]:g})"
            for name, curve in self.curves_at_end
        ]
        return f"At the end of what was tried, so better may lie beyond: {', '.join(parts)}." if parts else ""

    @property
    def flat_note(self) -> str:
        """Which settings made no difference, in a sentence; empty if all made one."""
        parts = [
            f"{curve.setting.replace('_', ' ')} of {name} ({value:g})"
            for name, curve, value in self.named_curves
            if curve.is_flat and len(curve.values) > 1
        ]
        if not parts:
            return ""
        return (
            "BLEU is the same on these sources whatever the value, so the default, or what was tried nearest "
            f"to it, is kept: {', '.join(parts)}."
        )

    def without(self, names: Collection[str]) -> TuningResult:
        """Returns the result without some of the names in `options`."""
        return TuningResult(
            {name: options for name, options in self.options.items() if name not in names},
            {name: bleu for name, bleu in self.bleu.items() if name not in names},
            tuple(curve for name, curve, _ in self.named_curves if name not in names),
            self.sources,
        )

    def merge(self, other: TuningResult) -> TuningResult:
        """Returns both results together; as many sources decided as here."""
        return TuningResult(
            {**self.options, **other.options},
            {**self.bleu, **other.bleu},
            (*self.curves, *other.curves),
            self.sources,
        )

    def add(self, strategy: str, options: dict[str, float], bleu: float, *curves: Curve) -> TuningResult:
        """Returns the result and one more strategy."""
        return self.merge(TuningResult({strategy: options}, {strategy: bleu}, curves, self.sources))


class HypothesisTable:
    """The regular hypotheses of all sources, with BLEU's statistics of each against its reference."""

    def __init__(self, beams: Iterable[Beams]) -> None:
        sizes: list[int] = []
        self._hypotheses: list[Hypothesis] = []
        references: list[tuple[str, ...]] = []
        for line in beams:
            if not line.references:
                raise InputError(
                    f"Source {line.id!r} has no reference, and tuning compares replies with one."
                )
            if not len(line.regular):
                raise InputError(f"Nothing was found for source {line.id!r}; widen the beam.")
            self._hypotheses.extend(line.regular)
            references.extend([line.references] * len(line.regular))
            sizes.append(len(line.regular))
        if not sizes:
            raise InputError("There are no sources to tune on.")
        texts = [hypothesis.text for hypothesis in self._hypotheses]
        self._statistics = Bleu(OWN_WORDS).statistics(texts, references)  # (hypotheses, 2 + 2 * order)
        self.sources = len(sizes)
        self._starts = np.cumsum([0, *sizes[:-1]])  # (sources,)
        self._owners = np.repeat(np.arange(self.sources), sizes)  # (hypotheses,)
        finished = np.array([hypothesis.finished for hypothesis in self._hypotheses])
        has_finished = np.logical_or.reduceat(finished, self._starts)  # (sources,)
        self._is_last = ~finished & has_finished[self._owners]  # (hypotheses,), cut off beside finished ones

    @property
    def has_other_log_probs(self) -> bool:
        """Whether the other direction scored any of them; if not all, reading the numbers will say so."""
        return any(hypothesis.other_log_prob is not None for hypothesis in self._hypotheses)

    def values(self, value: Callable[[Hypothesis], float]) -> Array:
        """Returns a number for every hypothesis."""
        return np.array([value(hypothesis) for hypothesis in self._hypotheses], dtype=np.float64)

    def bleu(self, scores: Array) -> float:
        """Returns corpus BLEU of the best hypotheses: finished ones first, then the first of equals."""
        ranked = np.where(self._is_last, -np.inf, scores)
        highest = np.maximum.reduceat(ranked, self._starts)  # (sources,)
        rows = np.flatnonzero(ranked == highest[self._owners])
        _, first = np.unique(self._owners[rows], return_index=True)
        return self.bleu_at(rows[first] - self._starts)

    def bleu_at(self, places: Sequence[int] | Array) -> float:
        """Returns corpus BLEU of one hypothesis per source, named by its place."""
        rows = self._starts + np.asarray(places)
        return float(corpus_bleu(self._statistics[rows].sum(axis=0, keepdims=True))[0])


def tune(
    beams: Iterable[Beams],
    *,
    lambdas: Sequence[float] = LAMBDAS,
    exponents: Sequence[float] = EXPONENTS,
    rewards: Sequence[float] = REWARDS,
    search: SearchSettings | None = None,
) -> TuningResult:
    """Chooses the settings of `vbs-tuned`, and of `bidis` if the other direction scored the hypotheses.

    Length exponent and word reward are chosen together, on their whole grid. Of equal values the first wins;
    where all are equal, the one nearest the default: lambda 1, the exponent of the search, no word reward.
    """
    table = HypothesisTable(beams)
    scores = table.values(lambda hypothesis: number(hypothesis, "score"))
    result = TuningResult({}, {"vbs": table.bleu(scores)}, (), table.sources)
    if table.has_other_log_probs:
        reverse = table.values(normalise_other)
        bleu = tuple(table.bleu(scores + value * reverse) for value in lambdas)
        curve = Curve("lambda", {}, tuple(lambdas), bleu)
        value, best = curve.choose(BidiS.lambda_)
        result = result.add("bidis", {"lambda_": value}, best, curve)

    log_probs = table.values(lambda hypothesis: number(hypothesis, "log_prob"))
    lengths = table.values(lambda hypothesis: float(hypothesis.length))
    grid = np.array(  # (exponents, rewards)
        [
            [table.bleu(normalised + reward * lengths) for reward in rewards]
            for normalised in (log_probs * ((5.0 + lengths) / 6.0) ** -exponent for exponent in exponents)
        ]
    )
    default = (search or SearchSettings()).length_penalty
    defaults = exponents.index(_nearest(exponents, default)), rewards.index(_nearest(rewards, 0.0))
    row, column = choose_cell(grid, defaults)
    exponent, reward = {"length_exponent": exponents[row]}, {"word_reward": rewards[column]}
    return result.add(
        "vbs-tuned",
        {**exponent, **reward},
        float(grid[row, column]),
        Curve("length_exponent", reward, tuple(exponents), tuple(grid[:, column].tolist())),
        Curve("word_reward", exponent, tuple(rewards), tuple(grid[row].tolist())),
    )


def tune_penalty(
    beams: Iterable[Beams],
    strategies: Mapping[str, StrategySettings],
    *,
    values: Sequence[int] = PENALTIES,
    space: Callable[[], WordVectors] | None = None,
    search: SearchSettings | None = None,
) -> TuningResult:
    """Chooses T of BP_T for strategies that compare both directions.

    Of equal values the first wins; where all are equal, the one nearest the strategy's own T, or else that of
    the search. `strategies` are by the name that the result has, such as "bidia bleu_t"; word vectors are
    asked for at most once.
    """
    lines = list(beams)
    for line in lines:
        for direction in Direction:
            if not len(line.of(direction)):
                raise InputError(
                    f"Source {line.id!r} has no {direction.value} hypotheses, and T is tuned on those of "
                    "both directions; widen the beam."
                )
    table = HypothesisTable(replace(line, regular=NBest((*line.regular, *line.reverse))) for line in lines)
    result = TuningResult({}, {}, (), table.sources)
    vectors = None if space is None else cache(space)
    longest = (search or SearchSettings()).max_length
    for name, settings in strategies.items():
        bleu = []
        for value in values:
            options = {**settings.similarity_options, "max_length": value}
            strategy = replace(settings, similarity_options=options).build(space=vectors)
            replies = [choose(strategy, line).entries[0] for line in lines]
            bleu.append(
                table.bleu_at(
                    [  # reverse hypotheses stand behind the regular ones
                        reply.place + len(line.regular) * (reply.direction is Direction.REVERSE)
                        for reply, line in zip(replies, lines, strict=True)
                    ]
                )
            )
        curve = Curve("T", {}, tuple(values), tuple(bleu))
        best, highest = curve.choose(settings.similarity_options.get("max_length", longest))
        result = result.add(name, {"T": best}, highest, curve)
    return result


def choose_cell(grid: Array, default: tuple[int, int]) -> tuple[int, int]:
    """Returns row and column of the first highest value; what makes no difference keeps its default."""
    row, column = divmod(int(grid.argmax()), grid.shape[1])
    highest = grid[row, column]
    for _ in range(2):  # on the default row, the column may turn out to make no difference either
        if (grid[row] == highest).all():
            column = default[1]
        if (grid[:, column] == highest).all():
            row = default[0]
    return row, column


def _nearest(values: Sequence[float], default: float) -> float:
    """Returns the value nearest the default, the first of equally near ones."""
    return min(values, key=lambda value: abs(value - default))
