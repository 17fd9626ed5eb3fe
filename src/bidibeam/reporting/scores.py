"""Scores of all systems at the largest N_B, their gains, and paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bidibeam.evaluation.systems import BASE, BASELINES, CONTROL
from bidibeam.metrics import DEFAULT_METRIC
from bidibeam.reporting.blocks import (
    Block,
    Cell,
    Column,
    Section,
    Table,
    make_table,
    number_columns,
    text_columns,
)
from bidibeam.reporting.headroom import explain_headroom, format_headroom, headroom_interval, headroom_metric
from bidibeam.reporting.numbers import (
    NOTHING,
    TWO,
    average,
    format_fixed,
    format_interval,
    format_metric,
    format_percent,
    format_seeds,
    format_signed,
    is_tiny,
    join_words,
    label_metric,
    least_base,
    mean,
    to_number,
)
from bidibeam.reporting.results import NO_SIZE, TESTS, Comparison, Results
from bidibeam.strategies.settings import TUNED_VBS
from bidibeam.text import format_value

HEADROOM, P_AGAINST, MATCHED = "headroom captured", "p against", "over vbs at its length ratio"
ROUNDING = 0.005
"""Points of the metric: differences that print alike count as equal."""


def summary(results: Results) -> Section | None:
    """All systems at the largest N_B."""
    if not results.systems:
        return None
    size = results.largest
    at = "" if size == NO_SIZE else f" at N_B = {size}"
    blocks: list[Block] = [_make_scores(results, size, f"Scores{at}")]
    if any(seed.get("recommended") for seed in results.seeds):
        blocks.insert(0, _make_recommended(results, size))
    gains = _make_gains(results, size, f"Gain in {results.label}{at}: how much is more than length")
    blocks += [table for table in (_make_test_sets(results), gains, _make_tests(results, size)) if table.rows]
    return Section("summary", "Summary", blocks, _quote_claim(results, size))


def _make_recommended(results: Results, size: int) -> Table:
    """By seed, the system that validation recommended, on test, beside tuned VBS and its own control."""
    label, metric = results.label, results.metric
    columns = [*text_columns("seed", "recommended"), *number_columns(label)]
    columns += number_columns("gain", "p", group=f"over {TUNED_VBS}")
    columns += number_columns("gain", "p", group="over its control")
    rows: list[list[Cell | str]] = []
    for seed in results.seeds:
        system = str(seed.get("recommended") or NOTHING)
        entry = seed.get("systems", {}).get(system, {}).get(str(size), {})
        value = entry.get("scores", {}).get(metric, {}).get("value")
        row: list[Cell | str] = [str(seed.get("seed", NOTHING)), system, format_metric(metric, value)]
        for other in (TUNED_VBS, f"{system}{CONTROL}"):
            pairs = [
                test
                for test in seed.get("tests", [])
                if (test.get("system"), test.get("baseline")) == (system, other)
                and test.get("metric", metric) == metric
            ]
            compared = Comparison.of(pairs)
            gain = (compared.turned if results.is_lower_better(metric) else compared).difference
            row += ["" if gain is None else format_signed(gain), compared.format_p()]
        rows.append(row)
    note = "Chosen on validation alone, by cross-validation."
    return make_table("What was recommended on validation, on the test set", columns, rows, [note])


def _make_test_sets(results: Results) -> Table:
    """Systems by test sets; means over seeds."""
    metric, sets = results.metric, [seed.get("test_sets", {}) for seed in results.seeds]
    names = [*dict.fromkeys(name for each in sets for name in each)]
    systems = [*dict.fromkeys(system for each in sets for one in each.values() for system in one["scores"])]
    rows: list[list[Cell | str]] = []
    for system in systems:
        values = [
            mean(each[name]["scores"].get(system, {}).get(metric, {}).get("value") for each in sets)
            for name in names
        ]
        rows.append([system, *(format_metric(metric, value) for value in (*values, mean(values)))])
    columns = [*text_columns("system"), *number_columns(*names, "mean")]
    counts = [f"{name} {each['sources']:,}" for name, each in (sets[0] if sets else {}).items()]
    note = f"Means over seeds; sources: {', '.join(counts)}."
    return make_table(f"{results.label} by test set", columns, rows, [note] if counts else [])


def _make_scores(results: Results, size: int, caption: str) -> Table:
    """Systems by metrics, with the share of the headroom and p against the baselines."""
    judge = results.metric
    tests = [test for test in results.tests(size) if test.get("metric", judge) == judge]
    shares = (
        average([one.get("by_beam_size", {}).get(str(size)) for one in results.analyses("headroom")]) or {}
    )
    count, known = len(results.seeds), results.metrics(size)
    metrics = sorted(known, key=lambda name: name != judge)
    after_judge = [*([f"mean {results.label}"] if count == TWO else []), results.interval_label]
    columns = text_columns("system")
    for metric in metrics:
        arrow = " (lower is better)" if results.is_lower_better(metric) else ""
        columns += number_columns(f"{label_metric(metric)}{arrow}", *(after_judge if metric == judge else []))
    columns += number_columns("share", results.interval_label, group=HEADROOM)
    columns += number_columns(*BASELINES, group=P_AGAINST)
    rows = []
    for system in results.systems:
        row: list[Cell | str] = [system]
        for metric in metrics:
            text = format_seeds(metric, results.values(system, size, metric), count)
            row.append(Cell(text, results.paper_score(system, metric, size)))
            if metric == judge:
                means = [format_metric(judge, results.mean(system, size))] if count == TWO else []
                row += [*means, results.interval(system, size)]
        row.append(format_headroom(results, system, size, shares[system]) if system in shares else "")
        row.append(format_interval(headroom_interval(results, system, size), format_percent))
        for baseline in BASELINES:
            pair = [test for test in tests if (test["system"], test["baseline"]) == (system, baseline)]
            row.append(Comparison.of(pair).format_p())
        rows.append(row)

    notes = [str(caveat)] if (caveat := results.content.get("caveat")) else []
    if count == TWO:
        seeds = " and ".join(f"seed {seed.get('seed', NOTHING)}" for seed in results.seeds)
        notes.append(f"The values of {seeds}, in this order; headroom is a mean.")
    elif results.is_mean:
        notes.append(f"Mean ± standard deviation over {count} seeds.")
    empty = {
        name: mean(entry.get("empty") for entry in results.entries(name, size)) for name in results.systems
    }
    if any(empty.values()):
        counts = [f"{name} ({format_value(number)})" for name, number in empty.items() if number]
        notes.append(f"Empty replies: {join_words(counts)}; they count as replies of no words.")
    if results.paper:
        notes.append(f"“Paper” is what Colombo et al. (2021) print for {results.paper.name} at the same N_B.")
    reach = "; their reach, from the lowest end to the highest, is no interval of the mean"
    shares_label = label_metric(headroom_metric(results))
    head_notes = {
        results.interval_label: f"Intervals are bootstraps over sources{reach if results.is_mean else ''}.",
        HEADROOM: f"Headroom captured is (system - vbs-tuned) / (oracle - vbs-tuned), in {shares_label}."
        + "".join(f" {note}" for note in explain_headroom(results, [size])),
        P_AGAINST: f"p is that of a paired two-sided test on {results.label} by approximate randomisation"
        f"{', the largest over seeds' if results.is_mean else ''}.",
    }
    return make_table(caption, columns, rows, notes, head_notes=head_notes)


def compare_matched(analyses: Sequence[Mapping[str, Any]], system: str, metric: str) -> Comparison:
    """Compares a system with a VBS of its length by a metric, over the diversity analyses of all seeds."""
    tests = []
    for one in analyses:
        scores = one.get("systems", {}).get(system) or {}
        matched = scores.get("matched") or {}
        difference = to_number(matched.get("difference"))
        ours, theirs = to_number(scores.get(metric)), to_number(matched.get(metric))
        if difference is None and ours is not None and theirs is not None:
            difference = ours - theirs
        tests.append({**matched, "difference": difference})
    return Comparison.of(tests)


def _make_gains(results: Results, size: int, caption: str) -> Table:
    """The gains of `bidia`, `bidis` and `loglinear`, and what remains of them over stronger baselines."""
    analyses = [one for one in results.analyses("diversity") if one.get("beam_size", size) == size]
    rows = []
    for system in results.systems:
        gain = results.gain(system, BASE, size)
        if gain is None or system.split()[0] not in ("bidia", "bidis", "loglinear"):
            continue
        over_tuned = results.gain(system, TUNED_VBS, size)
        test = compare_matched(analyses, system, results.metric)
        test = test.turned if results.is_lower_better() else test
        scores = average([one.get("systems", {}).get(system) for one in analyses]) or {}
        ratios = [to_number(one.get("length_ratio")) for one in (scores, scores.get("matched") or {})]
        rows.append(
            [
                system,
                format_signed(gain),
                format_signed(over_tuned),
                _format_share(results.metric, over_tuned, gain),
                format_signed(test.difference),
                format_interval(test.interval, format_signed),
                test.format_p(),
                _format_share(results.metric, test.difference, gain),
                "" if None in ratios else " / ".join(format_fixed(ratio, 2) for ratio in ratios),
            ]
        )
    columns = [
        *text_columns("system"),
        Column("gain", "over vbs"),
        *number_columns("gain", "remains", group="over vbs-tuned"),
        *number_columns("gain", results.interval_label, "p", "remains", "length ratios", group=MATCHED),
    ]
    head_notes = {
        "remains": f"“Remains” is the share of the gain over vbs; it is empty where that gain is below "
        f"{format_value(least_base(results.metric))} {results.label} or the other system is worse than vbs.",
        MATCHED: "A vbs at a system's length ratio has the word reward that brings it nearest to that.",
        "p": "p is the largest over seeds." if results.is_mean else "",
    }
    notes = [*results.means_note]
    if results.is_lower_better():
        notes.append(f"Lower {results.label} is better: a gain is by how much it is lower.")
    return make_table(caption, columns, rows, notes, head_notes=head_notes)


def _format_share(metric: str, part: float | None, gain: float) -> str:
    """Formats a part of the gain over VBS; empty if the gain is tiny or the part exceeds it."""
    if part is None or gain < least_base(metric) or part > gain + ROUNDING:
        return ""
    return format_percent(min(1.0, part / gain)) if part > 0 else "none"


def _quote_claim(results: Results, size: int) -> str:
    """Sets the paper's claim for BidiA beside our relative gain."""
    claimed = "bidia bleu_t"
    if results.paper is None or results.metric != DEFAULT_METRIC or results.gain(claimed, BASE, size) is None:
        return ""
    ours = [text for name in (BASE, TUNED_VBS) if (text := _format_relative(results, claimed, name, size))]
    claim = f"{format_signed(100 * results.paper.gain, 0)} % over VBS on {results.paper.name}"
    return f"The paper claims {claim} for BidiA with BLEU_T; ours is {join_words(ours) or 'not defined'}."


def _format_relative(results: Results, system: str, other: str, size: int) -> str:
    """Formats a gain in per cent of another system's value, or in points where that is nearly nothing."""
    gain, base = results.gain(system, other, size), results.mean(other, size)
    if gain is None or base is None:
        return ""
    if is_tiny(results.metric, base):
        value = format_metric(results.metric, base)
        return f"{format_signed(gain)} {results.label} over {other} ({value}, too little for a ratio)"
    return f"{format_signed(100 * gain / base, 0)} % over {other}"


def _make_tests(results: Results, size: int) -> Table:
    """Every paired test at an N_B."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for test in results.tests(size):
        key = (test["system"], test["baseline"], test.get("metric", DEFAULT_METRIC))
        groups.setdefault(key, []).append(test)
    rows = []
    for (system, baseline, metric), tests in groups.items():
        compared, format_end = Comparison.of(tests), partial(format_metric, metric)
        ends = format_interval(compared.interval, format_end)
        p_values = [compared.format_p(kind) for kind in TESTS]
        rows.append(
            [system, baseline, label_metric(metric), format_end(compared.difference), ends, *p_values]
        )
    columns = [
        *text_columns("system", "against", "metric"),
        *number_columns("difference", results.interval_label),
        *number_columns(*TESTS.values(), group="p"),
    ]
    several = "Mean difference over seeds; the lowest and the highest end of their intervals; the largest p."
    lower = [
        label_metric(name)
        for name in dict.fromkeys(key[2] for key in groups)
        if results.is_lower_better(name)
    ]
    notes = [several] if results.is_mean else []
    if lower:
        notes.append(f"Lower is better of {join_words(lower)}: a difference below 0 is a gain.")
    return make_table("Paired tests", columns, rows, notes, is_folded=True)
