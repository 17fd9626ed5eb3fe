"""The report as files: what stands in it, and that it needs nothing else."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bidibeam.errors import InputError
from bidibeam.reporting import plots
from bidibeam.reporting.report import held, inline_svg, markdown, write_report
from tests.unit.reporting.made_results import HOSTILE, SYSTEMS, made_analyses, made_evaluation, made_results
from tests.unit.reporting.pages import markdown_tables
from tests.unit.reporting.reports import DRAWN, NBSP, Report, without

FIGURES = ("bleu", "headroom", "ranks", "positions", "penalty", "options")
TITLES = (
    "Summary",
    "BLEU-4 against N_B",
    "VBS, Best Hypothesis and the headroom between",
    "Rank of the reply in the beam",
    "Diversity of the replies",
    "Words by position",
    "Cost",
    "Sensitivity to what the paper leaves open",
    "How the numbers were made",
    "Examples",
)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return Report(made_results(), tmp_path_factory.mktemp("single"))


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return Report(made_results(seeds=3, chance=1), tmp_path_factory.mktemp("several"))


def test_a_whole_experiment_has_every_section_and_every_figure(single: Report) -> None:
    assert tuple(single.sections) == TITLES
    assert [path.name for path in single.written.figures] == [
        f"{name}.{form}" for name in FIGURES for form in ("svg", "png")
    ]
    assert sorted(path.name for path in single.folder.iterdir()) == ["figures", "report.html", "report.md"]
    assert re.findall(r"^## \d+\. (.*)$", single.markdown, flags=re.MULTILINE) == list(TITLES)


def test_every_figure_is_a_valid_file_that_the_document_links(single: Report) -> None:
    linked = re.findall(r"!\[[^\]]*\]\((.*?)\)", single.markdown)

    assert linked == [f"figures/{name}.svg" for name in FIGURES]
    for path in single.written.figures:
        content = path.read_bytes()
        if path.suffix == ".svg":
            assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
        else:
            assert content.startswith(b"\x89PNG\r\n")
            assert int.from_bytes(content[16:20], "big") <= 1200
    assert len(single.written.figures) == 2 * len(FIGURES)


def test_no_letter_in_a_figure_is_smaller_than_nine_points(single: Report) -> None:
    for path in single.written.figures:
        if path.suffix == ".svg":
            sizes = [float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", path.read_text())]
            assert sizes
            assert min(sizes) >= 9


def test_the_page_needs_nothing_else(single: Report) -> None:
    assert [link for link in single.page.links if not link.startswith("#")] == []
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(single.page.tags)
    assert re.findall(r"url\((?!#)[^)]*\)|@import", single.html) == []
    assert set(re.findall(r"https?://[^\s\"'<>]+", single.html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert len(single.html.encode()) < 3_000_000


def test_ids_are_unique_and_every_link_leads_to_one(single: Report) -> None:
    assert len(single.page.ids) == len(set(single.page.ids))
    assert {link.removeprefix("#") for link in single.page.links} <= set(single.page.ids)
    references = set(re.findall(r"url\(#([^)]*)\)", single.html))
    assert references
    assert references <= set(single.page.ids)


def test_text_of_the_corpus_is_shown_and_never_run(single: Report) -> None:
    assert len(single.page.scripts) == 1
    assert "alert" not in single.page.scripts[0]
    assert "<h3>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; | *not bold* $x^2$</h3>" in single.html
    assert "<script>" not in single.markdown
    assert r"&lt;script>alert('x')&lt;/script> &amp; \| \*not bold\* $x^2$" in single.markdown
    assert HOSTILE in single.results["seeds"][0]["analyses"]["examples"]["examples"][0]["source"]


def test_a_hostile_system_is_text_in_tables_and_figures(tmp_path: Path) -> None:
    name = "_<script>$x$"
    report = Report(without(made_results(systems=("vbs", name)), *DRAWN), tmp_path)

    assert len(report.page.scripts) == 1
    assert "<script>$x$" not in report.html
    (picture,) = (path for path in report.written.figures if path.name == "bleu.svg")
    texts = ElementTree.fromstring(picture.read_bytes()).iter("{http://www.w3.org/2000/svg}text")
    assert name in [(text.text or "").strip() for text in texts]


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


def test_a_gain_that_is_none_is_called_none(tmp_path: Path) -> None:
    report = Report(with_bleu("bidia bleu_t", 0.1), tmp_path)

    assert re.search(r"bidia bleu_t has 0.10 BLEU, -0\.\d\d against vbs: there is no gain", report.words)


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


def test_the_document_has_the_same_tables_as_the_page(single: Report) -> None:
    document = markdown_tables(single.markdown)

    for caption, rows in single.tables.items():
        plain = [[re.sub(r"\\(.)", r"\1", cell) for cell in row] for row in document[markdown(caption)]]
        shown = [[cell.replace("(paper ", "paper ").rstrip(")") for cell in row] for row in plain]
        page = [[cell.replace("&", "&amp;").replace("<", "&lt;").rstrip(")") for cell in row] for row in rows]
        assert shown == page, caption


def test_examples_can_be_leafed_through_and_show_their_winning_pair(single: Report) -> None:
    examples = single.results["seeds"][0]["analyses"]["examples"]["examples"]
    articles = re.findall(r"<article>.*?</article>", single.html, flags=re.DOTALL)

    assert len(articles) == single.page.tags.count("option") == 20
    assert single.page.tags.count("button") == 2
    for article, example in zip(articles, examples, strict=True):
        assert article.count('<li class="winner">') == 2
        assert article.count("<li") == 50
        row, column = example["pair"]
        (x, y), *_ = re.findall(r'<rect x="(\d+)" y="(\d+)"', article)
        assert ((int(y) - 33) / 12, (int(x) - 33) / 12) == (row, column)
        assert article.count("h1v1h-1z") == 625
    assert single.markdown.count("| reference |") == 5
    assert "seed" not in single.html.partition("These are the 20 sources")[2].partition("</p>")[0]


def test_the_same_results_give_the_same_bytes_in_another_process(single: Report, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(single.results), encoding="utf-8")
    code = (
        "import json, pathlib, sys; from bidibeam.reporting.report import write_report;"
        "here = pathlib.Path(sys.argv[1]);"
        "write_report(json.loads((here / 'results.json').read_text()), here / 'again')"
    )

    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"})

    def files(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    assert files(tmp_path / "again") == files(single.folder)


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

    assert report.sections == [*TITLES[3:8], *TITLES[8:]]
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
        ("ranks", TITLES[3]),
        ("diversity", TITLES[4]),
        ("positions", TITLES[5]),
        ("cost", TITLES[6]),
        ("sensitivity", TITLES[7]),
        ("examples", TITLES[9]),
    ],
)
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

    assert report.sections == [TITLES[3], TITLES[4], TITLES[6], TITLES[7], TITLES[9]]
    assert report.row("Places chosen", "oracle") == ["oracle", "75.0 %", "-", "-", "-"]
    assert report.row("Diversity", "vbs") == ["vbs", "-", "0.2000", "-", "-"]
    assert "The highest distinct-2 is that of longest, 0.3000." in report.words
    assert report.row("Measured", "vbs") == ["vbs", "-", "1.00"]
    assert report.row("All options", "bidia bleu_t") == ["bidia bleu_t", "order", "4", "1.50"]
    assert "<svg class" not in report.html  # no matrix, no heat map


def test_a_system_far_below_the_baseline_is_told_of_where_it_is_not_drawn(tmp_path: Path) -> None:
    shares = {"2": {"vbs": -3.0, "bidis": None}, "10": {"vbs": -0.25, "bidis": -0.5}}
    report = Report(sparse(headroom={"baseline": "vbs-tuned", "by_beam_size": shares}), tmp_path)

    assert "What lies below -100 % is not drawn; the table has it." in report.words
    assert "At N_B = 10 nothing but the oracle is better than vbs-tuned." in report.words
    assert report.tables["Headroom captured by N_B"] == [["vbs", "-300 %", "-25 %"], ["bidis", "-", "-50 %"]]


def test_beam_sizes_that_the_paper_does_not_have_are_all_shown(tmp_path: Path) -> None:
    results = without(made_results(systems=("vbs", "oracle")), *DRAWN)
    for sizes in results["seeds"][0]["systems"].values():
        for size in [size for size in sizes if size not in ("1", "2", "5")]:
            del sizes[size]

    row = Report(results, tmp_path).row("VBS and the best hypothesis in its beam", "vbs (VBS)")

    assert len(row) == 4


def test_signatures_of_several_seeds_say_whose_they_are(tmp_path: Path) -> None:
    results = without(made_results(seeds=2, systems=("vbs",)), *DRAWN)
    results["seeds"][1]["systems"]["vbs"]["50"]["signature"] = "strategy:vbs|model:other"

    report = Report(results, tmp_path)

    assert report.row("Signatures", "vbs, N_B = 50, seed 1")[1] == "strategy:vbs|model:other"
    sizes = "1, 2, 5, 6, 10, 20, 30, 40 and 50"
    assert report.row("Signatures", f"vbs, N_B = {sizes}, seed 0")[1] == "strategy:vbs"


def test_an_unknown_corpus_has_no_paper_beside_it(tmp_path: Path) -> None:
    results = without(made_results(), *DRAWN)
    unknown_corpus(results)

    report = Report(results, tmp_path)

    assert " paper 1.30" not in report.html
    assert "The paper claims" not in report.words
    assert "paper:" not in (tmp_path / "figures" / "bleu.svg").read_text()


def test_without_matplotlib_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda _: None)

    with pytest.raises(InputError, match=re.escape("pip install 'bidibeam[plots]'")):
        write_report(made_evaluation(), tmp_path / "report")

    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a | b\nc", r"a \| b c"),
        ("*a* `b` [c](d)", r"\*a\* \`b\` \[c\](d)"),
        ("bidia bleu_t _a_", r"bidia bleu_t \_a\_"),
        ("<b> & c", "&lt;b> &amp; c"),
        ("- a", r"\- a"),
        ("-0.5", "-0.5"),
        ("1. a", r"1\. a"),
        ("0.50", "0.50"),
        ("# a", r"\# a"),
    ],
)
def test_markdown_shows_text_as_it_is(text: str, shown: str) -> None:
    assert markdown(text) == shown


def test_neither_an_equation_nor_a_share_is_broken_between_lines() -> None:
    assert held("at N_B = 50, T = 20 and x = 3") == f"at N_B{NBSP}={NBSP}50, T{NBSP}={NBSP}20 and x = 3"
    assert held("30 % of it") == f"30{NBSP}% of it"


def test_an_inlined_figure_keeps_its_references_and_shares_no_id() -> None:
    svg = (
        '<?xml version="1.0"?><!DOCTYPE svg><svg><metadata>http://x</metadata>'
        '<g id="a"/><use xlink:href="#a"/><p clip-path="url(#a)"/></svg>'
    )

    assert inline_svg(svg, "f") == (
        '<svg><g id="f-a"/><use xlink:href="#f-a"/><p clip-path="url(#f-a)"/></svg>'
    )
