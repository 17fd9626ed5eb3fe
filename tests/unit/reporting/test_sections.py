"""What sections say where that depends on the numbers: shares, intervals, seeds, edges, times, weights."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from bidibeam.reporting.sections.provenance import EDGES
from bidibeam.strategies.tuning import EXPONENTS, LAMBDAS, PENALTIES, REWARDS
from tests.unit.reporting.made_results import made_results
from tests.unit.reporting.reports import DRAWN, Report, without

pytestmark = pytest.mark.usefixtures("undrawn")

FEW = ("vbs", "vbs-tuned", "bidia bleu_t", "oracle")
SCORES = "Scores at N_B = 50"
GAINS = "Gain in BLEU at N_B = 50: how much is more than length"


def few(*, seeds: int = 1, drop: tuple[str, ...] = DRAWN) -> dict[str, Any]:
    """Results of a few systems, with hardly a figure."""
    return without(made_results(seeds=seeds, systems=FEW), "examples", *drop)


def with_bleu(results: dict[str, Any], **values: float) -> dict[str, Any]:
    """The same with other BLEU of systems; `matched` is that of the VBS of bidia's length."""
    (seed,) = results["seeds"]
    names = {"vbs": "vbs", "tuned": "vbs-tuned", "bidia": "bidia bleu_t"}
    diversity = seed["analyses"]["diversity"]["systems"]
    for short, name in names.items():
        if short in values:
            seed["systems"][name]["50"]["scores"]["bleu"]["value"] = values[short]
            diversity[name]["bleu"] = values[short]
    if "matched" in values:
        own = diversity["bidia bleu_t"]["length_ratio"]
        diversity["bidia bleu_t"]["matched"] |= {"bleu": values["matched"], "length_ratio": own}
    return results


def test_above_a_vbs_of_its_length_that_is_worse_than_vbs_is_no_part_of_the_gain(tmp_path: Path) -> None:
    report = Report(with_bleu(few(), vbs=5.4, tuned=7.2, bidia=6.2, matched=5.2), tmp_path)

    assert "bidia bleu_t is 0.80 BLEU above vbs; of this gain nothing remains over vbs-tuned (-1.00" in (
        report.words
    )
    ratio = report.row(GAINS, "bidia bleu_t")[-1].split()[0]
    told = f"It is 1.00 BLEU above a VBS of the same length (length ratio {ratio} against {ratio}), which is "
    assert f"{told}itself worse than vbs." in report.words
    assert "125 %" not in report.words
    row = report.row(GAINS, "bidia bleu_t")
    assert row == ["bidia bleu_t", "+0.80", "-1.00", "none", "+1.00", f"{ratio} / {ratio}"]
    assert "“Remains” is the share of the gain" in report.words  # that over vbs-tuned has the column


def test_what_remains_is_told_of_agreement_with_its_length_tuned_too(tmp_path: Path) -> None:
    results = with_bleu(few(), vbs=5.4, tuned=7.2, bidia=6.2, matched=5.2)
    seed = results["seeds"][0]
    seed["systems"]["bidia bleu_t tuned"] = copy.deepcopy(seed["systems"]["bidia bleu_t"])
    seed["systems"]["bidia bleu_t tuned"]["50"]["scores"]["bleu"]["value"] = 7.8

    report = Report(results, tmp_path)

    told = "bidia bleu_t tuned is 2.40 BLEU above vbs; of this gain 0.60 (25 %) remains over vbs-tuned."
    assert told in report.words


def test_a_tuned_vbs_that_is_worse_than_vbs_is_said_to_be(tmp_path: Path) -> None:
    report = Report(with_bleu(few(), vbs=2.0, tuned=1.5, bidia=3.0, matched=2.6), tmp_path)

    assert "bidia bleu_t is 1.00 BLEU above vbs; of this gain 0.40 (40 %) remains over a VBS" in report.words
    assert re.search(r"It is 1\.50 BLEU above vbs-tuned \(p [=<].*?\), which is itself worse", report.words)
    assert report.row(GAINS, "bidia bleu_t")[1:4] == ["+1.00", "+1.50", "+0.40"]
    assert "It is empty where what is compared with is itself worse than vbs" in report.words
    assert report.row(GAINS, "bidia bleu_t")[4] == "40 %"


@pytest.mark.parametrize(
    ("matched", "share"), [(2.0, "100 %"), (1.999, "100 %"), (3.0, "none"), (2.5, "50 %")]
)
def test_shares_lie_between_none_and_all(matched: float, share: str, tmp_path: Path) -> None:
    report = Report(with_bleu(few(), vbs=2.0, tuned=2.2, bidia=3.0, matched=matched), tmp_path)

    assert report.row(GAINS, "bidia bleu_t")[5] == share


def test_where_nothing_can_remain_nothing_is_said_of_what_remains(tmp_path: Path) -> None:
    results = few(drop=(*DRAWN, "diversity"))
    del results["seeds"][0]["systems"]["vbs-tuned"]

    report = Report(results, tmp_path)

    assert len(report.row(GAINS, "bidia bleu_t")) == 2
    assert "Remains" not in report.words


def test_a_gain_over_a_vbs_of_its_length_has_its_interval_and_its_test(tmp_path: Path) -> None:
    results = with_bleu(few(), vbs=2.0, tuned=2.2, bidia=3.0, matched=2.5)
    matched = results["seeds"][0]["analyses"]["diversity"]["systems"]["bidia bleu_t"]["matched"]
    matched |= {"difference": 0.5, "low": -0.1, "high": 1.1, "approximate_randomisation": 0.0412}

    report = Report(results, tmp_path)

    assert report.row(GAINS, "bidia bleu_t")[4:8] == ["+0.50", "-0.10 to +1.10", "0.041", "50 %"]
    row = report.row("Diversity at N_B = 50", "bidia bleu_t")
    assert row[9:12] == ["+0.50", "-0.10 to +1.10", "0.041"]
    assert report.row("Diversity at N_B = 50", "vbs")[10:12] == ["", ""]
    assert re.search(
        r"0\.50 \(50 %\) remains over a VBS .*95 % interval -0\.10 to \+1\.10, p = 0\.041\)", report.words
    )


def test_tests_beside_a_vbs_of_the_same_length_of_several_seeds_are_not_averaged(tmp_path: Path) -> None:
    results = few(seeds=3)
    facts = [(0.1, -0.4, 0.5, 0.3), (0.3, -0.1, 0.7, 0.02), (0.5, 0.1, 0.8, 0.001)]
    for seed, (difference, low, high, p) in zip(results["seeds"], facts, strict=True):
        matched = seed["analyses"]["diversity"]["systems"]["bidia bleu_t"]["matched"]
        matched |= {"difference": difference, "low": low, "high": high, "approximate_randomisation": p}

    report = Report(results, tmp_path)

    assert report.row("Diversity at N_B = 50", "bidia bleu_t")[9:12] == ["+0.30", "-0.40 to +0.80", "0.300"]
    assert "reach of the 95 % intervals" in report.markdown


def test_headroom_has_its_interval_beside_it(tmp_path: Path) -> None:
    results = few(drop=DRAWN[1:])
    headroom = results["seeds"][0]["analyses"]["headroom"]
    headroom["intervals"] = {"50": {"bidia bleu_t": [-0.052, 0.413], "vbs": None}}

    report = Report(results, tmp_path)

    share = f"{100 * headroom['by_beam_size']['50']['bidia bleu_t']:.0f} %"
    assert report.row(SCORES, "bidia bleu_t")[8:10] == [share, "-5 % to 41 %"]
    assert report.row(SCORES, "vbs")[9] == ""
    table = "95 % intervals of headroom captured by N_B"
    assert report.row(table, "bidia bleu_t")[-2:] == ["", "-5 % to 41 %"]


def test_headroom_of_several_seeds_has_the_reach_of_their_intervals(tmp_path: Path) -> None:
    results = few(seeds=2, drop=DRAWN[1:])
    for seed, interval in zip(results["seeds"], ([-0.1, 0.2], [0.1, 0.3]), strict=True):
        seed["analyses"]["headroom"]["intervals"] = {"50": {"bidia bleu_t": interval}}

    report = Report(results, tmp_path)

    assert report.row(SCORES, "bidia bleu_t")[10] == "-10 % to 30 %"
    assert "headroom captured: reach of the 95 % intervals" in report.markdown


def test_of_two_seeds_the_main_table_has_both_values_and_the_mean_of_bleu(tmp_path: Path) -> None:
    results = few(seeds=2)
    for seed, bleu in zip(results["seeds"], (0.58, 0.62), strict=True):
        seed["systems"]["vbs"]["50"]["scores"]["bleu"] |= {"value": bleu, "low": bleu - 0.1, "high": 1.0}

    report = Report(results, tmp_path)

    assert report.row(SCORES, "vbs")[1:4] == ["0.58 / 0.62 paper 1.30", "0.60", "0.48 to 1.00"]
    header = next(line for line in report.markdown.splitlines() if line.startswith("| system | BLEU"))
    assert header.startswith("| system | BLEU | mean BLEU | reach of the 95 % intervals | sentence BLEU |")
    assert "±" not in report.words
    assert "The values of seed 0 and seed 1, in this order" in report.words
    assert "mean of 2 seeds with bars to both values" in report.words
    assert report.row("Corpus BLEU-4 by N_B", "vbs")[-1] == "0.58 / 0.62"


def test_one_seed_has_an_interval_and_no_reach(tmp_path: Path) -> None:
    report = Report(few(), tmp_path)

    assert "| system | BLEU | 95 % interval | sentence BLEU |" in report.markdown
    assert "reach" not in report.words
    assert "mean BLEU" not in report.words


def with_last(results: dict[str, Any], **training: object) -> dict[str, Any]:
    results["settings"]["training"]["keep"] = "last"
    results["seeds"][0]["training"] |= training
    return results


def test_a_network_with_its_last_weights_is_said_to_be_one_in_title_and_summary(tmp_path: Path) -> None:
    facts = {"best step": 2899, "steps": 8920, "kept step": 8920, "kept regular validation loss": 3.95494}
    report = Report(with_last(few(), **facts), tmp_path)

    title = "bidibeam on cornell, trained to its last step, past its best validation loss"
    assert report.markdown.startswith(f"# {title}\n")
    assert f"<title>{title}</title>" in report.html
    assert f"<h1>{title}</h1>" in report.html
    assert (
        "The network was trained to its last step, past its best validation loss (the best was that of step "
        "2,899 of 8,920): what answers are its last weights."
    ) in report.words
    assert dict(report.tables["Training"])["kept step"] == "8,920"
    assert dict(report.tables["Training"])["kept regular validation loss"] == "3.955"


def test_a_last_step_that_is_the_best_is_past_nothing(tmp_path: Path) -> None:
    report = Report(with_last(few(), **{"best step": 90, "steps": 90}), tmp_path)

    assert report.markdown.startswith("# bidibeam on cornell, trained to its last step\n")
    assert "past its best" not in report.words


def test_a_network_with_its_best_weights_needs_no_word(tmp_path: Path) -> None:
    results = few()
    results["settings"]["training"]["keep"] = "best"

    assert "last step" not in Report(results, tmp_path).words


NOTE = "These times were taken while something else ran <there>."


def test_what_is_to_be_known_of_times_stands_above_them(tmp_path: Path) -> None:
    results = few(seeds=2)
    for seed in results["seeds"]:
        seed["analyses"]["cost"]["note"] = NOTE

    report = Report(results, tmp_path)

    begin, _, rest = report.markdown.partition(
        "> **Note:** These times were taken while something else ran &lt;there>.\n"
    )
    assert begin.rstrip().endswith(". Cost")
    assert "it takes" in rest
    assert rest.index("it takes") < rest.index("**Measured")
    assert report.html.count('<p class="notice"><strong>Note:</strong> These times') == 1
    assert report.html.index('<p class="notice">') < report.html.index("it takes")
    assert "ran &lt;there&gt;." in report.html


@pytest.mark.parametrize("how", ["null", "missing"])
def test_without_times_work_is_all_there_is(how: str, tmp_path: Path) -> None:
    results = few()
    for row in results["seeds"][0]["analyses"]["cost"]["rows"]:
        for name in ("ratio", "ms_a_source"):
            row[name] = None
            if how == "missing":
                del row[name]

    report = Report(results, tmp_path)

    assert report.row("Counted work (N_B = 50, sources: 256)", "bidia bleu_t") == [
        "bidia bleu_t",
        *("612", "625", "0"),
    ]
    assert "takes" not in report.words
    assert "ms a source" not in report.words


def test_a_strategy_that_nobody_timed_has_its_work(tmp_path: Path) -> None:
    results = few()
    row = results["seeds"][0]["analyses"]["cost"]["rows"][2]
    row |= {"ratio": None, "ms_a_source": None}

    report = Report(results, tmp_path)

    table = "Measured (on NVIDIA H200, N_B = 50, sources: 256, turns: 3)"
    assert report.row(table, "bidia bleu_t")[1:] == ["-", "-", "612", "625", "0"]


def test_what_was_left_out_has_its_kind_and_its_reason_and_is_told_once(tmp_path: Path) -> None:
    results = few(seeds=2)
    for seed in results["seeds"]:
        seed["left_out"] = {"ranks": "There is no reverse beam."}
    results["left_out"] = {"systems": {"bidia wmd_t": "It needs word vectors."}, "analyses": {}}

    report = Report(results, tmp_path)

    assert report.tables["What could not be made"] == [
        ["analysis", "ranks", "There is no reverse beam."],
        ["system", "bidia wmd_t", "It needs word vectors."],
    ]
    assert "{" not in report.words


def test_nothing_left_out_has_no_table(tmp_path: Path) -> None:
    results = few()
    results["left_out"] = {"systems": {}, "analyses": {}}

    assert "What could not be made" not in Report(results, tmp_path).tables


def test_tuned_values_on_the_edge_of_what_was_tried_are_named(tmp_path: Path) -> None:
    results = few(seeds=2)
    first, second = (seed["tuned"] for seed in results["seeds"])
    for tuned in (*first.values(), *second.values()):
        tuned |= {"bidis": {"lambda_": 0.0}, "vbs-tuned": {"length_exponent": 0.0, "word_reward": 3.9}}
    first["10"]["bidis"]["lambda_"] = second["10"]["bidis"]["lambda_"] = 10.0
    second["50"] |= {"bidis": {"lambda_": 10.0}, "bidia bleu_t": {"T": 60}, "bidia wmd_t": {"T": 2}}
    first["50"]["vbs-tuned"] = {"length_exponent": 4.0, "word_reward": 4.0}

    report = Report(results, tmp_path)

    assert (
        "On the edge of what was tried, so that the best value may lie beyond: lambda of bidis (10) at "
        "N_B = 10 and 50; length exponent of vbs-tuned (4) at N_B = 50; word reward of vbs-tuned (4) at "
        "N_B = 50; T of bidia bleu_t (60) at N_B = 50; T of bidia wmd_t (2) at N_B = 50."
    ) in report.words


def test_tuned_values_within_what_was_tried_need_no_word(tmp_path: Path) -> None:
    assert "On the edge" not in Report(few(), tmp_path).words


def test_the_edges_are_those_of_the_tuning() -> None:
    grids = {"lambda_": LAMBDAS, "length_exponent": EXPONENTS, "word_reward": REWARDS, "T": PENALTIES}

    assert {
        name: tuple(edge for edge in (float(min(grid)), float(max(grid))) if edge)
        for name, grid in grids.items()
    } == EDGES
