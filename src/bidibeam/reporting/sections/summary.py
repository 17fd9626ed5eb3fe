"""The main table, the tests, and what of a gain is more than length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bidibeam.evaluation.systems import BASELINES
from bidibeam.reporting.blocks import Block, Cell, Column, Section, Table, beside, text_column
from bidibeam.reporting.numbers import (
    DIGITS,
    LABELS,
    NOTHING,
    TWO,
    averaged,
    fixed,
    joined,
    mean,
    metric_text,
    number,
    over_seeds,
    p_text,
    percent,
    plain,
)
from bidibeam.reporting.results import NO_SIZE, Results
from bidibeam.reporting.sections.gains import gains_sentences, gains_table
from bidibeam.reporting.sections.intervals import (
    TESTS,
    compared,
    headroom_reach,
    interval_label,
    interval_text,
    reach_text,
)

HEADROOM = "headroom captured"
SEVERAL_INTERVALS = (
    "Each seed's interval is a bootstrap over sources; their reach goes from the lowest end to the highest "
    "and is no interval of the mean."
)


def summary(results: Results) -> Section | None:
    """All systems at the largest N_B."""
    if not results.systems:
        return None
    size = results.largest
    blocks: list[Block] = [_scores_table(results, size)]
    tests = _tests_table(results, size)
    blocks.extend(table for table in (gains_table(results, size), tests) if table is not None)
    sentences = [
        _setting(results, size),
        *_weights(results),
        *gains_sentences(results, size),
        *_empty(results, size),
    ]
    return Section("summary", "Summary", sentences, blocks)


def _setting(results: Results, size: int) -> str:
    """What was measured on what."""
    content = results.content
    pairs = number((content.get("data") or {}).get("pairs", {}).get("train"))
    parts = [f"{len(results.systems)} system" + ("s" if len(results.systems) > 1 else "")]
    if (sources := number(content.get("sources"))) is not None:
        parts.append(f"answered {sources:,.0f} {'test ' if 'seeds' in content else ''}sources")
    else:
        parts.append("were scored" if len(results.systems) > 1 else "was scored")
    if results.corpus:
        parts.append(f"of {results.corpus}")
    if pairs is not None:
        parts.append(f"after training on {pairs:,.0f} pairs")
    if "seeds" in content:
        count = len(results.seeds)
        parts.append("with one seed" if count == 1 else f"with {count} seeds")
    if size != NO_SIZE:
        several = len(results.sizes) > 1
        parts.append(f"at N_B = {joined(list(map(str, results.sizes)))}")
        return " ".join(parts) + (f"; the tables here are for N_B = {size}." if several else ".")
    return " ".join(parts) + "."


def _weights(results: Results) -> list[str]:
    """Which weights answered, if not the best."""
    if not results.last_step:
        return []
    steps = [f"step {best:,.0f} of {last:,.0f}" for best, last in results.best_steps]
    best = f" (the best was that of {joined(steps)})" if steps else ""
    return [f"The network was {results.last_step}{best}: what answers are its last weights."]


def _empty(results: Results, size: int) -> list[str]:
    """Who had nothing to say."""
    counts = {
        name: mean(entry.get("empty") for entry in results.entries(name, size)) for name in results.systems
    }
    silent = [f"{name} ({plain(count)})" for name, count in counts.items() if count]
    return [f"Empty replies: {joined(silent)}; they count as replies of no words."] if silent else []


def _scores_table(results: Results, size: int) -> Table:
    """Systems by metrics."""
    baselines = [
        name for name in BASELINES if any(test["baseline"] == name for test in _bleu_tests(results, size))
    ]
    columns = [text_column("system"), *_score_columns(results, size)]
    headroom = averaged([one.get("by_beam_size", {}).get(str(size)) for one in results.analyses("headroom")])
    reaches = {name: headroom_reach(results, name, size) for name in headroom or ()}
    has_reach = any(reaches.values())
    if headroom:
        columns.append(Column("share" if has_reach else "headroom captured", HEADROOM if has_reach else ""))
        columns.extend([Column(interval_label(results), HEADROOM)] if has_reach else [])
    columns.extend(Column(name, "p against") for name in baselines)
    rows = []
    for system in results.systems:
        row: list[Cell | str] = [system, *_score_cells(results, system, size)]
        row.extend([percent(headroom[system]) if system in headroom else ""] if headroom else [])
        row.extend([reach_text(reaches.get(system), percent)] if has_reach else [])
        row.extend(_p_cell(results, system, baseline, size) for baseline in baselines)
        rows.append(row)
    at = "" if size == NO_SIZE else f" at N_B = {size}"
    has_interval = _has_interval(results, size)
    notes = _notes(results, has_interval=has_interval, has_headroom=bool(headroom), has_p=bool(baselines))
    return Table(f"Scores{at}", columns, rows, notes)


def _has_interval(results: Results, size: int) -> bool:
    return any(interval_text(results, name, size) for name in results.systems)


def _metrics(results: Results, size: int) -> list[str]:
    """All metrics at an N_B, those that we know first."""
    found = results.metrics(size)
    return [*(name for name in DIGITS if name in found), *(name for name in found if name not in DIGITS)]


def _score_columns(results: Results, size: int) -> list[Column]:
    """A column for each metric; BLEU has its mean, where that is not beside it, and its interval too."""
    columns = []
    for metric in _metrics(results, size):
        columns.append(Column(LABELS.get(metric, metric)))
        if metric == "bleu":
            columns.extend([Column("mean BLEU")] if len(results.seeds) == TWO else [])
            columns.extend([Column(interval_label(results))] if _has_interval(results, size) else [])
    return columns


def _score_cells(results: Results, system: str, size: int) -> list[Cell | str]:
    """A system's cells under those columns."""
    cells: list[Cell | str] = []
    for metric in _metrics(results, size):
        cells.append(_score_cell(results, system, size, metric))
        if metric == "bleu":
            two = len(results.seeds) == TWO
            cells.extend([metric_text(metric, results.mean(system, size))] if two else [])
            cells.extend([interval_text(results, system, size)] if _has_interval(results, size) else [])
    return cells


def _score_cell(results: Results, system: str, size: int, metric: str) -> Cell:
    paper = results.paper.score(system, metric, size) if results.paper else None
    text = over_seeds(metric, results.values(system, size, metric), len(results.seeds))
    if paper is None:
        return Cell(text)
    return beside(text, fixed(paper, 2 if metric == "bleu" else 3))


def _notes(results: Results, *, has_interval: bool, has_headroom: bool, has_p: bool) -> list[str]:
    count = len(results.seeds)
    notes = []
    if count > 1:
        order = " and ".join(f"seed {seed.get('seed', NOTHING)}" for seed in results.seeds)
        two = f"The values of {order}, in this order{'; headroom is a mean' if has_headroom else ''}."
        notes.append(two if count == TWO else f"Mean ± standard deviation over {count} seeds.")
    if has_interval:
        one = "The interval is a bootstrap over sources."
        notes.append(SEVERAL_INTERVALS if count > 1 else one)
    if has_headroom:
        notes.append(
            "Headroom captured is (system - vbs-tuned) / (oracle - vbs-tuned), in BLEU at the same N_B."
        )
    if has_p:
        seeds = ", the largest over seeds" if count > 1 else ""
        notes.append(f"p is that of a paired two-sided test on BLEU by approximate randomisation{seeds}.")
    if results.paper:
        notes.append(f"“Paper” is what Colombo et al. (2021) print for {results.paper.name} at the same N_B.")
    return notes


def _bleu_tests(results: Results, size: int) -> list[Mapping[str, Any]]:
    return [test for test in results.tests(size) if test.get("metric", "bleu") == "bleu"]


def _p_cell(results: Results, system: str, baseline: str, size: int) -> str:
    """The largest p over seeds, by the first kind of test that was made."""
    tests = _bleu_tests(results, size)
    return compared([test for test in tests if (test["system"], test["baseline"]) == (system, baseline)]).p


def _tests_table(results: Results, size: int) -> Table | None:
    """Every paired test at an N_B."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for test in results.tests(size):
        key = (test["system"], test["baseline"], test.get("metric", "bleu"))
        groups.setdefault(key, []).append(test)
    if not groups:
        return None
    kinds = [kind for kind in TESTS if any(kind in test for tests in groups.values() for test in tests)]
    columns = [
        text_column("system"),
        text_column("against"),
        text_column("metric"),
        Column("difference"),
        Column(interval_label(results)),
        *(Column(TESTS[kind], "p") for kind in kinds),
    ]
    rows = [
        [system, baseline, LABELS.get(metric, metric), *_test_cells(metric, tests, kinds)]
        for (system, baseline, metric), tests in groups.items()
    ]
    several = len(results.seeds) > 1
    notes = (
        ["Mean difference over seeds; the lowest and the highest end of their intervals; the largest p."]
        if several
        else []
    )
    return Table("Paired tests", columns, rows, notes, is_folded=True)


def _test_cells(metric: str, tests: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> list[str]:
    found = compared(tests)
    return [
        metric_text(metric, found.difference),
        reach_text(found.reach, lambda value: metric_text(metric, value)),
        *(p_text(found.p_values[kind]) if kind in found.p_values else "" for kind in kinds),
    ]
