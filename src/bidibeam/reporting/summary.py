"""The main table, the gain over VBS beyond length, and the paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bidibeam.evaluation.systems import BASE, BASELINES, TUNED
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
from bidibeam.reporting.numbers import (
    DIGITS,
    LABELS,
    NOTHING,
    TWO,
    average,
    format_fixed,
    format_interval,
    format_metric,
    format_percent,
    format_seeds,
    format_signed,
    format_value,
    join_words,
    mean,
    to_number,
)
from bidibeam.reporting.results import NO_SIZE, TESTS, Comparison, Results

HEADROOM, P_AGAINST, MATCHED = "headroom captured", "p against", "over vbs at its length ratio"
MIN_GAIN = 0.1
"""BLEU: the shares of a smaller gain are not shown."""
ROUNDING = 0.005
"""BLEU: differences that print alike count as equal."""


def summary(results: Results) -> Section | None:
    """All systems at the largest N_B."""
    if not results.systems:
        return None
    size = results.largest
    at = "" if size == NO_SIZE else f" at N_B = {size}"
    blocks: list[Block] = [_make_scores(results, size, f"Scores{at}")]
    gains = _make_gains(results, size, f"Gain in BLEU{at}: how much is more than length")
    blocks += [table for table in (gains, _make_tests(results, size)) if table.rows]
    return Section("summary", "Summary", blocks, _quote_claim(results, size))


def _make_scores(results: Results, size: int, caption: str) -> Table:
    """Systems by metrics, with the share of the headroom and p against the baselines."""
    tests = [test for test in results.tests(size) if test.get("metric", "bleu") == "bleu"]
    shares = (
        average([one.get("by_beam_size", {}).get(str(size)) for one in results.analyses("headroom")]) or {}
    )
    count, known = len(results.seeds), results.metrics(size)
    metrics = [*(name for name in DIGITS if name in known), *(name for name in known if name not in DIGITS)]
    after_bleu = [*(["mean BLEU"] if count == TWO else []), results.interval_label]
    columns = text_columns("system")
    for metric in metrics:
        columns += number_columns(LABELS.get(metric, metric), *(after_bleu if metric == "bleu" else []))
    columns += number_columns("share", results.interval_label, group=HEADROOM)
    columns += number_columns(*BASELINES, group=P_AGAINST)
    rows = []
    for system in results.systems:
        row: list[Cell | str] = [system]
        for metric in metrics:
            text = format_seeds(metric, results.values(system, size, metric), count)
            row.append(Cell(text, results.paper_score(system, metric, size)))
            if metric == "bleu":
                means = [format_metric("bleu", results.mean(system, size))] if count == TWO else []
                row += [*means, results.bleu_interval(system, size)]
        row.append(format_percent(shares[system]) if system in shares else "")
        row.append(format_interval(results.headroom_interval(system, size), format_percent))
        for baseline in BASELINES:
            pair = [test for test in tests if (test["system"], test["baseline"]) == (system, baseline)]
            row.append(Comparison.of(pair).format_p())
        rows.append(row)

    notes = []
    if count == TWO:
        order = " and ".join(f"seed {seed.get('seed', NOTHING)}" for seed in results.seeds)
        notes.append(f"The values of {order}, in this order; headroom is a mean.")
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
    head_notes = {
        results.interval_label: f"Intervals are bootstraps over sources{reach if results.is_mean else ''}.",
        HEADROOM: "Headroom captured is (system - vbs-tuned) / (oracle - vbs-tuned), in BLEU.",
        P_AGAINST: "p is that of a paired two-sided test on BLEU by approximate randomisation"
        f"{', the largest over seeds' if results.is_mean else ''}.",
    }
    return make_table(caption, columns, rows, notes, head_notes=head_notes)


def _gain_over(results: Results, other: str, system: str, size: int) -> float | None:
    """Returns a system's BLEU above another's, as a mean over the seeds that have both."""
    pairs = [(one.mean(system, size), one.mean(other, size)) for one in results.by_seed]
    return mean(ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None)


def compare_matched(analyses: Sequence[Mapping[str, Any]], system: str) -> Comparison:
    """Compares a system's BLEU with that of a VBS of its length, over the diversity analyses of all seeds."""
    tests = []
    for one in analyses:
        scores = one.get("systems", {}).get(system) or {}
        matched = scores.get("matched") or {}
        difference = to_number(matched.get("difference"))
        ours, theirs = to_number(scores.get("bleu")), to_number(matched.get("bleu"))
        if difference is None and ours is not None and theirs is not None:
            difference = ours - theirs
        tests.append({**matched, "difference": difference})
    return Comparison.of(tests)


def _make_gains(results: Results, size: int, caption: str) -> Table:
    """The gains of all systems that use the reverse direction, and what remains over stronger baselines."""
    analyses = [one for one in results.analyses("diversity") if one.get("beam_size", size) == size]
    rows = []
    for system in results.systems:
        gain = _gain_over(results, BASE, system, size)
        if gain is None or system.split()[0] not in ("bidia", "bidis"):
            continue
        over_tuned, test = _gain_over(results, TUNED, system, size), compare_matched(analyses, system)
        scores = average([one.get("systems", {}).get(system) for one in analyses]) or {}
        ratios = [to_number(one.get("length_ratio")) for one in (scores, scores.get("matched") or {})]
        rows.append(
            [
                system,
                format_signed(gain),
                format_signed(over_tuned),
                _format_share(over_tuned, gain),
                format_signed(test.difference),
                format_interval(test.interval, format_signed),
                test.format_p(),
                _format_share(test.difference, gain),
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
        f"{MIN_GAIN} BLEU or the other system is worse than vbs.",
        MATCHED: "A vbs at a system's length ratio has the word reward that brings it nearest to that.",
        "p": "p is the largest over seeds." if results.is_mean else "",
    }
    return make_table(caption, columns, rows, results.means_note, head_notes=head_notes)


def _format_share(part: float | None, gain: float) -> str:
    """Formats a part of the gain over VBS; empty if the gain is tiny or the part exceeds it."""
    if part is None or gain < MIN_GAIN or part > gain + ROUNDING:
        return ""
    return format_percent(min(1.0, part / gain)) if part > 0 else "none"


def _quote_claim(results: Results, size: int) -> str:
    """Sets the paper's claim for BidiA beside our relative gain."""
    claimed = "bidia bleu_t"
    if results.paper is None or _gain_over(results, BASE, claimed, size) is None:
        return ""
    ours = [
        f"{format_signed(100 * gain / base, 0)} % over {name}"
        for name in (BASE, TUNED)
        if (gain := _gain_over(results, name, claimed, size)) is not None
        and (base := results.mean(name, size))
    ]
    claim = f"{format_signed(100 * results.paper.gain, 0)} % over VBS on {results.paper.name}"
    return f"The paper claims {claim} for BidiA with BLEU_T; ours is {join_words(ours) or 'not defined'}."


def _make_tests(results: Results, size: int) -> Table:
    """Every paired test at an N_B."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for test in results.tests(size):
        key = (test["system"], test["baseline"], test.get("metric", "bleu"))
        groups.setdefault(key, []).append(test)
    rows = []
    for (system, baseline, metric), tests in groups.items():
        compared, format_end = Comparison.of(tests), partial(format_metric, metric)
        ends = format_interval(compared.interval, format_end)
        p_values = [compared.format_p(kind) for kind in TESTS]
        label = LABELS.get(metric, metric)
        rows.append([system, baseline, label, format_end(compared.difference), ends, *p_values])
    columns = [
        *text_columns("system", "against", "metric"),
        *number_columns("difference", results.interval_label),
        *number_columns(*TESTS.values(), group="p"),
    ]
    several = "Mean difference over seeds; the lowest and the highest end of their intervals; the largest p."
    return make_table("Paired tests", columns, rows, [several] if results.is_mean else [], is_folded=True)
