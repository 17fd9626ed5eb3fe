"""Tuning finds the settings of strategies that are best on held-out sources, by any metric.

Every setting reranks the same hypotheses, so each text's statistics are counted once (`outcomes`). After that
lambda, the length settings and the weights of `loglinear` cost a weighted sum and a choice per source, and a
T costs what `bidia` costs that looks for the reply alone. Systems are compared by cross-validation: what is
measured on a part of the sources was chosen on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.errors import InputError
from bidibeam.hypotheses import Direction
from bidibeam.metrics.resampling import interval
from bidibeam.metrics.scoring import orient
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.bidis import BidiS, normalise_other
from bidibeam.strategies.loglinear import LogLinear
from bidibeam.strategies.outcomes import FlatBeams, Outcomes
from bidibeam.strategies.ranking import is_parallel, map_in_threads, number, rank_all
from bidibeam.strategies.settings import DEFAULT_SYSTEM, TUNED_VBS, StrategySettings, rank_simplicity
from bidibeam.strategies.weights import Features, WeightSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bidibeam.hypotheses import Beams, Hypothesis
    from bidibeam.protocols import Array, Metric
    from bidibeam.similarities.word_vectors import WordVectors

LAMBDAS = tuple(round(0.1 * step, 1) for step in range(21)) + tuple(2.5 + 0.5 * step for step in range(16))
"""0 to 2 by tenths, and on to 10 by halves."""
EXPONENTS = tuple(round(0.1 * step, 1) for step in range(41))
"""0 to 4 by tenths."""
REWARDS = tuple(round(0.1 * step, 1) for step in range(41))
"""0 to 4 by tenths, in natural logarithms a token."""
PENALTIES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60)
"""T of BP_T, in tokens: from hardly a penalty to one that favours the longest."""
CLEARLY = 2.0
"""Standard errors by which the best has to beat the default to be recommended in its place."""
OUTER = 0.1
"""A value this near the upper end of its grid, as a share of the grid, lies at it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The metric along the values of one setting of a system, while the others are held."""

    system: str  # as `TuningResult.options` names it
    setting: str
    held: dict[str, float]
    values: tuple[float, ...]
    scores: tuple[float, ...]
    chosen: float  # of the values
    higher_is_better: bool = True

    @property
    def best(self) -> tuple[float, float]:
        """The value with the best score, the first of equal ones, and that score."""
        index = int(np.argmax(self.scores) if self.higher_is_better else np.argmin(self.scores))
        return self.values[index], self.scores[index]

    @property
    def is_flat(self) -> bool:
        """Whether all values are as good as each other."""
        return len(set(self.scores)) == 1

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


@dataclass(frozen=True, slots=True, eq=False)
class TunedSystem:
    """A system with the best of the settings that were tried."""

    name: str  # as tables have it, "bidia bleu_t tuned"
    key: str  # what its options are known by, "bidia bleu_t"
    options: dict[str, float]
    value: float  # the metric with these options, on the sources that decided them
    cv: float  # the same by cross-validation: on each part of the sources with what the others decided
    choice: Array  # (sources,), the rows of `Outcomes` that cross-validation chose
    curves: tuple[Curve, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """A system beside tuned VBS: cross-validated values, and their 95 % bootstrap intervals."""

    system: str
    value: float
    cv: float
    low: float
    high: float
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    is_usable: bool = True  # whether it may be recommended


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The values that tuning chose, and the metric along every setting."""

    options: dict[str, dict[str, float]]  # by system, without `tuned`
    values: dict[str, float]  # of the metric, by system
    curves: tuple[Curve, ...]
    sources: int  # how many decided
    ranking: tuple[Compared, ...] = ()  # best first
    recommended: str | None = None  # the default, or the simplest that the best does not clearly beat

    @property
    def end_note(self) -> str:
        """Which values lie at the end of their grids, in a sentence; empty if none does."""
        parts = [
            f"{curve.setting.replace('_', ' ')} of {curve.system} ({curve.best[0]:g} of "
            f"{curve.values[0]:g} to {curve.values[-1]:g})"
            for curve in self.curves
            if curve.is_at_end
        ]
        return f"At the end of what was tried, so better may lie beyond: {', '.join(parts)}." if parts else ""

    @property
    def flat_note(self) -> str:
        """Which settings made no difference, in a sentence; empty if all made one."""
        parts = [
            f"{curve.setting.replace('_', ' ')} of {curve.system} ({curve.chosen:g})"
            for curve in self.curves
            if curve.is_flat and len(curve.values) > 1
        ]
        if not parts:
            return ""
        return (
            "The metric is the same on these sources whatever the value, so the default, or what was tried "
            f"nearest to it, is kept: {', '.join(parts)}."
        )

    def over(self, earlier: TuningResult) -> TuningResult:
        """Returns both together; the ranking is that of here, unless the earlier one had other systems."""
        curves = [curve for curve in earlier.curves if curve.system not in self.options]
        ranked = {each.system for each in self.ranking}
        ranking = self if all(each.system in ranked for each in earlier.ranking) else earlier
        return replace(
            self,
            options={**earlier.options, **self.options},
            values={**earlier.values, **self.values},
            curves=(*curves, *self.curves),
            ranking=ranking.ranking,
            recommended=ranking.recommended,
        )


@dataclass(frozen=True)
class Tuner:
    """Tunes systems on the hypotheses of held-out sources.

    Args:
        metric: What is to be high, or low.
        lists: By the directions that a strategy needs, the beams that it chooses from, all of the same
            sources in the same order; what the other direction scored has `other_log_prob`.
        search: How they were searched.
        max_length: T of similarities where it is not tuned; None for the median of what is compared.
        space: Gives word vectors; asked at most once.
        workers: Threads that compare hypotheses.
    """

    metric: Metric
    lists: Mapping[tuple[Direction, ...], Sequence[Beams]]
    search: SearchSettings = field(default_factory=SearchSettings)
    max_length: int | None = None
    space: Callable[[], WordVectors] | None = None
    workers: int = 1

    @cached_property
    def outcomes(self) -> Outcomes:
        """The statistics of all texts in the lists."""
        return Outcomes(self.metric, *self.lists.values())

    def tune(self, name: str) -> TunedSystem:
        """Tunes one system by its name; with nothing to tune, or numbers of its own, it stays as it is."""
        settings = StrategySettings.named(name)
        ways = {"bidis": self._tune_lambda, TUNED_VBS: self._tune_lengths, "loglinear": self._tune_weights}
        if settings.wants_tuned:
            return self._tune_penalty(settings)
        if settings.name in ways and settings.system == settings.untuned:
            return ways[settings.name](settings)
        choice = self._replies(settings)
        value = self.outcomes.measure(choice)
        return TunedSystem(settings.system, settings.untuned, {}, value, value, choice)

    def compare(
        self, names: Iterable[str], *, usable: Callable[[str], bool] = lambda _: True
    ) -> TuningResult:
        """Tunes systems, in any order, ranks them, and recommends one that is usable."""
        tuned = sorted(map(self.tune, names), key=lambda each: rank_simplicity(each.name))
        if not tuned:
            return TuningResult({}, {}, (), 0)
        choices = [each.choice for each in tuned]
        resampled = self.outcomes.resample(choices)  # (systems, samples)
        base = next((place for place, each in enumerate(tuned) if each.name == TUNED_VBS), None)
        ranking = []
        for place in sorted(range(len(tuned)), key=lambda place: -orient(self.metric, tuned[place].cv)):
            low, high = interval(resampled[place])
            beside: tuple[float | None, float | None, float | None] = (None, None, None)
            if base is not None and place != base:
                difference = interval(resampled[place] - resampled[base])
                beside = (tuned[place].cv - tuned[base].cv, *difference)
            ranking.append(
                Compared(
                    tuned[place].name,
                    tuned[place].value,
                    tuned[place].cv,
                    low,
                    high,
                    *beside,
                    is_usable=usable(tuned[place].name),
                )
            )
        is_decided = len({each.cv for each in tuned}) > 1  # one system, or all alike, decide nothing
        return TuningResult(
            {each.key: each.options for each in tuned if each.options},
            {each.name: each.value for each in tuned},
            tuple(curve for each in tuned for curve in each.curves),
            self.outcomes.sources,
            tuple(ranking),
            self._recommend([each for each in tuned if is_decided and usable(each.name)]),
        )

    def _recommend(self, systems: Sequence[TunedSystem]) -> str | None:
        """Returns the default, if it is there, unless the best of `systems` clearly beats it.

        They stand the simplest first. The best of many candidates is often a chance result: it has to be
        ahead by two standard errors. Then it is the simplest that the best does not beat by one, of those
        that are as good as the default.
        """
        if not systems:
            return None
        gains = [orient(self.metric, each.cv) for each in systems]
        best = systems[int(np.argmax(gains))]
        for default, gain in zip(systems, gains, strict=True):
            if default.name == DEFAULT_SYSTEM:
                if self.outcomes.prefer_first([default.choice, best.choice], by_errors=CLEARLY) == 0:
                    return default.name
                systems = [each for each, other in zip(systems, gains, strict=True) if other >= gain]
                systems = [each for each in systems if each is not default]
                break
        return systems[self.outcomes.prefer_first([each.choice for each in systems])].name

    def _beams_of(self, settings: StrategySettings, directions: tuple[Direction, ...]) -> Sequence[Beams]:
        if directions not in self.lists:
            needed = " and ".join(directions)
            raise InputError(f"{settings.system} is tuned on {needed} hypotheses, and there are none.")
        return self.lists[directions]

    def _replies(self, settings: StrategySettings) -> Array:
        """Returns what a strategy chooses, by the strategy itself."""
        strategy = settings.build(max_length=self.max_length, space=self._vectors)
        lines = self._beams_of(settings, strategy.requirements.directions)
        rankings = rank_all(strategy, lines, workers=self.workers, replies_only=True)
        rows = [self.outcomes.row(source, ranking.text) for source, ranking in enumerate(rankings)]
        return np.array(rows, dtype=np.int32)

    @cached_property
    def _vectors(self) -> Callable[[], WordVectors] | None:
        return None if self.space is None else cache(self.space)

    @cached_property
    def _regular(self) -> FlatBeams:
        lines = self._beams_of(StrategySettings("vbs"), (Direction.REGULAR,))
        return FlatBeams(self.outcomes, lines, (Direction.REGULAR,))

    def _tune_lambda(self, settings: StrategySettings) -> TunedSystem:
        own = self._regular.numbers(lambda _, each: number(each, "score"))
        other = self._regular.numbers(lambda _, each: normalise_other(each))
        choices = self._regular.choose(own + np.array(LAMBDAS)[:, np.newaxis] * other)
        return self._tune_line(settings, "lambda_", LAMBDAS, choices, BidiS.lambda_)

    def _tune_penalty(self, settings: StrategySettings) -> TunedSystem:
        choices = []
        for value in PENALTIES:
            options = {**settings.similarity_options, "max_length": value}
            choices.append(self._replies(replace(settings, similarity_options=options, wants_tuned=False)))
        usual = self.max_length or self.search.max_length
        return self._tune_line(settings, "T", PENALTIES, np.stack(choices), usual)

    def _tune_line(
        self,
        settings: StrategySettings,
        setting: str,
        values: Sequence[float],
        choices: Array,
        default: float,
    ) -> TunedSystem:
        """Tunes one setting: the best value, the first of equal ones; the default where all are equal."""
        nearest = values.index(_nearest(values, default))
        pick = partial(_pick, default=nearest)
        sums = self.outcomes.sum_folds(choices)
        gains = self.outcomes.gains_without(sums, None)
        best, choice = pick(gains), self.outcomes.cross_validate(sums, choices, pick)
        scores: list[float] = orient(self.metric, gains).tolist()
        curve = self._curve(settings, setting.rstrip("_"), {}, values, scores, values[best])
        found = {setting: values[best]}
        return TunedSystem(
            settings.system,
            settings.untuned,
            found,
            scores[best],
            self.outcomes.measure(choice),
            choice,
            (curve,),
        )

    def _tune_lengths(self, settings: StrategySettings) -> TunedSystem:
        """Tunes length exponent and word reward together, on their whole grid."""
        log_probs = self._regular.numbers(lambda _, each: number(each, "log_prob"))
        lengths = self._regular.numbers(lambda _, each: float(each.length))
        rewards = np.array(REWARDS)[:, np.newaxis] * lengths  # (rewards, candidates)
        choices = np.concatenate(
            [
                self._regular.choose(log_probs * ((5.0 + lengths) / 6.0) ** -exponent + rewards)
                for exponent in EXPONENTS
            ]
        )
        shape = len(EXPONENTS), len(REWARDS)
        usual = _nearest(EXPONENTS, self.search.length_penalty)
        default = EXPONENTS.index(usual), REWARDS.index(0.0)

        def pick(gains: Array) -> int:
            row, column = choose_cell(gains.reshape(shape), default)
            return row * shape[1] + column

        sums = self.outcomes.sum_folds(choices)
        gains = self.outcomes.gains_without(sums, None)
        row, column = divmod(pick(gains), shape[1])
        choice = self.outcomes.cross_validate(sums, choices, pick)
        grid = orient(self.metric, gains).reshape(shape)
        exponent, reward = {"length_exponent": EXPONENTS[row]}, {"word_reward": REWARDS[column]}
        curve = partial(self._curve, settings)
        curves = (
            curve("length_exponent", reward, EXPONENTS, grid[:, column].tolist(), EXPONENTS[row]),
            curve("word_reward", exponent, REWARDS, grid[row].tolist(), REWARDS[column]),
        )
        value, cv = float(grid[row, column]), self.outcomes.measure(choice)
        return TunedSystem(
            settings.system, settings.untuned, {**exponent, **reward}, value, cv, choice, curves
        )

    def _tune_weights(self, settings: StrategySettings) -> TunedSystem:
        """Tunes the weights of `loglinear`; a rule's stay unless others are better by a standard error."""
        strategy: Any = settings.build(max_length=self.max_length, space=self._vectors)
        lines = self._beams_of(settings, strategy.requirements.directions)
        candidates = FlatBeams(self.outcomes, lines, strategy.directions)
        features = self._features(strategy, lines, candidates)
        search = WeightSearch(candidates, features, exponent=self.search.length_penalty)
        found = [search.find(fold) for fold in range(self.outcomes.folds)]
        searched = search.choose(found)[self.outcomes.fold_of, np.arange(self.outcomes.sources)]
        points, ruled = search.starts, search.choose(search.starts)
        best = self.outcomes.prefer_first([*ruled, searched])
        is_rule = best < len(points)
        point, choice = (points[best], ruled[best]) if is_rule else (search.find(), searched)
        options = {name: value for name, value in point._asdict().items() if name in settings.unset}
        if features.agreement is None:
            options.pop("agreement_weight", None)
        value, cv = (self.outcomes.measure(each) for each in (search.choose([point])[0], choice))
        return TunedSystem(settings.system, settings.untuned, options, value, cv, choice)

    def _features(self, strategy: LogLinear, lines: Sequence[Beams], candidates: FlatBeams) -> Features:
        def log_prob(of: Direction, wrote: Direction, each: Hypothesis) -> float:
            return number(each, "log_prob" if of is wrote else "other_log_prob")

        agreement = None
        if strategy.similarity is not None:
            rankings = map_in_threads(
                strategy.rank_by_agreement, lines, self.workers if is_parallel(strategy) else 1
            )
            agreed: list[float] = []
            for line, ranking in zip(lines, rankings, strict=True):
                known = {(entry.direction, entry.place): entry.score for entry in ranking}
                places = [(way, place) for way in strategy.directions for place in range(len(line.of(way)))]
                agreed += [known[place] for place in places] or [0.0]
            agreement = np.array(agreed)
        regular, reverse = (candidates.numbers(partial(log_prob, direction)) for direction in Direction)
        lengths = candidates.numbers(lambda _, each: float(each.length))
        return Features(regular, reverse, lengths, agreement)

    def _curve(
        self,
        settings: StrategySettings,
        setting: str,
        held: dict[str, float],
        values: Sequence[float],
        scores: Sequence[float],
        chosen: float,
    ) -> Curve:
        higher = self.metric.higher_is_better
        return Curve(settings.untuned, setting, held, tuple(values), tuple(scores), chosen, higher)


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


def _pick(gains: Array, *, default: int) -> int:
    """Returns the first of the highest; the default where all are equal."""
    return default if (gains == gains[0]).all() else int(gains.argmax())


def _nearest(values: Sequence[float], default: float) -> float:
    """Returns the value nearest the default, the first of equally near ones."""
    return min(values, key=lambda value: abs(value - default))
