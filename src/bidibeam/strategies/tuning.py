"""Finding lambda, the length settings and T of BP_T: those with the highest corpus BLEU on held-out sources.

Every setting reranks the same hypotheses, so each hypothesis' n-gram matches with its reference are counted
once; after that lambda and the length settings cost one weighted sum and one choice a source, and a T what
`bidia` costs that looks for the reply alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.hypotheses import Direction, NBest
from bidibeam.search.settings import SearchSettings
from bidibeam.similarities.ngrams import count_matches
from bidibeam.similarities.tokens import number_tokens
from bidibeam.strategies.bidis import BidiS, normalised_other
from bidibeam.strategies.choosing import choose_many
from bidibeam.strategies.curves import Curve, Tuned, nearest
from bidibeam.strategies.ranking import number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bidibeam.hypotheses import Beams, Hypothesis
    from bidibeam.protocols import Strategy
    from bidibeam.similarities.spaces import WordVectors
    from bidibeam.strategies.settings import StrategySettings

    Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    Places = np.ndarray[tuple[int], np.dtype[np.int64]]

__all__ = ["EXPONENTS", "LAMBDAS", "PENALTIES", "REWARDS", "Curve", "Tuned", "tune", "tune_penalty"]

ORDER = 4
LAMBDAS = tuple(round(0.1 * step, 1) for step in range(21)) + tuple(2.5 + 0.5 * step for step in range(16))
"""0 to 2 by tenths, and on to 10 by halves."""
EXPONENTS = tuple(round(0.1 * step, 1) for step in range(41))
"""0 to 4 by tenths."""
REWARDS = tuple(round(0.1 * step, 1) for step in range(41))
"""0 to 4 by tenths, in natural logarithms a token."""
PENALTIES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60)
"""T of BP_T, in tokens: from hardly a penalty to one that favours the longest."""


class Candidates:
    """The hypotheses of all sources, with all that a choice among them is judged by.

    Args:
        beams: Regular beams, each with a reference.

    Raises:
        InputError: If there is no source, or one without reference or hypotheses.
    """

    def __init__(self, beams: Iterable[Beams]) -> None:
        numbers: list[list[int]] = []
        starts = [0]
        hypotheses: list[Hypothesis] = []
        reference_words = 0
        for line in beams:
            if line.reference is None:
                raise InputError(
                    f"Source {line.id!r} has no reference, and tuning compares replies with one."
                )
            if not len(line.regular):
                raise InputError(f"Nothing was found for source {line.id!r}; widen the beam.")
            words = split(line.reference)
            reference_words += len(words)
            numbers.extend(_statistics([split(hypothesis.text) for hypothesis in line.regular], words))
            hypotheses.extend(line.regular)
            starts.append(len(hypotheses))
        if not hypotheses:
            raise InputError("There are no sources to tune on.")
        self.sources = len(starts) - 1
        self._reference_words = reference_words
        self._statistics = np.array(numbers, dtype=np.int64)  # (hypotheses, 2 * order + 1)
        self._starts = np.array(starts[:-1])
        self._owners = np.repeat(np.arange(self.sources), np.diff(starts))  # (hypotheses,)
        self._hypotheses = hypotheses
        finished = np.array([hypothesis.finished for hypothesis in hypotheses])
        has_finished = np.logical_or.reduceat(finished, self._starts)  # (sources,)
        self._is_last = ~finished & has_finished[self._owners]  # (hypotheses,), cut off beside finished ones

    @property
    def have_opinions(self) -> bool:
        """Whether the other direction scored them; if it did some only, asking for the others will say so."""
        return any(hypothesis.other_log_prob is not None for hypothesis in self._hypotheses)

    def values(self, value: Callable[[Hypothesis], float]) -> Array:
        """A number for every hypothesis."""
        return np.array([value(hypothesis) for hypothesis in self._hypotheses], dtype=np.float64)

    def bleu(self, scores: Array) -> float:
        """Corpus BLEU of each source's highest score, the first of equal ones, finished before cut off."""
        ranked = np.where(self._is_last, -np.inf, scores)
        highest = np.maximum.reduceat(ranked, self._starts)  # (sources,)
        places = np.flatnonzero(ranked == highest[self._owners])
        _, first = np.unique(self._owners[places], return_index=True)
        return self._corpus_bleu(places[first])

    def bleu_at(self, places: Sequence[int]) -> float:
        """Corpus BLEU of one hypothesis a source, named by its place."""
        return self._corpus_bleu(self._starts + np.array(places))

    def _corpus_bleu(self, chosen: Places) -> float:
        totals = self._statistics[chosen].sum(0)  # (2 * order + 1,)
        score = BLEU.compute_bleu(
            correct=totals[:ORDER].tolist(),
            total=totals[ORDER : 2 * ORDER].tolist(),
            sys_len=int(totals[-1]),
            ref_len=self._reference_words,
            smooth_method="exp",
        )
        return float(score.score)


def tune(
    beams: Iterable[Beams],
    *,
    lambdas: Sequence[float] = LAMBDAS,
    exponents: Sequence[float] = EXPONENTS,
    rewards: Sequence[float] = REWARDS,
    search: SearchSettings | None = None,
) -> Tuned:
    """Choose the settings of `bidis`, if there are the opinions for it, and of `vbs-tuned`.

    Length exponent and word reward are chosen together, on their whole grid. Of equal values the first wins;
    where all are equal, the one nearest the default: lambda 1, the exponent of the search, no word reward.

    Args:
        beams: Regular beams with references; for lambda, scored by both directions.
        lambdas: Values of lambda to try.
        exponents: Length exponents to try.
        rewards: Word rewards to try.
        search: How the beams were searched; by default as a search is.

    Raises:
        InputError: If a reference, a score or all hypotheses of a source are missing.
    """
    candidates = Candidates(beams)
    scores = candidates.values(lambda hypothesis: number(hypothesis, "score"))
    vbs = candidates.bleu(scores)
    tuned = Tuned({}, {"vbs": vbs}, (), candidates.sources)
    if candidates.have_opinions:
        tuned = _with_lambda(tuned, candidates, scores, lambdas)
    default = (search or SearchSettings()).length_penalty
    return _with_lengths(tuned, candidates, exponents, rewards, default=default)


def tune_penalty(
    beams: Iterable[Beams],
    strategies: Mapping[str, StrategySettings],
    *,
    values: Sequence[int] = PENALTIES,
    space: Callable[[], WordVectors] | None = None,
    search: SearchSettings | None = None,
) -> Tuned:
    """Choose T of BP_T for strategies that compare both directions.

    Of equal values the first wins; where all are equal, the one nearest the strategy's own T, or else that of
    the search.

    Args:
        beams: Beams of both directions with references.
        strategies: By the name that the result has, such as "bidia bleu_t"; their similarities have a T.
        values: Values of T to try.
        space: Word vectors for similarities that need some; called at most once.
        search: How the beams were searched; by default as a search is.

    Raises:
        InputError: If there is no source, or one without reference or without hypotheses of a direction.
        SettingsError: If a similarity has no T, or word vectors are needed and there are none.
    """
    lines = [_of_both(line) for line in beams]
    candidates = Candidates(replace(line, regular=NBest((*line.regular, *line.reverse))) for line in lines)
    tuned = Tuned({}, {}, (), candidates.sources)
    vectors = None if space is None else cache(space)
    longest = (search or SearchSettings()).max_length
    for name, strategy in strategies.items():
        bleu = []
        for value in values:
            options = {**strategy.similarity_options, "max_length": value}
            selection = replace(strategy, similarity_options=options).build(space=vectors)
            bleu.append(candidates.bleu_at(_chosen_places(selection, lines)))
        curve = Curve("T", {}, tuple(values), tuple(bleu))
        best, highest = curve.chosen(strategy.similarity_options.get("max_length", longest))
        tuned = tuned.extended(name, {"T": best}, highest, curve)
    return tuned


def _chosen_places(selection: Strategy, lines: Sequence[Beams]) -> list[int]:
    """Where in each source's two beams, the regular one first, the reply stands."""
    return [
        ranking.entries[0].place
        + (len(line.regular) if ranking.entries[0].direction is Direction.REVERSE else 0)
        for ranking, line in zip(choose_many(selection, lines), lines, strict=True)
    ]


def _of_both(line: Beams) -> Beams:
    for direction in Direction:
        if not len(line.of(direction)):
            raise InputError(
                f"Source {line.id!r} has no {direction.value} hypotheses, and T is tuned on those of both "
                "directions; widen the beam."
            )
    return line


def _with_lambda(tuned: Tuned, candidates: Candidates, scores: Array, lambdas: Sequence[float]) -> Tuned:
    others = candidates.values(normalised_other)
    bleu = tuple(candidates.bleu(scores + value * others) for value in lambdas)
    curve = Curve("lambda", {}, tuple(lambdas), bleu)
    value, best = curve.chosen(BidiS.lambda_)
    return tuned.extended("bidis", {"lambda_": value}, best, curve)


def _with_lengths(
    tuned: Tuned,
    candidates: Candidates,
    exponents: Sequence[float],
    rewards: Sequence[float],
    *,
    default: float,
) -> Tuned:
    log_probs = candidates.values(lambda hypothesis: number(hypothesis, "log_prob"))
    lengths = candidates.values(lambda hypothesis: float(hypothesis.length))
    grid = np.array(  # (exponents, rewards)
        [
            [candidates.bleu(normal + reward * lengths) for reward in rewards]
            for normal in (log_probs * ((5.0 + lengths) / 6.0) ** -exponent for exponent in exponents)
        ]
    )
    usual = exponents.index(nearest(exponents, default)), rewards.index(nearest(rewards, 0.0))
    row, column = _best_cell(grid, usual)
    return tuned.extended(
        "vbs-tuned",
        {"length_exponent": exponents[row], "word_reward": rewards[column]},
        float(grid[row, column]),
        _curve("length_exponent", exponents, grid[:, column], word_reward=rewards[column]),
        _curve("word_reward", rewards, grid[row], length_exponent=exponents[row]),
    )


def _best_cell(grid: Array, usual: tuple[int, int]) -> tuple[int, int]:
    """Row and column of the highest value, the first of equal ones; what changes nothing stays as usual."""
    row, column = divmod(int(grid.argmax()), grid.shape[1])
    highest = grid[row, column]
    for _ in range(2):  # on the usual row, the column may turn out to change nothing either
        if (grid[row] == highest).all():
            column = usual[1]
        if (grid[:, column] == highest).all():
            row = usual[0]
    return row, column


def _curve(setting: str, values: Sequence[float], bleu: Array, **held: float) -> Curve:
    return Curve(setting, held, tuple(values), tuple(bleu.tolist()))


def _statistics(hypotheses: Sequence[Sequence[str]], reference: Sequence[str]) -> list[list[int]]:
    """For each hypothesis: clipped matches by order, n-grams by order, words."""
    matches = count_matches(number_tokens(hypotheses, [reference]), ORDER)
    return [
        [
            *matches.numerators[:, index, 0].tolist(),
            *(max(0, len(words) - order) for order in range(ORDER)),
            len(words),
        ]
        for index, words in enumerate(hypotheses)
    ]
