"""The report of results that lack something: the rest is reported, or one sentence says why not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bidibeam.errors import InputError
from bidibeam.reporting.report import write_report
from tests.unit.reporting.made_results import made_analyses, made_evaluation, made_results
from tests.unit.reporting.reports import DRAWN, TITLES, Report, without


def test_an_evaluation_has_scores_and_tests_but_no_beam_sizes(tmp_path: Path) -> None:
    results = {"format_version": 1, "sources": 300, **made_evaluation()}
    results["tests"] = [{**test, "beam_size": 25} for test in results["tests"]]

    report = Report(results, tmp_path)

    assert report.sections == ["Summary", "How the numbers were made"]
    assert report.written.figures == []
    value = results["systems"]["bidis"]["scores"]["bleu"]["value"]
    assert report.row("Scores", "bidis")[1] == f"{value:.2f}"
    assert len(report.tables["Paired tests"]) == len(results["tests"])
    assert "11 systems answered 300 sources." in report.words
    assert "N_B" not in report.words


def test_analyses_alone_are_reported(tmp_path: Path) -> None:
    results = made_analyses()
    results |= {
        "left_out": {
            "systems": {"bidis": "It needs log-probabilities."},
            "analyses": {"headroom": "It needs the system 'oracle'."},
        },
        "signatures": {"vbs": {"25": "strategy:vbs|beam_size:25"}},
    }
    del results["analyses"]["headroom"]
    results["analyses"]["diversity"]["systems"]["vbs"]["beam_size"] = 25

    report = Report(results, tmp_path)

    assert report.sections == [*TITLES[4:]]
    assert report.tables["What could not be made"] == [
        ["system", "bidis", "It needs log-probabilities."],
        ["analysis", "headroom", "It needs the system 'oracle'."],
    ]
    assert report.tables["Signatures"] == [["vbs, N_B = 25", "strategy:vbs|beam_size:25"]]
    assert [row[1] for row in report.tables["Diversity"][:2]] == ["25", "50"]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("headroom", None),
        ("constant", TITLES[3]),
        ("ranks", TITLES[4]),
        ("diversity", TITLES[5]),
        ("positions", TITLES[6]),
        ("cost", TITLES[7]),
        ("sensitivity", TITLES[8]),
        ("examples", TITLES[10]),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_a_section_without_numbers_is_left_out(name: str, title: str | None, tmp_path: Path) -> None:
    report = Report(without(made_results(systems=("vbs", "vbs-tuned", "oracle")), name, *DRAWN), tmp_path)

    assert title not in report.sections
    assert report.sections[0] == "Summary"
    assert [path.stem for path in report.written.figures] == ["bleu", "bleu"]


def one_system(results: dict[str, Any]) -> None:
    results["seeds"][0]["systems"] = {"bidia bleu_t": results["seeds"][0]["systems"]["bidia bleu_t"]}


def no_tests(results: dict[str, Any]) -> None:
    results["seeds"][0]["tests"] = []


def no_tuned(results: dict[str, Any]) -> None:
    del results["seeds"][0]["tuned"]


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


def one_size(results: dict[str, Any]) -> None:
    for sizes in results["seeds"][0]["systems"].values():
        for size in [size for size in sizes if size != "50"]:
            del sizes[size]


def unknown_corpus(results: dict[str, Any]) -> None:
    results["corpus"] = results["data"]["corpus"] = "chitchat"


def another_metric(results: dict[str, Any]) -> None:
    for sizes in results["seeds"][0]["systems"].values():
        for entry in sizes.values():
            entry["scores"]["my_metric"] = {"value": 0.123456, "signature": "x"}


@pytest.mark.parametrize(
    "change",
    [
        one_system,
        no_tests,
        no_tuned,
        only_systems,
        no_numbers,
        zero_vbs,
        one_size,
        unknown_corpus,
        another_metric,
    ],
)
def test_whatever_is_missing_the_rest_is_reported(
    change: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    results = without(made_results(), *DRAWN)
    change(results)

    report = Report(results, tmp_path)

    assert report.sections[0] == "Summary"
    name = "bidia bleu_t"
    value = results["seeds"][0]["systems"][name]["50"]["scores"]["bleu"]["value"]
    assert report.row("Scores at N_B = 50", name)[1].split()[0] == f"{value:.2f}"
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", report.words)


def test_an_unknown_corpus_has_no_paper_beside_it(tmp_path: Path) -> None:
    results = without(made_results(), *DRAWN)
    unknown_corpus(results)

    report = Report(results, tmp_path)

    assert " paper 1.30" not in report.html
    assert "The paper claims" not in report.words
    assert "paper:" not in (tmp_path / "figures" / "bleu.svg").read_text()


def sparse(**analyses: Any) -> dict[str, Any]:
    """Analyses with the least that each can have."""
    return {"analyses": analyses}


def test_analyses_that_lack_half_of_their_facts_are_reported_all_the_same(tmp_path: Path) -> None:
    report = Report(
        sparse(
            ranks={"systems": {"oracle": {"counts": [3, 1]}}},
            diversity={
                "systems": {"vbs": {"distinct-2": 0.2, "matched": None}, "longest": {"distinct-2": 0.3}}
            },
            cost={"rows": [{"strategy": "vbs", "ratio": 1.0}]},
            sensitivity={"rows": [{"system": "bidia bleu_t", "option": "order", "value": "4", "bleu": 1.5}]},
            examples={"examples": [{"source": "hi", "replies": {"vbs": "ho"}}]},
        ),
        tmp_path,
    )

    assert report.sections == [TITLES[4], TITLES[5], TITLES[7], TITLES[8], TITLES[10]]
    assert report.row("Places chosen", "oracle") == ["oracle", "75.0 %", "-", "-", "-"]
    assert report.row("Diversity", "vbs") == ["vbs", "-", "0.2000", "-", "-"]
    assert "The highest distinct-2 is that of longest, 0.3000." in report.words
    assert report.row("Measured", "vbs") == ["vbs", "-", "1.00"]
    assert report.row("All options", "bidia bleu_t") == ["bidia bleu_t", "order", "4", "1.50"]
    assert "<svg class" not in report.html  # no matrix, no heat map


def test_a_system_far_below_the_baseline_is_told_of_where_it_is_not_drawn(tmp_path: Path) -> None:
    shares = {"2": {"vbs": -3.0, "bidis": None}, "10": {"vbs": -0.25, "bidis": -0.5}}
    report = Report(sparse(headroom={"baseline": "vbs-tuned", "by_beam_size": shares}), tmp_path)

    assert "What lies below -60 % is not drawn; the table has it." in report.words
    assert "At N_B = 10 nothing but the oracle is better than vbs-tuned." in report.words
    assert report.tables["Headroom captured by N_B"] == [["vbs", "-300 %", "-25 %"], ["bidis", "-", "-50 %"]]


def damaged(path: str, value: object) -> dict[str, Any]:
    results = made_results()
    place: Any = results
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in way:
        place = place[step]
    place[last] = value
    return results


@pytest.mark.parametrize(
    ("results", "told"),
    [
        ({}, "There is nothing to report: these results have no systems and no analyses."),
        ({"format_version": 2, **made_evaluation()}, "format_version 2, and this bidibeam reads 1"),
        ({"seeds": "all"}, "`seeds` must be a list of objects"),
        (damaged("seeds.0.analyses.ranks.systems.oracle", {}), "section 'ranks' cannot be made: .*'counts'"),
        (damaged("seeds.0.systems.vbs", ["x"]), "section 'summary' cannot be made: .*"),
        (damaged("positions.from.left.0.counts", ["many"]), "figure 'positions' cannot be made: .*"),
    ],
)
def test_results_that_cannot_be_reported_are_refused_in_a_sentence(
    results: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=told):
        write_report(results, tmp_path / "report")

    assert list(tmp_path.iterdir()) == []
