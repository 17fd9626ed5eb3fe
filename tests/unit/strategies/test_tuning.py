"""Tuning reaches what a plain loop over every value reaches: each strategy ranks, and the metric scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams, Hypothesis
from bidibeam.metrics import build_metric
from bidibeam.protocols import Strategy
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.overlap import Edit
from bidibeam.similarities.wmd import WmdT
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.baselines import Vbs, VbsTuned
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.loglinear import LogLinear
from bidibeam.strategies.tuning import EXPONENTS, LAMBDAS, PENALTIES, REWARDS, Tuner
from tests.unit.strategies.lists import beams, hypothesis
from tests.unit.strategies.tunings import BLEU, BOTH, SPACE, ErrorRate, planted, realistic, score, tuner_of


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
