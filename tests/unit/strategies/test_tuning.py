"""Tuning reaches what a plain loop over every value reaches: each strategy ranks, and the metric scores."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.metrics.bleu import Bleu
from bidibeam.metrics.corpora import score
from bidibeam.protocols import Strategy
from bidibeam.search.settings import SearchSettings
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.wmd import WmdT
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.baselines import Vbs, VbsTuned
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.settings import StrategySettings
from bidibeam.strategies.tuning import (
    EXPONENTS,
    LAMBDAS,
    PENALTIES,
    Curve,
    TuningResult,
    choose_cell,
    tune,
    tune_penalty,
)
from tests.unit.strategies.lists import beams, hypothesis, random_beams

some_beams = st.lists(random_beams(smallest=1), min_size=1, max_size=6)


def bleu(strategy: Strategy, found: Iterable[Beams]) -> float:
    """Corpus BLEU of a strategy's replies, by the metric itself."""
    lines = list(found)
    metric = Bleu("words")
    replies = [strategy.rank(line).text for line in lines]
    return score(metric, metric.statistics(replies, [line.references for line in lines]))


def realistic(seed: int, sources: int = 40) -> list[Beams]:
    """Sources whose longer hypotheses share more with the reference and are less likely."""
    chooser = random.Random(seed)
    words = list("abcdefgh")

    def one(reference: Sequence[str]) -> Hypothesis:
        tokens = [
            chooser.choice(words) if chooser.random() < 0.5 else reference[place % len(reference)]
            for place in range(chooser.randint(1, 9))
        ]
        length = len(tokens) + 1
        log_prob = -length * chooser.uniform(0.5, 2.0)
        score = log_prob / ((5 + length) / 6) ** 0.6
        other = -length * chooser.uniform(0.2, 3.0)
        return Hypothesis(
            " ".join(tokens), tuple(tokens), log_prob, length, score, chooser.random() < 0.8, other
        )

    lines = []
    for number in range(sources):
        reference = [chooser.choice(words) for _ in range(chooser.randint(3, 9))]
        regular, reverse = (
            NBest(tuple(one(reference) for _ in range(chooser.randint(1, 8)))) for _ in range(2)
        )
        lines.append(Beams(str(number), "hi", (" ".join(reference),), regular, reverse))
    return lines


@given(
    some_beams,
    st.sampled_from([0.0, 0.1, 1.0, 2.5]),
    st.sampled_from([0.0, 0.6, 2.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_bleu_is_that_of_the_strategies_with_the_same_settings(
    found: list[Beams], weight: float, exponent: float, reward: float
) -> None:
    tuned = tune(found, lambdas=[weight], exponents=[exponent], rewards=[reward])

    strategies: dict[str, Strategy] = {
        "vbs": Vbs(),
        "bidis": BidiS(weight),
        "vbs-tuned": VbsTuned(exponent, reward),
    }
    expected = {name: bleu(strategy, found) for name, strategy in strategies.items()}
    assert tuned.bleu == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert tuned.sources == len(found)


@pytest.mark.parametrize("seed", range(2))
def test_lambda_is_what_a_plain_loop_finds(seed: int) -> None:
    found = realistic(seed)
    values = [bleu(BidiS(value), found) for value in LAMBDAS]

    tuned = tune(found, exponents=[0.0], rewards=[0.0])

    curve = tuned.curves[0]
    assert curve.setting == "lambda"
    assert curve.values == LAMBDAS
    assert curve.bleu == pytest.approx(values, rel=1e-9)
    assert tuned.options["bidis"] == {"lambda_": LAMBDAS[int(np.argmax(values))]}
    assert tuned.bleu["bidis"] == pytest.approx(max(values))
    assert tuned.bleu["bidis"] >= tuned.bleu["vbs"] > 0


@pytest.mark.parametrize("seed", range(2))
def test_length_settings_are_what_a_plain_loop_finds(seed: int) -> None:
    found = realistic(seed)
    exponents, rewards = (0.0, 0.6, 1.3, 2.0), (0.0, 0.3, 0.9, 1.5, 3.0)
    values = {(a, r): bleu(VbsTuned(a, r), found) for a in exponents for r in rewards}
    exponent, reward = max(values, key=values.__getitem__)

    tuned = tune(found, lambdas=[0.0], exponents=exponents, rewards=rewards)

    assert tuned.options["vbs-tuned"] == {"length_exponent": exponent, "word_reward": reward}
    assert tuned.bleu["vbs-tuned"] == pytest.approx(values[exponent, reward])
    by_exponent, by_reward = tuned.curves[1:]
    assert (by_exponent.setting, by_exponent.held) == ("length_exponent", {"word_reward": reward})
    assert by_exponent.bleu == pytest.approx([values[a, reward] for a in exponents])
    assert (by_reward.setting, by_reward.held) == ("word_reward", {"length_exponent": exponent})
    assert by_reward.bleu == pytest.approx([values[exponent, r] for r in rewards])
    assert (by_exponent.best[0], by_reward.best[0]) == (exponent, reward)  # the plot marks what was chosen


def test_what_makes_no_difference_stays_as_near_its_default_as_was_tried() -> None:
    only = beams(hypothesis("a b c d", other=-1.0), reference="a b c d")

    some = tune([only], lambdas=[0.0, 0.7], exponents=[0.0, 1.0], rewards=[0.5, 0.0])
    all_of_them = tune([only])
    searched = tune([only], search=SearchSettings(length_penalty=1.3, max_length=9))

    assert some.options == {
        "bidis": {"lambda_": 0.7},
        "vbs-tuned": {"length_exponent": 1.0, "word_reward": 0.0},
    }
    assert some.bleu == pytest.approx({"vbs": 100.0, "vbs-tuned": 100.0, "bidis": 100.0})
    assert all_of_them.options == {
        "bidis": {"lambda_": 1.0},
        "vbs-tuned": {"length_exponent": 0.6, "word_reward": 0.0},
    }
    assert searched.options["vbs-tuned"]["length_exponent"] == 1.3
    assert [value for _, _, value in all_of_them.named_curves] == [1.0, 0.6, 0.0]
    assert all_of_them.flat_note.endswith(
        "is kept: lambda of bidis (1), length exponent of vbs-tuned (0.6), word reward of vbs-tuned (0)."
    )
    assert tune([only], lambdas=[0.3], exponents=[0.0], rewards=[0.0]).flat_note == ""  # nothing to choose


@given(st.lists(st.lists(st.sampled_from([1.0, 2.0]), min_size=3, max_size=3), min_size=3, max_size=3))
def test_of_two_settings_the_one_that_makes_no_difference_beside_the_other_is_the_default(
    values: list[list[float]],
) -> None:
    grid = np.array(values)

    row, column = choose_cell(grid, (1, 2))

    assert grid[row, column] == grid.max()
    assert column == 2 or len(set(grid[row])) > 1
    assert row == 1 or len(set(grid[:, column])) > 1


SPACE = WordVectors(list("abcdefgh"), np.random.default_rng(1).normal(size=(8, 5)), "toy")
BLEU_T, WMD_T = StrategySettings(), StrategySettings(similarity="wmd_t")
EITHER = StrategySettings(options={"answer": "either", "agreement": "mean"})


@pytest.mark.parametrize("seed", range(2))
def test_a_penalty_is_what_a_plain_loop_finds(seed: int) -> None:
    found = realistic(seed)
    strategies = {"bidia bleu_t": BLEU_T, "bidia wmd_t": WMD_T, "bidia bleu_t either mean": EITHER}

    tuned = tune_penalty(found, strategies, space=lambda: SPACE)

    slowly = [
        [bleu(BidiA(BleuT(max_length=length)), found) for length in PENALTIES],
        [bleu(BidiA(WmdT(SPACE, max_length=length)), found) for length in PENALTIES],
        [bleu(BidiA(BleuT(max_length=length), "either", "mean"), found) for length in PENALTIES],
    ]
    for name, curve, values in zip(strategies, tuned.curves, slowly, strict=True):
        assert (curve.setting, curve.held, curve.values) == ("T", {}, PENALTIES)
        assert curve.bleu == pytest.approx(values, rel=1e-9)
        assert tuned.options[name] == {"T": PENALTIES[int(np.argmax(values))]}
        assert tuned.bleu[name] == pytest.approx(max(values))
        assert max(values) > min(values)  # or it would not matter
    assert tuned.sources == len(found)


def test_a_penalty_that_makes_no_difference_is_that_of_the_strategy_or_of_the_search() -> None:
    only = beams("a b c d", reverse=["a b c d"], reference="a b c d")
    own = replace(BLEU_T, similarity_options={"order": 2, "max_length": 4})

    tuned = tune_penalty([only], {"x": BLEU_T, "y": own})
    searched = tune_penalty([only], {"x": BLEU_T}, search=SearchSettings(max_length=34))

    assert tuned.options == {"x": {"T": 20}, "y": {"T": 4}}
    assert searched.options == {"x": {"T": 30}}
    assert searched.flat_note.endswith("is kept: T of x (30).")
    with pytest.raises(SettingsError, match="order must be"):
        tune_penalty([only], {"x": replace(BLEU_T, similarity_options={"order": 0})})


def test_vectors_are_asked_for_once_and_only_by_those_who_use_them() -> None:
    asked = []

    def space() -> WordVectors:
        asked.append(1)
        return SPACE

    tune_penalty(realistic(0, 3), {"bleu": BLEU_T}, space=space)
    assert asked == []
    tune_penalty(realistic(0, 3), {"wmd": WMD_T, "either": replace(EITHER, similarity="wmd_t")}, space=space)
    assert asked == [1]
    with pytest.raises(SettingsError, match="needs word vectors"):
        tune_penalty(realistic(0, 3), {"wmd": WMD_T})
    with pytest.raises(SettingsError, match="The similarity edit has no option max_length"):
        tune_penalty(realistic(0, 3), {"x": replace(BLEU_T, similarity="edit")})


def test_both_directions_are_needed_of_every_source() -> None:
    whole = beams("a", reverse=["b"], reference="a")
    for line, direction in (
        (beams("a", reference="a", name="s2"), "reverse"),
        (beams(reverse=["a"], reference="a", name="s2"), "regular"),
    ):
        with pytest.raises(InputError) as caught:
            tune_penalty([whole, line], {"x": BLEU_T})
        assert f"Source 's2' has no {direction} hypotheses, and T is tuned on" in str(caught.value)
    with pytest.raises(InputError, match="There are no sources to tune on"):
        tune_penalty([], {"x": BLEU_T})


@pytest.mark.parametrize(
    ("values", "best", "is_at_end"),
    [
        (LAMBDAS, 0.0, False),  # 0 is no opinion at all: nothing lies beyond
        (LAMBDAS, 8.5, False),
        (LAMBDAS, 9.0, True),
        (LAMBDAS, 10.0, True),
        (PENALTIES, 2, True),
        (PENALTIES, 3, False),
        (PENALTIES, 40, False),
        (PENALTIES, 60, True),
        (EXPONENTS, 3.5, False),
        (EXPONENTS, 3.6, True),
    ],
)
def test_the_end_of_a_grid_is_its_first_value_but_0_and_its_last_tenth(
    values: tuple[float, ...], best: float, is_at_end: bool
) -> None:
    curve = Curve("x", {}, values, tuple(float(value == best) for value in values))

    assert curve.best == curve.choose(0.5) == (best, 1.0)
    assert curve.is_at_end == is_at_end
    assert not Curve("x", {}, values, (0.0,) * len(values)).is_at_end  # nothing was decided
    assert Curve("x", {}, (3.0, 1.0, 2.0), (5.0, 7.0, 7.0)).best == (1.0, 7.0)  # the first of equal ones


def test_values_at_the_end_are_told_in_one_sentence() -> None:
    tuned = TuningResult({}, {}, (), 9).add(
        "bidis", {"lambda_": 10.0}, 2.0, Curve("lambda", {}, (0, 10), (1, 2))
    )
    inner = Curve("length_exponent", {"word_reward": 0.0}, (0.0, 1.0, 4.0), (1.0, 3.0, 2.0))
    reward = Curve("word_reward", {"length_exponent": 1.0}, (0.0, 4.0), (1.0, 3.0))
    tuned = tuned.add("vbs-tuned", {"length_exponent": 1.0, "word_reward": 4.0}, 3.0, inner, reward)

    assert tuned.end_note == (
        "At the end of what was tried, so better may lie beyond: lambda of bidis (10 of 0 to 10), word "
        "reward of vbs-tuned (4 of 0 to 4)."
    )
    assert tuned.without(["bidis", "vbs-tuned"]).end_note == ""


def lacking(field: str) -> Hypothesis:
    without: dict[str, Any] = {field: None}
    return hypothesis("b", other=-1.0)._replace(**without)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([beams("a", reference="a"), beams("b", name="s2")], "Source 's2' has no reference, and tuning "),
        ([beams(name="s1", reference="a")], "Nothing was found for source 's1'; widen the beam."),
        ([], "There are no sources to tune on."),
        *(
            (
                [beams(hypothesis("a", other=-1.0), lacking(field), reference="a")],
                f"The hypothesis 'b' has no \"{field}\"; ",
            )
            for field in ("score", "log_prob", "other_log_prob")
        ),
    ],
)
def test_what_is_missing_is_named(found: list[Beams], message: str) -> None:
    with pytest.raises(InputError) as caught:
        tune(iter(found))
    assert str(caught.value).startswith(message)


def test_results_are_merged() -> None:
    found = realistic(0)
    lengths, penalty = tune(found), tune_penalty(found[:-1], {"bidia bleu_t": BLEU_T})

    merged = lengths.merge(penalty)

    assert list(merged.options) == ["bidis", "vbs-tuned", "bidia bleu_t"]
    assert merged.options["bidia bleu_t"] == penalty.options["bidia bleu_t"]
    assert list(merged.bleu) == ["vbs", "bidis", "vbs-tuned", "bidia bleu_t"]
    assert merged.curves == (*lengths.curves, *penalty.curves)
    assert merged.sources == len(found)
