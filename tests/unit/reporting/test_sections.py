"""The tables of each section: the results' numbers, over seeds, and with parts missing."""

from __future__ import annotations

import copy
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bidibeam.reporting.provenance import EDGES
from bidibeam.strategies.tuning import EXPONENTS, LAMBDAS, PENALTIES, REWARDS
from tests.unit.reporting.made_results import SYSTEMS, made_analyses, made_evaluation, made_results
from tests.unit.reporting.reports import DRAWN, TITLES, Report, without

pytestmark = pytest.mark.usefixtures("undrawn")

BIDIA = "bidia bleu_t"
FEW = ("vbs", "vbs-tuned", BIDIA, "oracle")
SCORES = "Scores at N_B = 50"
GAINS = "Gain in BLEU at N_B = 50: how much is more than length"
ORACLE = "VBS and the best hypothesis in its beam"
DIVERSITY = "Diversity at N_B = 50"
MEASURED = "Measured (on NVIDIA H200, N_B = 50, sources: 256, turns: 3)"


def few(*, seeds: int = 1, drop: tuple[str, ...] = DRAWN) -> dict[str, Any]:
    """Results of a few systems, with hardly a figure."""
    return without(made_results(seeds=seeds, systems=FEW), "examples", *drop)


def with_bleu(results: dict[str, Any], **values: float) -> dict[str, Any]:
    """Sets the BLEU of systems; `matched` is that of the VBS of bidia's length."""
    (seed,) = results["seeds"]
    diversity = seed["analyses"]["diversity"]["systems"]
    for short, name in {"vbs": "vbs", "tuned": "vbs-tuned", "bidia": BIDIA}.items():
        seed["systems"][name]["50"]["scores"]["bleu"]["value"] = values[short]
        diversity[name]["bleu"] = values[short]
    own = diversity[BIDIA]["length_ratio"]
    diversity[BIDIA]["matched"] |= {"bleu": values["matched"], "length_ratio": own}
    return results


def test_scores_have_intervals_headroom_tests_and_the_papers_numbers(single: Report) -> None:
    (seed,) = single.results["seeds"]
    for name in SYSTEMS:
        scores = seed["systems"][name]["50"]["scores"]
        values = {metric: score["value"] for metric, score in scores.items()}
        cells = [re.sub(r" paper .*", "", cell) for cell in single.row(SCORES, name)]
        assert cells[1:8] == [
            f"{values['bleu']:.2f}",
            f"{scores['bleu']['low']:.2f} to {scores['bleu']['high']:.2f}",
            f"{values['sentence_bleu']:.2f}",
            f"{values['chrf']:.2f}",
            f"{values['distinct-1']:.4f}",
            f"{values['distinct-2']:.4f}",
            f"{values['length_ratio']:.2f}",
        ]
        share = seed["analyses"]["headroom"]["by_beam_size"]["50"].get(name)
        assert cells[8] == ("" if share is None else f"{100 * share:.0f} %")
        tests = [test for test in seed["tests"] if test["system"] == name]
        p = {test["baseline"]: test["approximate_randomisation"] for test in tests}
        values_of_p = [p.get(baseline) for baseline in ("vbs-tuned", "vbs")]
        shown = ["" if one is None else "< 0.001" if one < 0.001 else f"{one:.3f}" for one in values_of_p]
        assert cells[9:] == shown
    papers = [cell.partition(" paper ")[2] for cell in single.row(SCORES, "bidia wmd_t")]
    assert papers == [*5 * [""], "0.054", "0.270", *4 * [""]]
    assert [cell.partition(" paper ")[2] for cell in single.row(ORACLE, "vbs (VBS)")[1:]] == [
        *("1.19", "1.23", "1.30", "1.30")
    ]
    assert "The paper claims +9 % over VBS on Cornell" in single.words


def test_the_tables_of_analyses_have_the_results_numbers(single: Report) -> None:
    analyses = single.results["seeds"][0]["analyses"]
    diversity = analyses["diversity"]["systems"]["bidia wmd_t"]
    matched, same = diversity["matched"], diversity["same_words"]
    assert single.row(DIVERSITY, "bidia wmd_t")[5:] == [
        *(f"{matched[name]:.2f}" for name in ("length_ratio", "bleu")),
        *(f"{one[name]:.4f}" for one in (matched, same) for name in ("distinct-1", "distinct-2")),
    ]
    ranks = analyses["ranks"]["systems"]["oracle"]
    share = f"{100 * ranks['counts'][0] / sum(ranks['counts']):.1f} %"
    assert single.row("Places chosen", "oracle")[1:] == [share, f"{ranks['mean']:.1f}", "6.0", "1.3"]
    cost = analyses["cost"]["rows"][3]
    times = [f"{cost['ms_a_source']:.2f}", f"{cost['ratio']:.2f}"]
    assert single.row(MEASURED, "bidia wmd_t")[1:] == [*times, "612", "625", "12"]
    left = single.results["positions"]["from"]["left"][0]
    counts = ["7,001", "6.20", str(left["above_1000"])]
    assert single.row("Words at the first positions", "left", "1")[2:5] == counts
    bleu = analyses["sensitivity"]["rows"][3]["bleu"]
    assert single.row("All options at N_B = 50", BIDIA, "T", "20 (default)")[3] == f"{bleu:.2f}"
    assert single.tables["The best constant replies"] == [
        ["no. <i> don't know.", "chosen", "1.50", "1.25", "1.05 to 1.45", "0.80", "0"],
        ["i don't | know.", "", "1.40", "1.30", "1.10 to 1.50", "0.80", "12"],
        ["what?", "commonest in training", "0.00", "0.00", "-0.20 to 0.20", "0.80", "26"],
    ]


def test_the_provenance_has_data_training_settings_and_every_signature(single: Report) -> None:
    (seed,) = single.results["seeds"]
    facts = dict(single.tables["Data and command"])
    assert facts["data fingerprint"] == "0f1e2d3c4b5a6978"
    assert facts["command"] == single.results["command"]
    assert facts["train pairs"] == "163,101"
    assert dict(single.tables["Training"])["steps"] == "20,311"
    perplexity = seed["perplexity"]["regular"]["value"]
    assert single.row("Perplexity of the test references", "regular")[1] == f"{perplexity:.2f}"
    tuned = seed["tuned"]["50"]
    row = [f"{tuned['bidis']['lambda_']:g}", "1.2", f"{tuned['vbs-tuned']['word_reward']:g}"]
    assert single.row("Settings tuned on validation", "50")[1:] == row
    entries = [entry for sizes in seed["systems"].values() for entry in sizes.values()]
    assert {row[1] for row in single.tables["Signatures"]} == {
        *(f"strategy:{name}" for name in SYSTEMS),  # at every N_B
        *(score["signature"] for entry in entries for score in entry["scores"].values()),
        *(score["signature"] for score in seed["perplexity"].values()),
        *(test["signature"] for test in seed["tests"]),
    }
    assert dict(single.tables["All settings"])["search.length_exponent"] == "0.6"


def test_signatures_are_merged_over_beam_sizes_and_name_their_seed(tmp_path: Path) -> None:
    results = without(made_results(seeds=2, systems=("vbs", "vbs-tuned")), *DRAWN)
    first, second = (seed["systems"] for seed in results["seeds"])
    for size, entry in first["vbs-tuned"].items():
        reward = 1 if int(size) < 10 else 2
        entry["signature"] = f"strategy:vbs-tuned|word_reward:{reward}|beam_size:{size}|model:x"
    second["vbs"]["50"]["signature"] = "strategy:vbs|model:other"

    report = Report(results, tmp_path)

    sizes = "1, 2, 5, 6, 10, 20, 30, 40 and 50"
    assert report.row("Signatures", f"vbs, N_B = {sizes}, seed 0")[1] == "strategy:vbs"
    assert report.row("Signatures", "vbs, N_B = 50, seed 1")[1] == "strategy:vbs|model:other"
    ours = [row for row in report.tables["Signatures"] if re.match("vbs-tuned.*seed 0", row[0])]
    assert ours == [
        ["vbs-tuned, N_B = 1, 2, 5 and 6, seed 0", "strategy:vbs-tuned|word_reward:1|model:x"],
        ["vbs-tuned, N_B = 10, 20, 30, 40 and 50, seed 0", "strategy:vbs-tuned|word_reward:2|model:x"],
    ]


def test_three_seeds_are_a_mean_a_deviation_the_reach_of_intervals_and_the_largest_p(tmp_path: Path) -> None:
    results = without(made_results(seeds=3, chance=1), *DRAWN)
    del results["seeds"][1]["systems"]["longest"]
    report = Report(results, tmp_path)

    scores = [seed["systems"][BIDIA]["50"]["scores"]["bleu"] for seed in results["seeds"]]
    values = [score["value"] for score in scores]
    tests = [test for seed in results["seeds"] for test in seed["tests"] if test["system"] == BIDIA]
    p = max(test["approximate_randomisation"] for test in tests if test["baseline"] == "vbs")
    reach = f"{min(score['low'] for score in scores):.2f} to {max(score['high'] for score in scores):.2f}"
    row = report.row(SCORES, BIDIA)
    assert row[1:3] == [f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}", reach]
    assert row[-1] == f"{p:.3f}"
    assert report.row("Reach of the 95 % intervals of corpus BLEU-4 by N_B", BIDIA)[-1] == reach
    assert report.row(SCORES, "longest")[1].endswith("(n = 2)")


def test_two_seeds_have_both_values_and_the_mean_of_bleu(tmp_path: Path) -> None:
    results = few(seeds=2, drop=DRAWN[1:])
    intervals = ([-0.1, 0.2], [0.1, 0.3])
    for seed, bleu, interval in zip(results["seeds"], (0.58, 0.62), intervals, strict=True):
        seed["systems"]["vbs"]["50"]["scores"]["bleu"] |= {"value": bleu, "low": bleu - 0.1, "high": 1.0}
        seed["analyses"]["headroom"]["intervals"] = {"50": {BIDIA: interval}}

    report = Report(results, tmp_path)

    assert report.row(SCORES, "vbs")[1:4] == ["0.58 / 0.62 paper 1.30", "0.60", "0.48 to 1.00"]
    assert report.row(SCORES, BIDIA)[10] == "-10 % to 30 %"
    assert "| system | BLEU | mean BLEU | reach of the 95 % intervals | sentence BLEU |" in report.markdown
    assert "±" not in report.words
    assert report.row("Corpus BLEU-4 by N_B", "vbs")[-1] == "0.58 / 0.62"


def test_one_seed_has_an_interval_and_no_reach(tmp_path: Path) -> None:
    results = few(drop=DRAWN[1:])
    headroom = results["seeds"][0]["analyses"]["headroom"]
    headroom["intervals"] = {"50": {BIDIA: [-0.052, 0.413], "vbs": None}}

    report = Report(results, tmp_path)

    share = f"{100 * headroom['by_beam_size']['50'][BIDIA]:.0f} %"
    assert report.row(SCORES, BIDIA)[8:10] == [share, "-5 % to 41 %"]
    assert report.row(SCORES, "vbs")[9] == ""
    assert report.row("95 % intervals of headroom captured by N_B", BIDIA)[-2:] == ["", "-5 % to 41 %"]
    assert "| system | BLEU | 95 % interval | sentence BLEU |" in report.markdown
    assert "reach" not in report.words


@pytest.mark.parametrize(
    ("vbs", "tuned", "bidia", "matched", "row"),
    [
        (2.0, 2.2, 3.0, 2.5, ["+1.00", "+0.80", "80 %", "+0.50", "50 %"]),
        (2.0, 2.2, 3.0, 2.0, ["+1.00", "+0.80", "80 %", "+1.00", "100 %"]),
        (2.0, 2.2, 3.0, 1.999, ["+1.00", "+0.80", "80 %", "+1.00", "100 %"]),
        (2.0, 2.2, 3.0, 3.0, ["+1.00", "+0.80", "80 %", "0.00", "none"]),
        (2.0, 1.5, 3.0, 2.6, ["+1.00", "+1.50", "+0.40", "40 %"]),  # vbs-tuned is worse than vbs
        (5.4, 7.2, 6.2, 5.2, ["+0.80", "-1.00", "none", "+1.00"]),  # so is the vbs of its length
        (2.0, 2.2, 2.05, 2.0, ["+0.05", "-0.15", "+0.05"]),  # too small a gain for shares
        (2.0, 2.2, 1.0, 2.0, ["-1.00", "-1.20", "-1.00"]),
    ],
)
def test_the_gain_and_what_remains_of_it(
    vbs: float, tuned: float, bidia: float, matched: float, row: list[str], tmp_path: Path
) -> None:
    report = Report(with_bleu(few(), vbs=vbs, tuned=tuned, bidia=bidia, matched=matched), tmp_path)

    assert report.row(GAINS, BIDIA)[1:-1] == row
    ratio = report.row(DIVERSITY, BIDIA)[3]
    assert report.row(GAINS, BIDIA)[-1] == f"{ratio} / {ratio}"


def test_a_gain_without_other_baselines_is_one_column(tmp_path: Path) -> None:
    results = few(drop=(*DRAWN, "diversity"))
    del results["seeds"][0]["systems"]["vbs-tuned"]

    report = Report(results, tmp_path)

    assert len(report.row(GAINS, BIDIA)) == 2
    assert "Remains" not in report.words


@pytest.mark.parametrize(
    ("facts", "cells"),
    [
        ([(0.5, -0.1, 1.1, 0.0412)], ["+0.50", "-0.10 to +1.10", "0.041"]),
        (
            [(0.1, -0.4, 0.5, 0.3), (0.3, -0.1, 0.7, 0.02), (0.5, 0.1, 0.8, 0.001)],
            ["+0.30", "-0.40 to +0.80", "0.300"],
        ),
    ],
)
def test_the_difference_to_a_vbs_of_the_same_length_has_its_interval_and_test(
    facts: list[tuple[float, ...]], cells: list[str], tmp_path: Path
) -> None:
    results = few(seeds=len(facts))
    names = ("difference", "low", "high", "approximate_randomisation")
    for seed, values in zip(results["seeds"], facts, strict=True):
        matched = seed["analyses"]["diversity"]["systems"][BIDIA]["matched"]
        matched |= dict(zip(names, values, strict=True))

    report = Report(results, tmp_path)

    assert report.row(DIVERSITY, BIDIA)[9:12] == cells
    assert report.row(DIVERSITY, "vbs")[10:12] == ["", ""]
    assert report.row(GAINS, BIDIA)[4:7] == cells


@pytest.mark.parametrize(
    ("keep", "steps", "title"),
    [
        ("last", (2899, 8920), ", trained to its last step, past its best validation loss"),
        ("last", (90, 90), ", trained to its last step"),
        ("best", (2899, 8920), ""),
    ],
)
def test_the_title_says_that_the_last_weights_answered(
    keep: str, steps: tuple[int, int], title: str, tmp_path: Path
) -> None:
    results = few()
    results["settings"]["training"]["keep"] = keep
    results["seeds"][0]["training"] |= {"best step": steps[0], "steps": steps[1]}

    report = Report(results, tmp_path)

    assert report.markdown.startswith(f"# bidibeam on cornell{title}\n")
    assert f"<h1>bidibeam on cornell{title}</h1>" in report.html
    assert ("its last weights" in report.words) == (keep == "last")
    assert (f"step {steps[0]:,} of {steps[1]:,}" in report.words) == (keep == "last")


@pytest.mark.parametrize("how", ["all", "missing", "one"])
def test_cost_without_times_shows_the_work_and_a_note_stands_above_it(how: str, tmp_path: Path) -> None:
    results = few(seeds=2)
    for seed in results["seeds"]:
        seed["analyses"]["cost"]["note"] = "Something else ran <there>."
        for row in seed["analyses"]["cost"]["rows"][2 if how == "one" else 0 :]:
            row |= {"ratio": None, "ms_a_source": None}
            if how == "missing":
                del row["ratio"], row["ms_a_source"]

    report = Report(results, tmp_path)

    work = ["612", "625", "0"]
    if how == "one":
        assert report.row(MEASURED, BIDIA)[1:] == ["-", "-", *work]
    else:
        assert report.row("Counted work (N_B = 50, sources: 256)", BIDIA)[1:] == work
        assert "ms a source" not in report.words
    assert report.markdown.count("> **Note:** Something else ran &lt;there>.\n") == 1
    assert report.html.count("</strong> Something else ran &lt;there&gt;.</p>") == 1


def test_what_was_left_out_has_kind_and_reason_once(tmp_path: Path) -> None:
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


def test_tuned_values_on_the_edge_of_what_was_tried_are_named(tmp_path: Path) -> None:
    results = few(seeds=2)
    first, second = (seed["tuned"] for seed in results["seeds"])
    for tuned in (*first.values(), *second.values()):
        tuned |= {"bidis": {"lambda_": 0.0}, "vbs-tuned": {"length_exponent": 0.0, "word_reward": 3.9}}
    assert "On the edge" not in Report(results, tmp_path).words
    first["10"]["bidis"]["lambda_"] = second["10"]["bidis"]["lambda_"] = 10.0
    second["50"] |= {"bidis": {"lambda_": 10.0}, BIDIA: {"T": 60}, "bidia wmd_t": {"T": 2}}

    assert (
        "lambda of bidis (10) at N_B = 10 and 50; T of bidia bleu_t (60) at N_B = 50; T of bidia wmd_t (2) "
        "at N_B = 50." in Report(results, tmp_path).words
    )
    grids = {"lambda_": LAMBDAS, "length_exponent": EXPONENTS, "word_reward": REWARDS, "T": PENALTIES}
    ends = {name: (float(min(grid)), float(max(grid))) for name, grid in grids.items()}
    assert {name: tuple(filter(None, pair)) for name, pair in ends.items()} == EDGES


def test_an_evaluation_has_scores_and_tests_but_no_beam_sizes(tmp_path: Path) -> None:
    results = {"format_version": 1, "sources": 300, **made_evaluation()}
    results["tests"] = [{**test, "beam_size": 25} for test in results["tests"]]

    report = Report(results, tmp_path)

    assert report.sections == [TITLES[0], TITLES[9]]
    assert report.written.figures == []
    value = results["systems"]["bidis"]["scores"]["bleu"]["value"]
    assert report.row("Scores", "bidis")[1] == f"{value:.2f}"
    assert len(report.tables["Paired tests"]) == len(results["tests"])
    assert "11 systems answered 300 sources." in report.words
    assert "N_B" not in report.words


def test_analyses_alone_are_reported(tmp_path: Path) -> None:
    results = made_analyses()
    results |= {
        "left_out": {"systems": {"bidis": "No log-probabilities."}, "analyses": {"headroom": "No oracle."}},
        "signatures": {"vbs": {"25": "strategy:vbs|beam_size:25"}},
    }
    del results["analyses"]["headroom"]
    results["analyses"]["diversity"]["systems"]["vbs"]["beam_size"] = 25

    report = Report(results, tmp_path)

    assert report.sections == [*TITLES[4:]]
    assert report.tables["What could not be made"] == [
        ["system", "bidis", "No log-probabilities."],
        ["analysis", "headroom", "No oracle."],
    ]
    assert report.tables["Signatures"] == [["vbs, N_B = 25", "strategy:vbs|beam_size:25"]]
    assert [row[1] for row in report.tables["Diversity"][:2]] == ["25", "50"]


def test_analyses_that_lack_half_of_their_facts_are_reported(tmp_path: Path) -> None:
    shares = {"2": {"vbs": -3.0, "bidis": None}, "10": {"vbs": -0.25, "bidis": -0.5}}
    analyses = {
        "headroom": {"baseline": "vbs-tuned", "by_beam_size": shares},
        "ranks": {"systems": {"oracle": {"counts": [3, 1]}}},
        "diversity": {"systems": {"vbs": {"distinct-2": 0.2, "matched": None}}},
        "cost": {"rows": [{"strategy": "vbs", "ratio": 1.0}]},
        "sensitivity": {"rows": [{"system": BIDIA, "option": "order", "value": "4", "bleu": 1.5}]},
        "examples": {"examples": [{"source": "hi", "replies": {"vbs": "ho"}}]},
    }

    report = Report({"analyses": analyses}, tmp_path)

    assert report.sections == [TITLES[place] for place in (2, 4, 5, 7, 8, 10)]
    assert report.tables["Headroom captured by N_B"] == [["vbs", "-300 %", "-25 %"], ["bidis", "-", "-50 %"]]
    assert "What lies below -60 % is not drawn; the table has it." in report.words
    assert report.row("Places chosen", "oracle") == ["oracle", "75.0 %", "-", "-", "-"]
    assert report.row("Diversity", "vbs") == ["vbs", "-", "0.2000", "-", "-"]
    assert report.row("Measured", "vbs") == ["vbs", "-", "1.00"]
    assert report.row("All options", BIDIA) == [BIDIA, "order", "4", "1.50"]
    assert "<svg class" not in report.html  # no matrix, no heat map


@pytest.mark.parametrize(
    ("name", "place"),
    [("constant", 3), ("ranks", 4), ("diversity", 5), ("positions", 6), ("cost", 7), ("sensitivity", 8)],
)
def test_a_section_without_numbers_is_left_out(name: str, place: int, tmp_path: Path) -> None:
    results = made_results(systems=("vbs", "vbs-tuned", "oracle"))

    report = Report(without(results, name), tmp_path)

    assert report.sections == [title for title in TITLES if title != TITLES[place]]


def one_system(results: dict[str, Any]) -> None:
    results["seeds"][0]["systems"] = {BIDIA: results["seeds"][0]["systems"][BIDIA]}


def no_tests(results: dict[str, Any]) -> None:
    del results["seeds"][0]["tests"], results["seeds"][0]["tuned"]


def only_systems(results: dict[str, Any]) -> None:
    results["seeds"] = [{"systems": results["seeds"][0]["systems"]}]
    for key in ("data", "settings", "sources", "command", "corpus"):
        del results[key]


def no_numbers(results: dict[str, Any]) -> None:
    for entry in results["seeds"][0]["systems"]["vbs"].values():
        entry["scores"]["bleu"] = {"value": None, "signature": "x"}
        entry["scores"]["chrf"] = {"value": float("nan"), "signature": "x"}


def zero_vbs(results: dict[str, Any]) -> None:
    for entry in results["seeds"][0]["systems"]["vbs"].values():
        entry["scores"]["bleu"]["value"] = 0.0


def two_sizes(results: dict[str, Any]) -> None:
    for name, sizes in results["seeds"][0]["systems"].items():
        results["seeds"][0]["systems"][name] = {size: sizes[size] for size in ("2", "50") if size in sizes}


def unknown_corpus(results: dict[str, Any]) -> None:
    results["corpus"] = results["data"]["corpus"] = "chitchat"


def another_metric(results: dict[str, Any]) -> None:
    for sizes in results["seeds"][0]["systems"].values():
        for entry in sizes.values():
            entry["scores"]["my_metric"] = {"value": 0.123456, "signature": "x"}


CHANGES = (
    one_system,
    no_tests,
    only_systems,
    no_numbers,
    zero_vbs,
    two_sizes,
    unknown_corpus,
    another_metric,
)


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_is_missing_the_rest_is_reported(
    change: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    results = without(made_results(), "examples", *DRAWN)
    change(results)

    report = Report(copy.deepcopy(results), tmp_path)

    assert report.sections[0] == "Summary"
    value = results["seeds"][0]["systems"][BIDIA]["50"]["scores"]["bleu"]["value"]
    assert report.row(SCORES, BIDIA)[1].split()[0] == f"{value:.2f}"
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", report.words)
    if change in (only_systems, unknown_corpus):
        assert " paper 1.30" not in report.html
        assert "The paper claims" not in report.words
    if change is two_sizes:
        assert len(report.row(ORACLE, "vbs (VBS)")) == 3
