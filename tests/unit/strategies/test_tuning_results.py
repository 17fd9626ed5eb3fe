"""What tuning makes of its numbers: the ranking, the recommendation, defaults that stay, and notes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.baselines import Vbs
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.tuning import EXPONENTS, LAMBDAS, PENALTIES, Curve, TuningResult, choose_cell
from tests.unit.strategies.lists import beams, hypothesis
from tests.unit.strategies.tunings import BOTH, ErrorRate, planted, realistic, tuner_of


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


def test_the_simplest_is_recommended_in_whatever_order_systems_are_named() -> None:
    names = ["vbs", "bidis", "reverse-vbs", "loglinear both"]
    for seed in range(3):
        tuner = tuner_of(noise(seed, 60), ErrorRate())
        assert tuner.compare(names).recommended == tuner.compare(reversed(names)).recommended
        if seed < 2:
            assert tuner.compare(names).recommended == ("bidis", "vbs")[seed]


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
    assert [each.system for each in others.ranking if not each.is_usable] == ["loglinear"]
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
        "is kept: length exponent of vbs-tuned (0.6), word reward of vbs-tuned (0), lambda of bidis (1), T "
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
