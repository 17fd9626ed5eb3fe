"""The tables of each section: the results' numbers, over seeds, and with parts missing."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from bidibeam.reporting.appendix import EDGES
from tests.unit.reporting.made_results import SYSTEMS, made_analyses, made_evaluation, made_results
from tests.unit.reporting.reports import DRAWN, TITLES, Report, without

pytestmark = pytest.mark.usefixtures("undrawn")

BIDIA = "bidia bleu_t"
ENDS = ("low", "high")
FEW = ("vbs", "vbs-tuned", BIDIA, "oracle")
SCORES = "Scores at N_B = 50"
GAINS = "Gain in BLEU at N_B = 50: how much is more than length"
ORACLE = "VBS and the best hypothesis in its beam"
DIVERSITY = "Diversity at N_B = 50"
MEASURED = "Measured (on cpu, N_B = 50, sources: 32, turns: 3)"


def few(*, seeds: int = 1, drop: tuple[str, ...] = DRAWN) -> dict[str, Any]:
    """Results of a few systems, with hardly a figure."""
    return without(made_results(seeds=seeds, systems=FEW), "examples", *drop)


def test_scores_have_intervals_headroom_tests_and_the_papers_numbers(single: Report) -> None:
    (seed,) = single.results["seeds"]
    headroom = seed["analyses"]["headroom"]
    for name in SYSTEMS:
        scores = seed["systems"][name]["50"]["scores"]
        digits = {"sentence_bleu": 2, "chrf": 2, "distinct-1": 4, "distinct-2": 4, "length_ratio": 2}
        share, ends = headroom["by_beam_size"]["50"].get(name), headroom["intervals"]["50"].get(name)
        tests = {test["baseline"]: test for test in seed["tests"] if test["system"] == name}
        p = [tests.get(name, {}).get("approximate_randomisation") for name in ("vbs-tuned", "vbs")]
        cells = [re.sub(r" paper .*", "", cell) for cell in single.row(SCORES, name)]
        assert cells[1:] == [
            f"{scores['bleu']['value']:.2f}",
            f"{scores['bleu']['low']:.2f} to {scores['bleu']['high']:.2f}",
            *(f"{scores[metric]['value']:.{places}f}" for metric, places in digits.items()),
            "" if share is None else f"{100 * share:.0f} %",
            "" if ends is None else " to ".join(f"{100 * end:.0f} %" for end in ends),
            *("" if one is None else "< 0.001" if one < 0.001 else f"{one:.3f}" for one in p),
        ]
    papers = [cell.partition(" paper ")[2] for cell in single.row(SCORES, "bidia wmd_t")]
    assert papers == [*5 * [""], "0.054", "0.270", *5 * [""]]
    assert [cell.partition(" paper ")[2] for cell in single.row(ORACLE, "vbs (VBS)")[1:]] == ["1.30", "1.30"]
    assert "The paper claims +9 % over VBS on Cornell" in single.words


def as_error_rate(results: dict[str, Any]) -> dict[str, Any]:
    """The same results by a metric that is 100 minus BLEU."""

    def turn(scores: dict[str, Any]) -> None:
        if "bleu" in scores:
            scores["wer"] = 100 - scores.pop("bleu")
        if "difference" in scores:
            scores |= {"difference": -scores["difference"], "low": -scores["high"], "high": -scores["low"]}

    for seed in results["seeds"]:
        for entry in (entry for sizes in seed["systems"].values() for entry in sizes.values()):
            bleu = entry["scores"].pop("bleu")
            turned = {key: 100 - bleu[other] for key, other in zip(ENDS, ENDS[::-1], strict=True)}
            entry["scores"] = {**entry["scores"], "wer": {**turned, "value": 100 - bleu["value"]}}
        for test in seed["tests"]:
            test["metric"] = "wer"
            turn(test)
        for name in ("headroom", "diversity", "sensitivity"):
            seed["analyses"].get(name, {})["metric"] = "wer"
        for row in seed["analyses"].get("diversity", {}).get("systems", {}).values():
            turn(row)
            turn(row["matched"] or {})
        for row in seed["analyses"].get("sensitivity", {}).get("rows", []):
            turn(row)
    return {**results, "metric": "wer", "lower_is_better": ["wer"]}


def test_an_error_rate_is_called_by_its_name_and_its_fall_is_a_gain(tmp_path: Path) -> None:
    by_bleu = Report(made_results(), tmp_path / "bleu")

    report = Report(as_error_rate(made_results()), tmp_path / "wer")

    for name in (BIDIA, "bidis"):
        gains = GAINS.replace("BLEU", "WER")
        assert report.row(gains, name) == by_bleu.row(GAINS, name)
        assert (
            report.row(SCORES, name)[3:] == by_bleu.row(SCORES, name)[3:]
        )  # headroom and p are as they were
        value = 100 - by_bleu.results["seeds"][0]["systems"][name]["50"]["scores"]["bleu"]["value"]
        assert report.row(SCORES, name)[1] == f"{value:.2f}"
    for sentence in (
        "Lower WER is better: a gain is by how much it is lower.",
        "Lower is better of WER: a difference below 0 is a gain.",
        "WER (lower is better)",
        "in WER.",
        "WER against N_B",
        "WER above that VBS",
        "WER and length ratio at N_B = 50 by T",
    ):
        assert sentence in report.words, sentence
    assert "The paper claims" not in report.words
    assert not re.search(
        r"(?<!sentence )BLEU(?!_T|-4 on)",
        re.sub(r"sacreBLEU|BLEU: metric\S*", "", report.words.partition("One reply")[0]),
    )


def test_what_validation_recommended_stands_beside_tuned_vbs_and_its_control(tmp_path: Path) -> None:
    results = few(seeds=2)
    for seed in results["seeds"]:
        seed["recommended"] = BIDIA
        seed["systems"][f"{BIDIA} control"] = seed["systems"]["vbs"]
        tests = {"metric": "bleu", "paired_bootstrap": 0.2, "approximate_randomisation": 0.3}
        about = {"system": BIDIA, "baseline": f"{BIDIA} control", "beam_size": 50}
        seed["tests"].append({**about, **tests, "difference": 1.5, "low": 1.0, "high": 2.0, "signature": ""})

    report = Report(results, tmp_path)

    first = results["seeds"][0]
    value = first["systems"][BIDIA]["50"]["scores"]["bleu"]["value"]
    (test,) = (each for each in first["tests"] if (each["system"], each["baseline"]) == (BIDIA, "vbs-tuned"))
    row = report.row("What was recommended on validation, on the test set", str(first["seed"]))
    assert row[1:4] == [BIDIA, f"{value:.2f}", f"{test['difference']:+.2f}"]
    assert row[5:] == ["+1.50", "0.300"]
    without = few(seeds=2)
    for seed in without["seeds"]:
        seed["recommended"] = None
    assert "recommended" not in Report(without, tmp_path / "without").words


def test_three_seeds_are_a_mean_a_deviation_the_reach_of_intervals_and_the_largest_p(tmp_path: Path) -> None:
    results = few(seeds=3)
    del results["seeds"][1]["systems"]["oracle"]
    results["seeds"][1]["systems"]["vbs"]["50"]["signature"] = "strategy:vbs|model:other"

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
    assert report.row(SCORES, "oracle")[1].partition(" paper")[0].endswith("(n = 2)")
    assert report.row("Signatures", "vbs, N_B = 50, seed 1")[1] == "strategy:vbs|model:other"


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


@pytest.mark.parametrize(
    ("vbs", "tuned", "bidia", "matched", "row"),
    [
        (2.0, 2.2, 3.0, 2.5, ["+1.00", "+0.80", "80 %", "+0.50", "50 %"]),
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
    results = few()
    (seed,) = results["seeds"]
    diversity = seed["analyses"]["diversity"]["systems"]
    for name, bleu in {"vbs": vbs, "vbs-tuned": tuned, BIDIA: bidia}.items():
        seed["systems"][name]["50"]["scores"]["bleu"]["value"] = diversity[name]["bleu"] = bleu
    diversity[BIDIA]["matched"] = {"bleu": matched, "length_ratio": 0.5}

    report = Report(results, tmp_path)

    ratio = report.row(DIVERSITY, BIDIA)[3]
    assert report.row(GAINS, BIDIA)[1:] == [*row, f"{ratio} / 0.50"]


def score_bleu(results: dict[str, Any], size: str = "50", **values: float) -> None:
    """Gives systems of the first seed other values."""
    for name, value in values.items():
        results["seeds"][0]["systems"][name.replace("_", "-")][size]["scores"]["bleu"]["value"] = value


def test_a_gain_over_nearly_nothing_is_in_points_and_not_in_per_cent(tmp_path: Path) -> None:
    results = few()
    score_bleu(results, vbs=0.0007, vbs_tuned=0.5)
    results["seeds"][0]["systems"][BIDIA]["50"]["scores"]["bleu"]["value"] = 0.75

    said = Report(results, tmp_path).words

    ours = "ours is +0.75 BLEU over vbs (0.00, too little for a ratio) and +50 % over vbs-tuned."
    assert ours in said
    score_bleu(results, vbs=0.5)
    assert "ours is +50 % over vbs and +50 % over vbs-tuned." in Report(results, tmp_path).words


def test_of_hardly_any_headroom_there_are_no_shares(tmp_path: Path) -> None:
    results = few(drop=DRAWN[1:])
    by_size = results["seeds"][0]["analyses"]["headroom"]["by_beam_size"]
    by_size |= {"10": {BIDIA: -9.0}, "50": {BIDIA: 0.5}}
    results["seeds"][0]["analyses"]["headroom"]["intervals"] = {"10": {BIDIA: [-30.0, 9.0]}}
    for size, oracle in (("10", 2.05), ("50", 6.0)):
        score_bleu(results, size, vbs=1.0, vbs_tuned=2.0, oracle=oracle)
        results["seeds"][0]["systems"][BIDIA][size]["scores"]["bleu"]["value"] = 1.55

    report = Report(results, tmp_path)

    assert report.row("Headroom captured by N_B", BIDIA)[-2:] == ["-0.45 BLEU", "50 %"]
    note = "Where the headroom is below 0.1 BLEU, a system's gain over vbs-tuned stands in its place."
    assert note in report.words
    assert not [*report.folder.glob("figures/headroom.*")]  # one N_B is no line; the table says it
    assert "95 % intervals of headroom captured by N_B" not in report.tables  # they would be of shares
    for size in ("10", "2"):
        score_bleu(results, size, vbs_tuned=2.0, oracle=6.0)
    whole = Report(results, tmp_path)
    assert [*whole.folder.glob("figures/headroom.svg")]
    assert (whole.row("Headroom captured by N_B", BIDIA)[-2:], note in whole.words) == (
        ["-900 %", "50 %"],
        False,
    )


def test_shares_of_the_headroom_by_another_metric_are_called_by_its_name(tmp_path: Path) -> None:
    results = few(drop=DRAWN[1:])
    results["seeds"][0]["analyses"]["headroom"]["metric"] = "chrf"
    score_bleu(results, vbs_tuned=2.0, oracle=2.0)

    report = Report(results, tmp_path)

    assert "(oracle - vbs-tuned), in chrF." in report.words
    assert report.row("Headroom captured by N_B", "vbs")[-1].endswith("%")


def test_times_beside_a_vbs_that_takes_nearly_none_are_no_ratios(tmp_path: Path) -> None:
    results = few()
    costs = results["seeds"][0]["analyses"]["cost"]["rows"]
    assert Report(results, tmp_path).row(MEASURED, "bidis")[2] == f"{costs[1]['ratio']:.2f}"

    costs[0]["ms_a_source"] = 0.0009

    assert Report(results, tmp_path).row(MEASURED, "bidis")[1:3] == [
        f"{costs[1]['ms_a_source']:.2f}",
        f"{costs[1]['projected_rows']:.0f}",
    ]


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


def test_cost_without_times_shows_the_work(tmp_path: Path) -> None:
    results = few(seeds=2)
    for seed in results["seeds"]:
        for row in seed["analyses"]["cost"]["rows"][2:]:
            row |= {"ratio": None, "ms_a_source": None}

    report = Report(results, tmp_path)

    assert report.row(MEASURED, BIDIA)[1:3] == ["-", "-"]


def test_what_spoils_a_control_stands_under_the_scores(tmp_path: Path) -> None:
    caveat = "The control other was trained on other data: gains over it say little."

    for results, is_told in (({**few(), "caveat": caveat}, True), (few(), False)):
        Report(results, tmp_path)
        for name in ("report.md", "report.html"):
            assert (caveat in (tmp_path / name).read_text(encoding="utf-8")) == is_told


def test_what_was_left_out_has_kind_and_reason_once(tmp_path: Path) -> None:
    results = few(seeds=2)
    for seed in results["seeds"]:
        seed["left_out"] = {"ranks": "There is no reverse beam."}
    results["left_out"] = {"systems": {"bidia wmd_t": "It needs word vectors."}, "analyses": {}}

    assert Report(results, tmp_path).tables["What could not be made"] == [
        ["analysis", "ranks", "There is no reverse beam."],
        ["system", "bidia wmd_t", "It needs word vectors."],
    ]


def test_tuned_values_on_the_edge_of_what_was_tried_are_named(tmp_path: Path) -> None:
    results = few(seeds=2)
    first, second = (seed["tuned"] for seed in results["seeds"])
    for tuned in (*first.values(), *second.values()):
        tuned.clear()
        tuned |= {"bidis": {"lambda_": 0.0}, "vbs-tuned": {"length_exponent": 0.0, "word_reward": 3.9}}
    assert "On the edge" not in Report(results, tmp_path).words
    first["10"]["bidis"]["lambda_"] = second["10"]["bidis"]["lambda_"] = 10.0
    second["50"] |= {"bidis": {"lambda_": 10.0}, BIDIA: {"T": 60}, "bidia wmd_t": {"T": 2}}

    edges = (
        "lambda of bidis (10) at N_B = 10 and 50; T of bidia bleu_t (60) at N_B = 50; T of bidia wmd_t (2)"
    )
    assert edges in Report(results, tmp_path).words
    assert EDGES == {"lambda_": (10,), "length_exponent": (4,), "word_reward": (4,), "T": (2, 60)}


def test_an_evaluation_has_scores_and_tests_but_no_beam_sizes(tmp_path: Path) -> None:
    results = {"format_version": 1, "sources": 300, **made_evaluation()}
    results["tests"] = [{**test, "beam_size": 25} for test in results["tests"]]

    report = Report(results, tmp_path)

    assert report.sections == [TITLES[0], TITLES[9]]
    assert report.written.figures == []
    value = results["systems"]["bidis"]["scores"]["bleu"]["value"]
    assert report.row("Scores", "bidis")[1] == f"{value:.2f}"
    assert len(report.tables["Paired tests"]) == len(results["tests"])
    assert report.tables["Data and command"] == [["test sources answered", "300"]]
    assert "N_B" not in report.words


def test_analyses_alone_are_reported(tmp_path: Path) -> None:
    results = made_analyses()
    results["signatures"] = {"vbs": {"25": "strategy:vbs|beam_size:25"}}
    del results["analyses"]["headroom"]
    results["analyses"]["diversity"]["systems"]["vbs"]["beam_size"] = 25

    report = Report(results, tmp_path)

    assert report.sections == [*TITLES[4:]]
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
    assert report.row("Places chosen", "oracle") == [
        "oracle",
        "75.0 %",
    ]  # a column without values is left out
    assert report.row("Diversity", "vbs") == ["vbs", "0.2000"]
    assert report.row("Measured", "vbs") == ["vbs", "1.00"]
    assert report.row("All options", BIDIA) == [BIDIA, "order", "4", "1.50"]
    assert "<svg class" not in report.html  # no matrix, no heat map


def test_a_section_without_numbers_is_left_out(tmp_path: Path) -> None:
    names = ("constant", "ranks", "diversity", "positions", "cost", "sensitivity")

    report = Report(without(made_results(systems=FEW), *names), tmp_path)

    assert report.sections == [*TITLES[:3], *TITLES[9:]]


NO_NUMBERS = {"bleu": {"value": None, "signature": "x"}, "chrf": {"value": float("nan"), "signature": "x"}}


@pytest.mark.parametrize(
    ("systems", "scores"),
    [
        (SYSTEMS, NO_NUMBERS),
        (SYSTEMS, {"bleu": {"value": 0.0}}),
        (SYSTEMS, {"my_metric": {"value": 0.123456, "signature": "x"}}),
        ((BIDIA,), {}),
        (SYSTEMS, None),  # and nothing besides: no corpus, no paper
    ],
)
def test_whatever_is_missing_the_rest_is_reported(
    systems: tuple[str, ...], scores: dict[str, Any] | None, tmp_path: Path
) -> None:
    results = without(made_results(), "examples", *DRAWN)
    (seed,) = results["seeds"]
    seed["systems"] = {name: seed["systems"][name] for name in systems}
    for entry in seed["systems"].get("vbs", {}).values():
        entry["scores"] |= scores or {}
    if scores is None:
        results = {"seeds": [{"systems": seed["systems"]}], "constant": results["constant"]}

    report = Report(results, tmp_path)

    assert report.sections[0] == "Summary"
    value = seed["systems"][BIDIA]["50"]["scores"]["bleu"]["value"]
    assert report.row(SCORES, BIDIA)[1].split()[0] == f"{value:.2f}"
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", report.words)
    if scores is None:
        assert " paper " not in report.html
        assert "The paper claims" not in report.words
