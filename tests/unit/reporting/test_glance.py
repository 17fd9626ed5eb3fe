"""The glance: what won, by how much and how sure, for every kind of results and every outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bidibeam.reporting.glance import make_glance
from bidibeam.reporting.results import Results
from tests.unit.reporting.made_results import made_analyses

Scores = Mapping[str, float]
Tests = Mapping[tuple[str, str], float]
"""The p of pairs of a system and a baseline."""


def seed(scores: Scores, tests: Tests | None = None, **more: Any) -> dict[str, Any]:
    """What an experiment writes of a seed, at N_B = 50."""
    return {
        "systems": {name: {"50": {"scores": {"bleu": {"value": value}}}} for name, value in scores.items()},
        "tests": [
            {
                "system": system,
                "baseline": other,
                "beam_size": 50,
                "metric": "bleu",
                "difference": scores[system] - scores[other],
                "low": scores[system] - scores[other] - 0.5,
                "high": scores[system] - scores[other] + 1,
                "approximate_randomisation": p,
            }
            for (system, other), p in (tests or {}).items()
        ],
        **more,
    }


def glance_at(*seeds: dict[str, Any], **content: Any) -> dict[str, str]:
    return dict(make_glance(Results.of({"seeds": [*seeds], **content})).answers)


SCORES = {"vbs": 2.0, "vbs-tuned": 3.0, "bidis": 4.0, "oracle": 9.0, "bidis control": 5.0}
TIMES = " times the 3 systems it was picked from"
OVER_TUNED, OVER_VBS = ("bidis", "vbs-tuned"), ("bidis", "vbs")


def test_the_best_stands_beside_tuned_vbs_and_vbs_with_intervals_p_and_sources() -> None:
    """Neither the oracle, which knows the reference, nor a control wins."""
    answers = glance_at(seed(SCORES, {OVER_TUNED: 0.0001, OVER_VBS: 0.9}), sources=1234)

    assert answers == {
        "What won": "bidis, with 4.00 BLEU at N_B = 50: best of 3 systems on the test set.",
        "By how much": "+1.00 BLEU (95 % interval +0.50 to +2.00) over vbs-tuned; "
        "+2.00 BLEU (95 % interval +1.50 to +3.00) over vbs.",
        "How sure": "Sure: p < 0.001, times the 3 systems it was picked from still below 0.05, "
        "on 1,234 sources, with one seed.",
        "Over its control": "-1.00 BLEU. Not known: the difference was not tested.",
    }


@pytest.mark.parametrize(
    ("p_values", "told"),
    [
        ([0.2], "Not sure: p = 0.200, so it may be chance, with one seed."),
        ([0.02], f"Not sure: p = 0.020,{TIMES} 0.06, so it may be chance, with one seed."),
        ([0.01, 0.016], f"Sure: p ≤ 0.016 with each of 2 seeds,{TIMES} still below 0.05."),
        ([0.01, 0.02, 0.001], f"Not sure: p{TIMES} < 0.05 with 2 of 3 seeds."),
        ([0.3, 0.02], f"Not sure: p{TIMES} < 0.05 with none of 2 seeds."),
        ([], "Not known: the difference was not tested, with one seed."),
    ],
)
def test_how_sure_it_is_is_said_plainly(p_values: Sequence[float], told: str) -> None:
    seeds = [seed(SCORES, {OVER_TUNED: p}) for p in p_values] or [seed(SCORES)]

    assert glance_at(*seeds)["How sure"] == told


def test_of_one_training_another_may_differ() -> None:
    """A model that was given to the experiment was not trained by it."""
    one, trained = seed(SCORES, {OVER_TUNED: 0.001}), {"training": {"epochs": 3}}

    assert glance_at(one, settings=trained)["How sure"].endswith(
        ", with one seed; another training may differ."
    )
    assert glance_at(one, settings={"model": {}})["How sure"].endswith(", with one seed.")
    assert "another" not in glance_at(one, one, settings=trained)["How sure"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (3.9, None),
        (4.001, "“yes.” has 4.00 BLEU, as good as what won."),
        (5.0, "“yes.” has 5.00 BLEU, better than what won."),
    ],
)
def test_a_constant_reply_that_is_as_good_as_what_won_is_told(value: float, told: str | None) -> None:
    constant = {"metric": "bleu", "chosen": {"reply": "yes.", "bleu": value}}

    assert glance_at(seed(SCORES), constant=constant).get("One reply to every source") == told
    by_another = {"metric": "chrf", "chosen": {"reply": "yes.", "chrf": 99.0}}
    assert "One reply to every source" not in glance_at(seed(SCORES), constant=by_another)


def test_a_constant_reply_is_better_where_it_is_lower_if_lower_is_better() -> None:
    worse, better = ({"metric": "bleu", "chosen": {"reply": "yes.", "bleu": value}} for value in (2.5, 1.0))

    answers = [glance_at(seed(SCORES), constant=one, lower_is_better=["bleu"]) for one in (worse, better)]
    assert "One reply to every source" not in answers[0]
    assert answers[1]["One reply to every source"] == "“yes.” has 1.00 BLEU, better than what won."


def test_of_several_seeds_the_least_and_the_greatest_gain_are_told() -> None:
    answers = glance_at(*(seed({**SCORES, "bidis": value}) for value in (2.5, 4.0, 7.0)))

    assert answers["What won"].startswith("bidis, with 4.50 BLEU at N_B = 50, mean of 3 seeds: best of 3")
    assert answers["By how much"].startswith(
        "+1.50 BLEU (by seed -0.50 to +4.00) over vbs-tuned; +2.50 BLEU ("
    )


def test_a_significant_loss_of_one_seed_does_not_count_as_a_gain() -> None:
    worse = seed({**SCORES, "bidis": 2.9}, {OVER_TUNED: 0.01})
    better = seed({**SCORES, "bidis": 9.0}, {OVER_TUNED: 0.01})

    assert glance_at(worse, better)["How sure"] == f"Not sure: p{TIMES} < 0.05 with 1 of 2 seeds."


def test_where_lower_is_better_the_lowest_wins_and_its_gain_is_above_zero() -> None:
    answers = glance_at(seed(SCORES, {OVER_VBS: 0.03, ("vbs-tuned", "vbs"): 0.014}), lower_is_better=["bleu"])

    assert answers["What won"].startswith("vbs, with 2.00 BLEU")
    assert answers["By how much"] == (
        "+1.00 BLEU (95 % interval +0.50 to +2.00) over vbs-tuned. "
        "Lower BLEU is better: a gain is by how much it is lower."
    )
    assert answers["How sure"].startswith("Sure: p = 0.014")


@pytest.mark.parametrize("winner", ["vbs", "vbs-tuned"])
def test_a_baseline_that_wins_stands_beside_the_next_best(winner: str) -> None:
    scores = {"vbs": 2.0, "vbs-tuned": 3.0, "bidis": 3.5, "mbr bleu": 3.6, winner: 4.0}

    answers = glance_at(seed(scores, {("mbr bleu", winner): 0.3, ("vbs", "vbs-tuned"): 0.01}))

    assert answers["What won"].startswith(f"{winner}, with 4.00 BLEU")
    gain = "+0.40 BLEU (95 % interval -0.60 to +0.90) over the next best, mbr bleu"
    over_vbs = "; +2.00 BLEU (95 % interval +1.00 to +2.50) over vbs" if winner == "vbs-tuned" else ""
    assert answers["By how much"] == f"{gain}{over_vbs}."
    assert answers["How sure"] == "Not sure: p = 0.300, so it may be chance, with one seed."


def test_systems_of_the_same_value_share_the_victory_and_equal_ones_have_none() -> None:
    five = dict.fromkeys("abcde", 4.001)

    assert glance_at(seed({**five, "vbs": 2.0}))["What won"] == (
        "a, b, c and 2 more, with 4.00 BLEU at N_B = 50 each: best of 6 systems on the test set."
    )
    assert glance_at(seed(five)) == {
        "What won": "Nothing: all 5 systems are equal, with 4.00 BLEU at N_B = 50."
    }
    assert glance_at(seed({"vbs": 2.0})) == {
        "What won": "Nothing: vbs is the only system, with 2.00 BLEU at N_B = 50."
    }


def test_an_evaluation_has_no_n_b_and_the_baseline_that_it_was_tested_against() -> None:
    one = seed({"long": 1.0, "short": 3.0, "b": 2.0}, {("short", "b"): 0.01, ("long", "b"): 0.5})
    content = {
        "systems": {name: sizes["50"] for name, sizes in one["systems"].items()},
        "tests": one["tests"],
    }

    answers = make_glance(Results.of({**content, "sources": 10}), "scores.json")

    assert answers.file == "scores.json"
    assert answers.answers == {
        "What won": "short, with 3.00 BLEU: best of 3 systems on the test set.",
        "By how much": "+1.00 BLEU (95 % interval +0.50 to +2.00) over the next best, b.",
        "How sure": f"Sure: p = 0.010,{TIMES} still below 0.05, on 10 sources.",
    }


def test_a_system_that_some_seeds_lack_does_not_win() -> None:
    answers = glance_at(seed({**SCORES, "lucky": 99.0}), seed(SCORES))

    assert answers["What won"].startswith("bidis,")


def test_what_validation_chose_is_told_with_how_often_and_against_tuned_vbs() -> None:
    chosen = [("bidis", 0.01), ("bidis", 0.02), ("vbs-tuned", 0.5)]
    seeds = [seed(SCORES, {OVER_TUNED: p}, recommended=name) for name, p in chosen]

    told = glance_at(*seeds)["What validation chose"]
    assert told == (
        "bidis (2 seeds) and vbs-tuned: +0.67 BLEU (by seed 0.00 to +1.00) over vbs-tuned on the test set. "
        "Not sure: p < 0.05 with 2 of 3 seeds."
    )
    assert glance_at(seeds[2])["What validation chose"] == "vbs-tuned: nothing else promised more."
    lost = seed({**SCORES, "longest": 1.0}, {("longest", "vbs-tuned"): 0.01}, recommended="longest")
    assert "-2.00 BLEU" in glance_at(lost)["What validation chose"]
    assert glance_at(lost)["What validation chose"].endswith("Surely worse: p = 0.010.")
    assert "What validation chose" not in glance_at(seed(SCORES, recommended=None))


def test_what_spoils_a_control_is_told_beside_it() -> None:
    tests = {OVER_TUNED: 0.01, ("bidis", "bidis control"): 0.01}

    answers = glance_at(seed({**SCORES, "bidis control": 3.0}, tests), caveat="It saw other data.")

    assert answers["Over its control"] == (
        "+1.00 BLEU (95 % interval +0.50 to +2.00). "
        f"Sure: p = 0.010,{TIMES} still below 0.05. It saw other data."
    )


def test_where_nothing_can_be_judged_nothing_has_won() -> None:
    analyses = dict(make_glance(Results.of(made_analyses())).answers)
    by_length = {"systems": {"vbs": {"scores": {"length_ratio": {"value": 1.2}}}}, "metric": "length_ratio"}

    assert analyses == {
        "What won": "Nothing: these are analyses; no systems were compared, and nothing was tested."
    }
    assert glance_at(seed({"vbs": float("nan"), "bidis": float("nan")})) == {
        "What won": "Not known: no system can be judged by BLEU."
    }
    assert make_glance(Results.of(by_length)).answers == {
        "What won": "Not known: no system can be judged by length ratio."
    }
