"""The report's numbers: those of the results, the paper's beside them, and what they say of a gain."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.unit.reporting.made_results import SYSTEMS, made_results
from tests.unit.reporting.reports import DRAWN, Report, without


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return Report(made_results(seeds=3, chance=1), tmp_path_factory.mktemp("several"))


def test_the_main_table_has_the_scores_with_interval_headroom_and_tests(single: Report) -> None:
    (seed,) = single.results["seeds"]
    for name in SYSTEMS:
        scores = {metric: score["value"] for metric, score in seed["systems"][name]["50"]["scores"].items()}
        bleu = seed["systems"][name]["50"]["scores"]["bleu"]
        cells = [re.sub(r" paper .*", "", cell) for cell in single.row("Scores at N_B = 50", name)]
        assert cells[1:8] == [
            f"{scores['bleu']:.2f}",
            f"{bleu['low']:.2f} to {bleu['high']:.2f}",
            f"{scores['sentence_bleu']:.2f}",
            f"{scores['chrf']:.2f}",
            f"{scores['distinct-1']:.4f}",
            f"{scores['distinct-2']:.4f}",
            f"{scores['length_ratio']:.2f}",
        ]
        share = seed["analyses"]["headroom"]["by_beam_size"]["50"].get(name)
        assert cells[8] == ("" if share is None else f"{100 * share:.0f} %")
        p = {
            test["baseline"]: test["approximate_randomisation"]
            for test in seed["tests"]
            if test["system"] == name
        }
        shown = [p.get(baseline) for baseline in ("vbs-tuned", "vbs")]
        expected = ["" if one is None else "< 0.001" if one < 0.001 else f"{one:.3f}" for one in shown]
        assert cells[9:] == expected


def test_the_papers_numbers_stand_beside_ours(single: Report) -> None:
    table = "Scores at N_B = 50"
    assert single.row(table, "vbs")[1].endswith(" paper 1.30")
    assert single.row(table, "oracle")[1].endswith(" paper 2.56")
    assert [cell.partition(" paper ")[2] for cell in single.row(table, "bidia wmd_t")] == [
        *("", "", "", "", ""),
        *("0.054", "0.270"),
        *("", "", "", ""),
    ]
    oracle = "VBS and the best hypothesis in its beam"
    values = [
        single.results["seeds"][0]["systems"]["vbs"][size]["scores"]["bleu"]["value"]
        for size in ("1", "6", "10", "50")
    ]
    assert single.row(oracle, "vbs (VBS)")[1:] == [
        f"{value:.2f} paper {paper}"
        for value, paper in zip(values, ("1.19", "1.23", "1.30", "1.30"), strict=True)
    ]
    assert "The paper claims +9 % over VBS on Cornell" in single.words


def test_beam_sizes_that_the_paper_does_not_have_are_all_shown(tmp_path: Path) -> None:
    results = without(made_results(systems=("vbs", "oracle")), *DRAWN)
    for sizes in results["seeds"][0]["systems"].values():
        for size in [size for size in sizes if size not in ("1", "2", "5")]:
            del sizes[size]

    row = Report(results, tmp_path).row("VBS and the best hypothesis in its beam", "vbs (VBS)")

    assert len(row) == 4


def test_several_seeds_are_a_mean_and_a_standard_deviation(several: Report) -> None:
    values = [
        seed["systems"]["bidia bleu_t"]["50"]["scores"]["bleu"]["value"] for seed in several.results["seeds"]
    ]
    largest = max(
        test["approximate_randomisation"]
        for seed in several.results["seeds"]
        for test in seed["tests"]
        if (test["system"], test["baseline"]) == ("bidia bleu_t", "vbs")
    )
    row = several.row("Scores at N_B = 50", "bidia bleu_t")

    assert row[1] == f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f}"
    assert row[-1] == f"{largest:.3f}"
    assert "Mean ± standard deviation over 3 seeds." in several.words
    scores = [seed["systems"]["bidia bleu_t"]["50"]["scores"]["bleu"] for seed in several.results["seeds"]]
    reach = f"{min(score['low'] for score in scores):.2f} to {max(score['high'] for score in scores):.2f}"
    assert row[2] == reach
    assert several.row("Reach of the 95 % intervals of corpus BLEU-4 by N_B", "bidia bleu_t")[-1] == reach
    assert (
        "their reach goes from the lowest end to the highest and is no interval of the mean" in several.words
    )


def test_a_system_that_some_seeds_lack_says_how_many_it_has(tmp_path: Path) -> None:
    results = without(made_results(seeds=3), *DRAWN)
    del results["seeds"][1]["systems"]["longest"]

    row = Report(results, tmp_path).row("Scores at N_B = 50", "longest")

    assert row[1].endswith("(n = 2)")


@pytest.mark.usefixtures("undrawn")
def test_signatures_of_several_seeds_say_whose_they_are(tmp_path: Path) -> None:
    results = without(made_results(seeds=2, systems=("vbs",)), *DRAWN)
    results["seeds"][1]["systems"]["vbs"]["50"]["signature"] = "strategy:vbs|model:other"

    report = Report(results, tmp_path)

    assert report.row("Signatures", "vbs, N_B = 50, seed 1")[1] == "strategy:vbs|model:other"
    sizes = "1, 2, 5, 6, 10, 20, 30, 40 and 50"
    assert report.row("Signatures", f"vbs, N_B = {sizes}, seed 0")[1] == "strategy:vbs"


def test_what_remains_of_the_gain_is_told(single: Report) -> None:
    (seed,) = single.results["seeds"]
    bleu = {name: seed["systems"][name]["50"]["scores"]["bleu"]["value"] for name in SYSTEMS}
    matched = seed["analyses"]["diversity"]["systems"]["bidia bleu_t"]["matched"]["bleu"]
    gain = bleu["bidia bleu_t"] - bleu["vbs"]
    over_tuned, over_matched = bleu["bidia bleu_t"] - bleu["vbs-tuned"], bleu["bidia bleu_t"] - matched

    assert f"bidia bleu_t is {gain:.2f} BLEU above vbs; of this gain {over_tuned:.2f} " in single.words
    assert f"({100 * over_tuned / gain:.0f} %) remains over vbs-tuned (p = " in single.words
    assert (
        f"{over_matched:.2f} ({100 * over_matched / gain:.0f} %) remains over a VBS of the same length"
        in (single.words)
    )
    assert single.row("Gain in BLEU at N_B = 50: how much is more than length", "bidia bleu_t")[1:4] == [
        f"+{gain:.2f}",
        f"+{over_tuned:.2f}",
        f"{100 * over_tuned / gain:.0f} %",
    ]


def with_bleu(name: str, bleu: float) -> dict[str, Any]:
    results = without(made_results(), *DRAWN)
    (seed,) = results["seeds"]
    seed["systems"][name]["50"]["scores"]["bleu"]["value"] = bleu
    seed["analyses"]["diversity"]["systems"][name]["bleu"] = bleu
    return results


@pytest.mark.usefixtures("undrawn")
def test_a_gain_that_is_none_is_called_none(tmp_path: Path) -> None:
    report = Report(with_bleu("bidia bleu_t", 0.1), tmp_path)

    assert re.search(r"bidia bleu_t has 0.10 BLEU, -0\.\d\d against vbs: there is no gain", report.words)


@pytest.mark.usefixtures("undrawn")
def test_a_gain_that_is_all_length_is_said_to_be(tmp_path: Path) -> None:
    results = with_bleu("bidia bleu_t", 1.0)
    results["seeds"][0]["analyses"]["diversity"]["systems"]["bidia bleu_t"]["matched"] |= {
        "bleu": 1.5,
        "length_ratio": 0.4,
    }

    report = Report(results, tmp_path)

    assert re.search(r"of this gain nothing remains over vbs-tuned \(-1\.\d\d, p ", report.words)
    assert "nothing remains over a VBS of the nearest length that it reaches (-0.50, length " in report.words


def test_the_other_tables_have_the_fixtures_numbers(single: Report) -> None:
    analyses = single.results["seeds"][0]["analyses"]
    diversity = analyses["diversity"]["systems"]["bidia wmd_t"]
    assert single.row("Diversity at N_B = 50", "bidia wmd_t")[5:] == [
        f"{diversity['matched']['length_ratio']:.2f}",
        f"{diversity['matched']['bleu']:.2f}",
        f"{diversity['matched']['distinct-1']:.4f}",
        f"{diversity['matched']['distinct-2']:.4f}",
        f"{diversity['same_words']['distinct-1']:.4f}",
        f"{diversity['same_words']['distinct-2']:.4f}",
    ]
    ranks = analyses["ranks"]["systems"]["oracle"]
    share = f"{100 * ranks['counts'][0] / sum(ranks['counts']):.1f} %"
    assert single.row("Places chosen", "oracle")[1:] == [share, f"{ranks['mean']:.1f}", "6.0", "1.3"]
    cost = analyses["cost"]["rows"][3]
    assert single.row("Measured (on NVIDIA H200, N_B = 50, sources: 256, turns: 3)", "bidia wmd_t")[1:] == [
        f"{cost['ms_a_source']:.2f}",
        f"{cost['ratio']:.2f}",
        "612",
        "625",
        "12",
    ]
    left = single.results["positions"]["from"]["left"][0]
    assert single.row("Words at the first positions", "left", "1")[2:5] == [
        "7,001",
        "6.20",
        str(left["above_1000"]),
    ]
    row = analyses["sensitivity"]["rows"][3]
    assert (
        single.row("All options at N_B = 50", "bidia bleu_t", "T", "20 (default)")[3] == f"{row['bleu']:.2f}"
    )


def test_all_that_made_the_numbers_is_there(single: Report) -> None:
    (seed,) = single.results["seeds"]
    facts = dict(row for row in single.tables["Data and command"])
    assert facts["data fingerprint"] == "0f1e2d3c4b5a6978"
    assert facts["command"] == single.results["command"]
    assert facts["train pairs"] == "163,101"
    assert dict(single.tables["Training"])["steps"] == "20,311"
    assert single.row("Perplexity of the test references", "regular")[1] == (
        f"{seed['perplexity']['regular']['value']:.2f}"
    )
    tuned = seed["tuned"]["50"]
    assert single.row("Settings tuned on validation", "50")[1:] == [
        f"{tuned['bidis']['lambda_']:g}",
        "1.2",
        f"{tuned['vbs-tuned']['word_reward']:g}",
    ]
    signatures = {row[1] for row in single.tables["Signatures"]}
    scored = [entry for sizes in seed["systems"].values() for entry in sizes.values()]
    assert signatures == {
        *(f"strategy:{name}" for name in SYSTEMS),  # at every N_B
        *(score["signature"] for entry in scored for score in entry["scores"].values()),
        *(score["signature"] for score in seed["perplexity"].values()),
        *(test["signature"] for test in seed["tests"]),
    }
    assert dict(single.tables["All settings"])["search.length_exponent"] == "0.6"


def test_a_constant_reply_stands_beside_the_systems(single: Report) -> None:
    constant = single.results["constant"]
    scores = {
        name: by_size["50"]["scores"] for name, by_size in single.results["seeds"][0]["systems"].items()
    }

    behind = [name for name, each in scores.items() if each["bleu"]["value"] <= constant["chosen"]["bleu"]]
    assert 1 < len(behind) < len(scores)
    told = f"{', '.join(behind[:-1])} and {behind[-1]} are no better than that."
    assert f"By BLEU at N_B = 50 {told}" in single.words
    assert "has 1.25 BLEU and 0.80 of the references' length; 0 references are exactly this" in single.words
    assert single.tables["The best constant replies"] == [
        ["no. <i> don't know.", "chosen", "1.50", "1.25", "1.05 to 1.45", "0.80", "0"],
        ["i don't | know.", "", "1.40", "1.30", "1.10 to 1.50", "0.80", "12"],
        ["what?", "commonest in training", "0.00", "0.00", "-0.20 to 0.20", "0.80", "26"],
    ]
