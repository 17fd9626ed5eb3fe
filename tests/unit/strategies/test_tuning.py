"""Tuning reaches what a plain loop over every value reaches: each strategy ranks, and the metric scores."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.metrics import build_metric
from bidibeam.protocols import Strategy
from bidibeam.scores import Signature
from bidibeam.search.settings import SearchSettings
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.overlap import Edit
from bidibeam.similarities.wmd import WmdT
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.baselines import Vbs, VbsTuned
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.loglinear import LogLinear
from bidibeam.strategies.tuning import (
    EXPONENTS,
    LAMBDAS,
    PENALTIES,
    REWARDS,
    Curve,
    Tuner,
    TuningResult,
    choose_cell,
)
from tests.unit.strategies.lists import beams, hypothesis

BLEU: Any = build_metric("bleu", tokenize="words")
REGULAR, REVERSE = Direction
BOTH = (REGULAR, REVERSE)
SPACE = WordVectors(list("abcdefgh"), np.random.default_rng(1).normal(size=(8, 5)), "toy")


@dataclass(frozen=True)
class ErrorRate:
    """How many replies are not the reference: a metric that is to be low."""

    name: str = "ser"
    higher_is_better: bool = False
    signature: ClassVar[Signature] = Signature((("metric", "ser"),))

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Any:
        wrong = [reply not in right for reply, right in zip(replies, references, strict=True)]
        return np.column_stack([wrong, np.ones(len(wrong))]).astype(np.float64)

    def values(self, sums: Any) -> Any:
        return 100 * sums[:, 0] / np.maximum(1, sums[:, 1])


def score(metric: Any, strategy: Strategy, lines: Iterable[Beams]) -> float:
    """The metric of a strategy's replies."""
    lines = list(lines)
    replies = [strategy.rank(line).text for line in lines]
    sums = metric.statistics(replies, [line.references for line in lines]).sum(axis=0, keepdims=True)
    return float(metric.values(sums)[0])


def tuner_of(lines: Sequence[Beams], metric: Any = BLEU, **options: Any) -> Tuner:
    """A tuner on the same lists, whichever directions a strategy needs."""
    lists = {(REGULAR,): lines, (REVERSE,): lines, BOTH: lines}
    return Tuner(metric, lists, space=lambda: SPACE, **options)


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


@pytest.mark.parametrize("metric", [BLEU, ErrorRate()], ids=["bleu", "ser"])
def test_lambda_is_what_a_plain_loop_finds(metric: Any) -> None:
    weights = {"regular_weight": 1.0, "reverse_weight": 2.0}
    found = realistic(0) if metric is BLEU else planted(0, weights, sources=40)
    values = [score(metric, BidiS(value), found) for value in LAMBDAS]
    best = int(np.argmax(values) if metric.higher_is_better else np.argmin(values))

    tuned = tuner_of(found, metric).tune("bidis")

    (curve,) = tuned.curves
    assert (curve.system, curve.setting, curve.values) == ("bidis", "lambda", LAMBDAS)
    assert curve.scores == pytest.approx(values, rel=1e-9)
    assert (tuned.name, tuned.key) == ("bidis", "bidis")
    assert tuned.options == {"lambda_": LAMBDAS[best]}
    assert tuned.value == pytest.approx(values[best])
    assert curve.best[0] == curve.chosen
    assert curve.best[1] == pytest.approx(values[best])


def test_length_settings_are_what_a_plain_loop_finds() -> None:
    found = realistic(1, 25)
    some = [(a, r) for a in EXPONENTS[::8] for r in REWARDS[::8]]

    tuned = tuner_of(found).tune("vbs-tuned")

    exponent, reward = tuned.options["length_exponent"], tuned.options["word_reward"]
    assert tuned.value == pytest.approx(score(BLEU, VbsTuned(exponent, reward), found))
    assert all(tuned.value >= score(BLEU, VbsTuned(*each), found) - 1e-9 for each in some)
    by_exponent, by_reward = tuned.curves
    assert (by_exponent.setting, by_exponent.held) == ("length_exponent", {"word_reward": reward})
    assert by_exponent.scores[::8] == pytest.approx(
        [score(BLEU, VbsTuned(a, reward), found) for a in EXPONENTS[::8]]
    )
    assert (by_reward.setting, by_reward.held) == ("word_reward", {"length_exponent": exponent})
    assert (by_exponent.chosen, by_reward.chosen) == (exponent, reward)  # the plot marks what was chosen


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("bidia bleu_t tuned", lambda length: BidiA(BleuT(max_length=length))),
        ("bidia wmd_t tuned", lambda length: BidiA(WmdT(SPACE, max_length=length))),
        ("bidia bleu_t either mean tuned", lambda length: BidiA(BleuT(max_length=length), "either", "mean")),
    ],
)
def test_a_penalty_is_what_a_plain_loop_finds(name: str, strategy: Any) -> None:
    found = realistic(0)
    values = [score(BLEU, strategy(length), found) for length in PENALTIES]

    tuned = tuner_of(found).tune(name)

    (curve,) = tuned.curves
    assert (tuned.name, tuned.key) == (name, name.removesuffix(" tuned"))
    assert (curve.setting, curve.values) == ("T", PENALTIES)
    assert curve.scores == pytest.approx(values, rel=1e-9)
    assert tuned.options == {"T": PENALTIES[int(np.argmax(values))]}
    assert max(values) > min(values)  # or it would not matter


@pytest.mark.parametrize(
    ("name", "strategy"),
    [("vbs", Vbs()), ("bidia edit", BidiA(Edit())), ("bidia bleu_t", BidiA(BleuT(max_length=6)))],
)
def test_what_has_no_settings_is_measured_as_it_is(name: str, strategy: Strategy) -> None:
    found = realistic(2)

    tuned = tuner_of(found, max_length=6).tune(name)

    assert (tuned.options, tuned.curves) == ({}, ())
    assert tuned.value == tuned.cv == pytest.approx(score(BLEU, strategy, found))


def test_what_is_cross_validated_was_chosen_on_the_other_folds() -> None:
    found = realistic(3, 43)

    tuned = tuner_of(found).tune("bidis")

    replies = []
    for fold in range(5):
        start, end = fold * 43 // 5, (fold + 1) * 43 // 5
        others = [*found[:start], *found[end:]]
        best = LAMBDAS[int(np.argmax([score(BLEU, BidiS(value), others) for value in LAMBDAS]))]
        replies += [BidiS(best).rank(line).text for line in found[start:end]]
    sums = BLEU.statistics(replies, [line.references for line in found]).sum(axis=0, keepdims=True)
    assert tuned.cv == pytest.approx(float(BLEU.values(sums)[0]))
    assert tuned.cv < tuned.value  # what was chosen on all looks better than it is


def planted(seed: int, weights: dict[str, float], sources: int = 300, width: int = 12) -> list[Beams]:
    """Sources whose right answer is what a log-linear choice with these weights would take."""
    chooser = random.Random(seed)
    strategy = LogLinear(**weights, length_exponent=0.0)  # type: ignore[arg-type]
    lines = []
    for number in range(sources):
        found = []
        for place in range(width):
            length = chooser.randint(2, 9)
            own, other = (-chooser.uniform(0, 4) - 0.5 * length for _ in range(2))
            score = own * ((5 + length) / 6) ** -0.6
            tokens = tuple(f"w{place}" for _ in range(length - 1))
            found.append(Hypothesis(" ".join(tokens), tokens, own, length, score, other_log_prob=other))
        line = Beams(str(number), "hi", (), NBest(tuple(found)), NBest(tuple(found)))
        lines.append(replace(line, references=(strategy.rank(line).text,)))
    return lines


@pytest.mark.parametrize("weights", [(1.0, 0.4, 0.3), (1.0, 3.0, 1.0), (1.0, 0.0, -0.3)])
def test_weights_that_were_planted_are_recovered(weights: tuple[float, ...]) -> None:
    named = dict(zip(("regular_weight", "reverse_weight", "length_weight"), weights, strict=True))

    tuned = tuner_of(planted(0, named), ErrorRate()).tune("loglinear")

    scale = tuned.options["regular_weight"]
    assert tuned.value < 12
    assert tuned.cv < 15  # and on sources that did not decide it
    assert tuned.options["reverse_weight"] / scale == pytest.approx(weights[1], rel=0.35, abs=0.1)
    fresh = planted(1, named)
    options: dict[str, Any] = dict(tuned.options)
    assert score(ErrorRate(), LogLinear(**options), fresh) < 15
    assert score(ErrorRate(), Vbs(), fresh) > 20


def noise(seed: int, sources: int = 200) -> list[Beams]:
    """Sources of which nothing that is known of a hypothesis tells whether it is right."""
    chooser = random.Random(seed)

    def one(place: int) -> Hypothesis:
        length = chooser.randint(2, 9)
        own, other = (-chooser.uniform(1, 9) for _ in range(2))
        tokens = (f"w{place}",) * (length - 1)
        score = own * ((5 + length) / 6) ** -0.6
        return Hypothesis(" ".join(tokens), tokens, own, length, score, other_log_prob=other)

    lines = []
    for number in range(sources):
        regular, reverse = (NBest(tuple(one(place) for place in range(10))) for _ in BOTH)
        right = chooser.choice([*regular, *reverse]).text
        lines.append(Beams(str(number), "hi", (right,), regular, reverse))
    return lines


def test_noise_is_not_recommended() -> None:
    names = ["vbs", "vbs-tuned", "bidis", "loglinear", "loglinear edit both"]
    kept, gains, recommended = 0, [], []
    for seed in range(8):
        tuner = tuner_of(noise(seed), ErrorRate())
        found = {name: tuner.tune(name) for name in names}
        gains.append(found["vbs"].value - found["loglinear edit both"].value)
        kept += found["loglinear edit both"].options["length_weight"] == 0
        recommended.append(tuner.compare(names).recommended)

    # A search that believed its own sources would gain on every one of them.
    assert kept == 8
    assert sum(each in ("vbs", "vbs-tuned", "bidis") for each in recommended) >= 7


def test_nothing_simpler_that_is_as_good_is_passed_over() -> None:
    names = ["vbs", "vbs-tuned", "bidis", "reverse-vbs", "bidia edit", "bidia token_f1", "loglinear both"]
    for seed in range(20):
        result = tuner_of(noise(seed, 60), ErrorRate()).compare(names)
        if result.recommended is None:
            continue
        values = {each.system: each.cv for each in result.ranking}
        before = names[: names.index(result.recommended)]
        assert all(values[name] > values[result.recommended] for name in before)  # an error rate


def test_numbers_in_a_name_stay_as_they_are() -> None:
    tuner = tuner_of(
        planted(0, {"regular_weight": 1.0, "reverse_weight": 3.0, "length_weight": 1.0}), ErrorRate()
    )

    plain = tuner.tune("loglinear reverse_weight=0")

    assert (plain.name, plain.options) == ("loglinear reverse_weight=0", {})
    assert plain.value == tuner.tune("vbs").value
    result = tuner.compare(["vbs", "loglinear reverse_weight=0", "loglinear"])
    assert set(result.options) == {"loglinear"}
    assert "reverse_weight" in result.options["loglinear"]


def test_systems_are_ranked_with_intervals_and_the_simplest_of_the_best_is_recommended() -> None:
    weights = {"regular_weight": 1.0, "reverse_weight": 3.0, "length_weight": 1.0}
    tuner = tuner_of(planted(0, weights), ErrorRate())

    result = tuner.compare(["vbs", "vbs-tuned", "bidis", "loglinear", "loglinear both"])

    values = [each.cv for each in result.ranking]
    assert values == sorted(values)  # an error rate
    assert result.recommended == "loglinear"  # the same texts are in both beams, so both is no better
    by_name = {each.system: each for each in result.ranking}
    for each in result.ranking:
        assert each.low <= each.cv <= each.high
        if each.system != "vbs-tuned":
            assert each.difference is not None
            assert each.difference == pytest.approx(each.cv - by_name["vbs-tuned"].cv)
            assert each.difference_low is not None
            assert each.difference_high is not None
            assert each.difference_low <= each.difference <= each.difference_high
    assert by_name["vbs-tuned"].difference is None
    assert (by_name["loglinear"].difference_high or 0) < 0
    assert set(result.options) == {"vbs-tuned", "bidis", "loglinear", "loglinear both"}
    assert tuner.compare(["vbs", "vbs-tuned", "bidis", "loglinear", "loglinear both"]) == result
    others = tuner.compare(["vbs", "bidis", "loglinear"], usable=lambda name: name != "loglinear")
    assert others.recommended == "bidis"
    assert others.ranking[0].difference is None  # there is no baseline
    assert tuner.compare([]) == TuningResult({}, {}, (), 0)


def test_the_default_stays_unless_the_best_beats_it_by_two_standard_errors() -> None:
    names = ["vbs", "bidis lambda=1"]
    lines = planted(0, {})
    vbs, default = ([strategy.rank(line).text for line in lines] for strategy in (Vbs(), BidiS(1.0)))
    differing = [place for place in range(len(lines)) if vbs[place] != default[place]]
    error = len(differing) ** 0.5  # of the difference in right replies, nearly

    def compare(errors_ahead: float) -> TuningResult:
        """As if vbs were right so many standard errors more often than the default."""
        won = round((len(differing) + errors_ahead * error) / 2)
        right = {**dict(enumerate(default)), **{place: vbs[place] for place in differing[:won]}}
        known = [replace(line, references=(right[place],)) for place, line in enumerate(lines)]
        return tuner_of(known, ErrorRate()).compare(names)

    for ahead, recommended in ((-1.0, "bidis lambda=1"), (1.5, "bidis lambda=1"), (3.0, "vbs")):
        found = compare(ahead)
        values = {each.system: each.cv for each in found.ranking}
        assert (values["vbs"] < values["bidis lambda=1"]) == (ahead > 0)  # an error rate
        assert found.recommended == recommended


def test_what_makes_no_difference_stays_as_near_its_default_as_was_tried() -> None:
    only = beams(hypothesis("a b c d", other=-1.0), reverse=["a b c d"], reference="a b c d")
    names = ["vbs", "bidis", "vbs-tuned", "bidia bleu_t tuned", "loglinear"]

    found = tuner_of([only]).compare(names)
    searched = tuner_of([only], search=SearchSettings(length_penalty=1.3, max_length=34)).compare(names)
    known = tuner_of([only], max_length=4).compare(names)

    assert found.options["bidis"] == {"lambda_": 1.0}
    assert found.options["vbs-tuned"] == {"length_exponent": 0.6, "word_reward": 0.0}
    assert found.options["bidia bleu_t"] == {"T": 20}
    assert found.options["loglinear"]["reverse_weight"] == 1.0  # as BidiS has it
    assert (searched.options["vbs-tuned"]["length_exponent"], searched.options["bidia bleu_t"]["T"]) == (
        1.3,
        30,
    )
    assert known.options["bidia bleu_t"] == {"T": 4}
    assert found.flat_note.endswith(
        "is kept: lambda of bidis (1), length exponent of vbs-tuned (0.6), word reward of vbs-tuned (0), T "
        "of bidia bleu_t (20)."
    )
    assert found.recommended is None


@given(st.lists(st.lists(st.sampled_from([1.0, 2.0]), min_size=3, max_size=3), min_size=3, max_size=3))
def test_of_two_settings_the_one_that_makes_no_difference_beside_the_other_is_the_default(
    values: list[list[float]],
) -> None:
    grid = np.array(values)

    row, column = choose_cell(grid, (1, 2))

    assert grid[row, column] == grid.max()
    assert column == 2 or len(set(grid[row])) > 1
    assert row == 1 or len(set(grid[:, column])) > 1


def test_vectors_are_asked_for_once_and_only_by_those_who_use_them() -> None:
    asked = []

    def space() -> WordVectors:
        asked.append(1)
        return SPACE

    lines = realistic(0, 3)
    tuner = Tuner(BLEU, {BOTH: lines}, space=space)
    tuner.tune("bidia bleu_t tuned")
    assert asked == []
    tuner.tune("bidia wmd_t tuned")
    tuner.tune("bidia wmd_t either tuned")
    assert asked == [1]
    with pytest.raises(SettingsError, match="needs word vectors"):
        Tuner(BLEU, {BOTH: lines}).tune("bidia wmd_t tuned")
    with pytest.raises(InputError, match="vbs is tuned on regular hypotheses, and there are none"):
        tuner.tune("bidis")


def test_a_source_without_hypotheses_has_an_empty_reply() -> None:
    found = [*realistic(0, 10), beams(name="none", reference="a b c")]

    for name in ("vbs", "bidis", "vbs-tuned", "bidia edit", "loglinear edit both"):
        tuned = tuner_of(found).tune(name)
        assert tuned.choice.shape == (11,)
        assert tuned.value > 0


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
@pytest.mark.parametrize("higher", [True, False])
def test_the_end_of_a_grid_is_its_first_value_but_0_and_its_last_tenth(
    values: tuple[float, ...], best: float, is_at_end: bool, higher: bool
) -> None:
    scores = tuple(float((value == best) == higher) for value in values)
    curve = Curve("x", "y", {}, values, scores, best, higher)

    assert curve.best == (best, float(higher))
    assert curve.is_at_end == is_at_end
    assert not Curve("x", "y", {}, values, (0.0,) * len(values), best).is_at_end  # nothing was decided
    assert Curve("x", "y", {}, (3.0, 1.0, 2.0), (5.0, 7.0, 7.0), 1.0).best == (
        1.0,
        7.0,
    )  # the first of equals


def test_values_at_the_end_are_told_in_one_sentence() -> None:
    curves = (
        Curve("bidis", "lambda", {}, (0, 10), (1, 2), 10),
        Curve("vbs-tuned", "length_exponent", {"word_reward": 0.0}, (0.0, 1.0, 4.0), (1.0, 3.0, 2.0), 1.0),
        Curve("vbs-tuned", "word_reward", {"length_exponent": 1.0}, (0.0, 4.0), (1.0, 3.0), 4.0),
    )

    assert TuningResult({}, {}, curves, 9).end_note == (
        "At the end of what was tried, so better may lie beyond: lambda of bidis (10 of 0 to 10), word "
        "reward of vbs-tuned (4 of 0 to 4)."
    )
    assert TuningResult({}, {}, (), 9).end_note == ""


def lacking(field: str) -> Hypothesis:
    without: dict[str, Any] = {field: None}
    return hypothesis("b", other=-1.0)._replace(**without)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([beams("a", reference="a"), beams("b", name="s2")], "Source 's2' has no reference, and tuning "),
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
        tuner_of(found).compare(["vbs-tuned", "bidis"])
    assert str(caught.value).startswith(message)


def test_a_metric_of_whole_corpora_is_refused() -> None:
    class Corpus:
        name, higher_is_better = "distinct-1", True

        score = staticmethod(lambda *_: 0.0)

    with pytest.raises(SettingsError, match="The metric distinct-1 is known only for all replies together"):
        tuner_of(realistic(0, 3), Corpus()).tune("vbs")


def test_the_length_ratio_is_refused_as_the_longest_would_win() -> None:
    with pytest.raises(SettingsError) as caught:
        tuner_of(realistic(0, 3), build_metric("length_ratio")).tune("vbs")

    assert str(caught.value) == (
        "The metric length_ratio is best near 1, and tuning looks for the highest or the lowest: choose "
        "another `metric`, such as bleu."
    )


def test_what_is_found_goes_over_what_was_found_before() -> None:
    tuner = tuner_of(realistic(0))
    first, second = (
        tuner.compare(["vbs", "bidis", "vbs-tuned"]),
        tuner.compare(["bidis", "bidia bleu_t tuned"]),
    )

    both = second.over(first)

    assert set(both.options) == {"bidis", "vbs-tuned", "bidia bleu_t"}
    assert set(both.values) == {"vbs", "bidis", "vbs-tuned", "bidia bleu_t tuned"}
    assert [curve.system for curve in both.curves] == ["vbs-tuned", "vbs-tuned", "bidis", "bidia bleu_t"]
    assert (both.ranking, both.recommended) == (first.ranking, first.recommended)
    again = first.over(second.over(first))
    assert (again.ranking, again.recommended) == (first.ranking, first.recommended)
