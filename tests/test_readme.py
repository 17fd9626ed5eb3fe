"""The README: its commands exist with those options, and its numbers are those of the committed results."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from pathlib import Path

import click
import pytest

from bidibeam.cli.main import COMMANDS, LazyCommand
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES

ROOT = Path(__file__).parents[1]
SIDES = ("source", "response")
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("nbest", "strategies", "reproduce", "hf")),
]
CALLS = sorted(
    {
        call.split("#")[0].strip()
        for page in PAGES
        for call in re.findall(
            r"^(?:echo [^|]*\| )?(bidibeam (?:\w+) [^\n|>]*)", page.read_text(), flags=re.MULTILINE
        )
    }
)


@pytest.mark.parametrize("call", CALLS)
def test_every_command_in_the_documentation_parses(call: str) -> None:
    _, name, *arguments = shlex.split(call)

    command = LazyCommand(name, *COMMANDS[name]).load()
    context = command.make_context(name, arguments)

    assert isinstance(context, click.Context)


def test_the_documentation_has_commands() -> None:
    assert len(CALLS) > 6


def test_the_demos_numbers_are_those_of_the_committed_results() -> None:
    results = json.loads((ROOT / "results" / "demo" / "results.json").read_text())
    block = README.split("<!-- demo -->")[1].split("```")[1]
    (seed,) = results["seeds"]

    assert f"{results['sources']} held-out sources, N_B = 50" in block
    for name, sizes in seed["systems"].items():
        (row,) = re.findall(rf"^ *{re.escape(name)}  +([^\n]*)", block, flags=re.MULTILINE)
        assert row.split() == [f"{score['value']:.4g}" for score in sizes["50"]["scores"].values()]
    for name, value in seed["training"].items():
        shown = f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
        assert re.search(rf"{name} +{re.escape(shown)}", block)


def test_the_speeds_are_those_of_the_committed_results() -> None:
    results = json.loads((ROOT / "results" / "training" / "h200-cornell.json").read_text())["results"]
    section = README.split("<!-- speed -->")[1].split("## ")[0]

    for result in results:
        row = f"| {result['variant']} | {result['best_epoch_s']:.1f} s | {result['tokens_per_s']:,.0f} |"
        assert row in section
    search = json.loads((ROOT / "results" / "search" / "cpu.json").read_text())["rows"]
    ratios = {(row["batch"], row["beam"]): row["ratio"] for row in search}
    for (batch, beam), ratio in ratios.items():
        assert f"| {batch} x {beam} | {ratio:.2f} |" in section


def test_the_strategies_costs_are_those_of_the_committed_results() -> None:
    cpu, gpu = (
        json.loads((ROOT / "results" / "strategies" / f"{name}.json").read_text())["rows"]
        for name in ("cpu", "h200")
    )
    measured = {row["strategy"]: f"{row['ratio']:.2f}" for row in gpu}

    for on_cpu in cpu:
        ratios = f"{on_cpu['ratio']:.2f} | {measured.get(on_cpu['strategy'], '-')}"
        work = f"{on_cpu['projected_rows']:.0f} | {on_cpu['compared_pairs']:.0f}"
        row = f"| {on_cpu['strategy']} | {ratios} | {work} | {on_cpu['exact_transports']:.2f} |"
        assert row in README


def test_the_other_runs_on_a_cpu_are_told_as_well() -> None:
    runs = json.loads((ROOT / "results" / "strategies" / "cpu-history.json").read_text())
    first, second = ({row["strategy"]: f"{row['ratio']:.2f}" for row in run["rows"]} for run in runs)

    assert (
        f"BidiS took {first['bidis']} and {second['bidis']} and BidiA {first['bidia bleu_t']} and "
        f"{second['bidia bleu_t']} (`cpu-history.json`)"
    ) in TOLD


def test_the_gpus_ratios_are_those_of_the_committed_runs() -> None:
    folder = ROOT / "results" / "strategies"
    runs = [
        *json.loads((folder / "h200-history.json").read_text()),
        json.loads((folder / "h200.json").read_text()),
    ]
    page = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    for number, run in enumerate(runs, start=1):
        rows = {row["strategy"]: row for row in run["rows"]}
        ratios = [
            f"{rows[strategy]['ratio']:.2f}" if strategy in rows else "-"
            for strategy in ("bidis", "bidia bleu_t", "bidia wmd_t")
        ]
        assert f"| {number} | {rows['vbs']['ms_a_source']:.2f} | {' | '.join(ratios)} |" in page
    bidis, bleu, wmd = ratios
    assert f"is the last of {len(runs)} runs on the H200" in page
    assert (
        f"BidiA takes {bleu} (bleu_t) and {wmd} (wmd_t) times as long as VBS, and BidiS {bidis} times."
        in TOLD
    )


def test_searches_over_hugging_face_models_are_as_much_faster_as_it_says() -> None:
    wide, narrow, gpu = (
        json.loads((ROOT / "results" / "hf" / f"{name}.json").read_text())["cells"]
        for name in ("cpu", "cpu-avx2", "h200")
    )

    assert "at beams of 25 and 50 on one thread of a CPU in half the time or less, and at 50 on a GPU" in TOLD
    assert min(cell["times_ours"]["generate"] for cell in narrow if cell["beam_size"] >= 25) > 2
    assert "in less than a third" in TOLD
    assert min(cell["times_ours"]["generate"] for cell in wide if cell["beam_size"] >= 25) > 2
    assert min(cell["times_ours"]["generate"] for cell in gpu) > 3


def test_the_time_of_a_reply_is_that_of_the_committed_results() -> None:
    rows = json.loads((ROOT / "results" / "bundled" / "cpu.json").read_text())["rows"]
    small, large = (f"{row['median_ms']:.0f} ms" for row in rows)

    assert f"answers in {small} with N_B = 10 and {large} with 50" in TOLD


def test_the_times_of_evaluation_are_those_of_the_committed_results() -> None:
    found = json.loads((ROOT / "results" / "evaluation" / "cpu.json").read_text())
    evaluate, report, bleu, tests = (row["median_s"] for row in found["rows"])

    assert (
        f"on {found['signature']['sources']:,} sources with {found['signature']['hypotheses'] // 2} hyp"
        in TOLD
    )
    assert f"in each direction takes {evaluate:.0f} s" in TOLD
    assert f"on the results of Cornell takes {report:.1f} s" in TOLD
    assert f"sacreBLEU takes {tests:.0f} s for its own paired tests" in TOLD
    assert f"and {bleu:.1f} s for their BLEU alone" in TOLD


def test_the_similarities_speeds_are_those_of_the_committed_results() -> None:
    results = json.loads((ROOT / "results" / "similarities" / "cpu.json").read_text())

    for kind, column in (("bleu_t", "times_matrix"), ("wmd_t", "times_closest")):
        ours, peers = results[kind]["rows"][:2], results[kind]["rows"][2:]
        for peer in peers:
            assert f"| {peer['name']} | {peer['how']} | {peer[column][0]:.0f} |" in README
        assert f"{ours[0]['ms']:.3f} ms" in README
        assert f"{results[kind]['first_call_s']['compiling']:.0f} s" in README


def test_the_similarities_that_are_documented_are_those_there_are() -> None:
    page = (ROOT / "docs" / "strategies.md").read_text(encoding="utf-8")

    for registry in (SIMILARITIES, STRATEGIES):
        for name in registry.names():
            assert re.search(rf"^\| `{re.escape(name)}`", page, flags=re.MULTILINE), name


def test_the_numbers_of_the_corpora_are_those_of_the_committed_results() -> None:
    for corpus, told in (("cornell", "212,808 pairs with both sides"), ("swda", "98,914 turn pairs")):
        statistics = json.loads((ROOT / "results" / "corpora" / f"{corpus}.json").read_text())["statistics"]
        too_long = [drops[f"{side}_too_long"] for drops in statistics["dropped"].values() for side in SIDES]
        non_empty = sum(statistics["pairs"].values()) + sum(too_long)
        assert told.startswith(f"{non_empty:,}")
        assert told in README
    training = json.loads((ROOT / "results" / "training" / "h200-cornell.json").read_text())
    assert f"{training['signature']['data']['pairs']['train']:,} pairs" in README


def test_the_main_table_is_that_of_the_committed_results() -> None:
    namespace = runpy.run_path(str(ROOT / "scripts" / "results_table"))

    assert namespace["table"]() in README


def test_the_page_of_settings_is_up_to_date() -> None:
    namespace = runpy.run_path(str(ROOT / "scripts" / "settings_page"))

    assert namespace["page"]() == (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


README = (ROOT / "README.md").read_text(encoding="utf-8")
TOLD = " ".join(README.split())
