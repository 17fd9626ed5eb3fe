"""The main table, the gain over VBS beyond length, and the paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bidibeam.evaluation.systems import BASE, BASELINES, TUNED
from bidibeam.reporting.blocks import Block, Cell, Column, Section, Table, text_column
from bidibeam.reporting.numbers import (
    DIGITS,
    LABELS,
    NOTHING,
    TWO,
    average,
    format_fixed,
    format_metric,
    format_p,
    format_percent,
    format_seeds,
    format_signed,
    format_value,
    join_words,
    mean,
    to_number,
)
from bidibeam.reporting.results import NO_SIZE, TESTS, Comparison, Results, format_interval

HEADROOM = "headroom captured"
MIN_GAIN = 0.1
"""BLEU: the shares of a smaller gain are not shown."""
ROUNDING = 0.005
"""BLEU: differences that print alike count as equal."""


def summary(results: Results) -> Section | None:
    """All systems at the largest N_B."""
    if not results.systems:
        return None
    size = results.largest
    gains = [gain for gain in _gains(results, size) if gain.over_base is not None]
    blocks: list[Block] = [_scores_table(results, size)]
    blocks += [_gains_table(results, gains, size)] if gains else []
    blocks += _tests_table(results, size)
    sentences = [_describe_setting(results, size), *_describe_weights(results)]
    sentences += [*_quote_claim(results, gains, size), *_count_empty(results, size)]
    return Section("summary", "Summary", blocks, sentences)


def _describe_setting(results: Results, size: int) -> str:
    content = results.content
    pairs = to_number((content.get("data") or {}).get("pairs", {}).get("train"))
    count = len(results.systems)
    parts = [f"{count} system" + ("s" if count > 1 else "")]
    if (sources := to_number(content.get("sources"))) is not None:
        parts.append(f"answered {sources:,.0f} {'test ' if 'seeds' in content else ''}sources")
    else:
        parts.append("were scored" if count > 1 else "was scored")
    parts += [f"of {results.corpus}"] if results.corpus else []
    parts += [f"after training on {pairs:,.0f} pairs"] if pairs is not None else []
    if "seeds" in content:
        seeds = len(results.seeds)
        parts.append("with one seed" if seeds == 1 else f"with {seeds} seeds")
    if size == NO_SIZE:
        return " ".join(parts) + "."
    parts.append(f"at N_B = {join_words(list(map(str, results.sizes)))}")
    return " ".join(parts) + (f"; the tables here are for N_B = {size}." if len(results.sizes) > 1 else ".")


def _describe_weights(results: Results) -> list[str]:
    """Says which weights answered, if not the best."""
    if not results.last_step:
        return []
    steps = [f"step {best:,.0f} of {last:,.0f}" for best, last in results.best_steps]
    best = f" (the best was that of {join_words(steps)})" if steps else ""
    return [f"The network was {results.last_step}{best}: what answers are its last weights."]


def _count_empty(results: Results, size: int) -> list[str]:
    counts = {
        name: mean(entry.get("empty") for entry in results.entries(name, size)) for name in results.systems
    }
    empty = [f"{name} ({format_value(count)})" for name, count in counts.items() if count]
    return [f"Empty replies: {join_words(empty)}; they count as replies of no words."] if empty else []


def _at(size: int) -> str:
    return "" if size == NO_SIZE else f" at N_B = {size}"


def _scores_table(results: Results, size: int) -> Table:
    """Systems by metrics, with the share of the headroom and p against the baselines."""
    tests = [test for test in results.tests(size) if test.get("metric", "bleu") == "bleu"]
    baselines = [name for name in BASELINES if any(test["baseline"] == name for test in tests)]
    found = results.metrics(size)
    metrics = [*(name for name in DIGITS if name in found), *(name for name in found if name not in DIGITS)]
    has_interval = any(results.bleu_interval(name, size) for name in results.systems)
    has_mean = len(results.seeds) == TWO
    headroom = average([one.get("by_beam_size", {}).get(str(size)) for one in results.analyses("headroom")])
    intervals = {name: results.headroom_interval(name, size) for name in headroom or ()}
    has_reach = any(intervals.values())

    columns = [text_column("system")]
    for metric in metrics:
        columns.append(Column(LABELS.get(metric, metric)))
        if metric == "bleu":
            columns += [Column("mean BLEU")] if has_mean else []
            columns += [Column(results.interval_label)] if has_interval else []
    if headroom:
        columns.append(Column("share" if has_reach else HEADROOM, HEADROOM if has_reach else ""))
        columns += [Column(results.interval_label, HEADROOM)] if has_reach else []
    columns += [Column(name, "p against") for name in baselines]

    rows = []
    for system in results.systems:
        row: list[Cell | str] = [system]
        for metric in metrics:
            text = format_seeds(metric, results.values(system, size, metric), len(results.seeds))
            row.append(Cell(text, results.paper_score(system, metric, size)))
            if metric == "bleu":
                row += [format_metric(metric, results.mean(system, size))] if has_mean else []
                row += [results.bleu_interval(system, size)] if has_interval else []
        row += [format_percent(headroom[system]) if system in headroom else ""] if headroom else []
        row += [format_interval(intervals.get(system), format_percent)] if has_reach else []
        for baseline in baselines:
            pair = [test for test in tests if (test["system"], test["baseline"]) == (system, baseline)]
            row.append(Comparison.of(pair).p)
        rows.append(row)
    notes = _scores_notes(
        results, has_interval=has_interval, has_headroom=bool(headroom), has_p=bool(baselines)
    )
    return Table(f"Scores{_at(size)}", columns, rows, notes)


def _scores_notes(results: Results, *, has_interval: bool, has_headroom: bool, has_p: bool) -> list[str]:
    count = len(results.seeds)
    notes = []
    if count == TWO:
        order = " and ".join(f"seed {seed.get('seed', NOTHING)}" for seed in results.seeds)
        notes.append(f"The values of {order}, in this order{'; headroom is a mean' if has_headroom else ''}.")
    elif count > 1:
        notes.append(f"Mean ± standard deviation over {count} seeds.")
    if has_interval:
        notes.append(
            "Each seed's interval is a bootstrap over sources; their reach goes from the lowest end to the "
            "highest and is no interval of the mean."
            if count > 1
            else "The interval is a bootstrap over sources."
        )
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


@dataclass(frozen=True)
class Gain:
    """A system's BLEU above that of others, as a mean over seeds; None where one of the two is missing.

    Attributes:
        system: Its name.
        over_base: Over VBS.
        over_tuned: Over VBS with tuned length settings.
        matched: Over VBS with the word reward that brings its length ratio nearest the system's.
        ratios: The length ratios of the system and of that VBS, as the table shows them.
    """

    system: str
    over_base: float | None
    over_tuned: float | None
    matched: Comparison
    ratios: str

    def is_part(self, part: float) -> bool:
        """Tells whether a difference is part of the gain; over something worse than VBS it exceeds it."""
        return self.over_base is not None and part <= self.over_base + ROUNDING

    def share(self, part: float | None) -> str:
        """Formats a part as a share of the gain over VBS; empty if it is no part or the gain is tiny."""
        if part is None or self.over_base is None or self.over_base < MIN_GAIN or not self.is_part(part):
            return ""
        return format_percent(min(1.0, part / self.over_base)) if part > 0 else "none"


def _gains(results: Results, size: int) -> list[Gain]:
    """Returns the gains of all systems that use the reverse direction."""
    analyses = [one for one in results.analyses("diversity") if one.get("beam_size", size) == size]
    gains = []
    for system in results.systems:
        if system.split()[0] not in ("bidia", "bidis") or results.mean(system, size) is None:
            continue
        facts = average([one.get("systems", {}).get(system) for one in analyses]) or {}
        ratios = [to_number(one.get("length_ratio")) for one in (facts, facts.get("matched") or {})]
        gains.append(
            Gain(
                system,
                _mean_difference(results, system, BASE, size),
                _mean_difference(results, system, TUNED, size),
                compare_matched(analyses, system),
                "" if None in ratios else " / ".join(format_fixed(ratio, 2) for ratio in ratios),
            )
        )
    return gains


def compare_matched(analyses: Sequence[Mapping[str, Any]], system: str) -> Comparison:
    """Compares a system's BLEU with that of a VBS of its length, over the diversity analyses of all seeds."""
    tests = []
    for one in analyses:
        facts = one.get("systems", {}).get(system) or {}
        matched = facts.get("matched") or {}
        difference = to_number(matched.get("difference"))
        ours, theirs = to_number(facts.get("bleu")), to_number(matched.get("bleu"))
        if difference is None and ours is not None and theirs is not None:
            difference = ours - theirs
        tests.append({**matched, "difference": difference})
    return Comparison.of(tests)


def _mean_difference(results: Results, system: str, other: str, size: int) -> float | None:
    """Returns the mean difference in BLEU over the seeds that have both systems."""
    pairs = []
    for seed in results.seeds:
        one = Results(results.content, [seed])
        pairs.append((one.mean(system, size), one.mean(other, size)))
    return mean(ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None)


def _gains_table(results: Results, gains: Sequence[Gain], size: int) -> Table:
    """Every gain, and what remains of it over stronger baselines."""
    columns: list[tuple[str, str, list[str]]] = [
        ("gain", "over vbs", [format_signed(gain.over_base) for gain in gains])
    ]
    if any(gain.over_tuned is not None for gain in gains):
        columns += [
            ("gain", "over vbs-tuned", [format_signed(gain.over_tuned) for gain in gains]),
            ("remains", "over vbs-tuned", [gain.share(gain.over_tuned) for gain in gains]),
        ]
    has_matched = any(gain.matched.difference is not None for gain in gains)
    if has_matched:
        group, differences = "over vbs at its length ratio", [gain.matched.difference for gain in gains]
        intervals = [format_interval(gain.matched.interval, format_signed) for gain in gains]
        shares = [gain.share(part) for gain, part in zip(gains, differences, strict=True)]
        columns += [
            ("gain", group, [format_signed(part) for part in differences]),
            (results.interval_label, group, intervals),
            ("p", group, [gain.matched.p for gain in gains]),
            ("remains", group, shares),
            ("length ratios", group, [gain.ratios for gain in gains]),
        ]
    columns = [column for column in columns if any(column[2])]
    notes = [*results.means_note]
    if any(label == "remains" for label, _, _ in columns):
        notes.append(f"“Remains” is the share of the gain over vbs, where that is at least {MIN_GAIN} BLEU.")
        parts = [(gain, part) for gain in gains for part in (gain.over_tuned, gain.matched.difference)]
        if any(part is not None and not gain.is_part(part) for gain, part in parts):
            notes.append("It is empty where the other system is itself worse than vbs.")
    if has_matched:
        notes.append("A vbs at a system's length ratio has the word reward that brings it nearest to that.")
    if len(results.seeds) > 1 and any(gain.matched.p for gain in gains):
        notes.append("p is the largest over seeds.")
    return Table(
        f"Gain in BLEU{_at(size)}: how much is more than length",
        [text_column("system"), *(Column(label, group) for label, group, _ in columns)],
        [[gain.system, *(cells[place] for _, _, cells in columns)] for place, gain in enumerate(gains)],
        notes,
    )


def _quote_claim(results: Results, gains: Sequence[Gain], size: int) -> list[str]:
    """Sets the paper's claim for BidiA beside our relative gain."""
    gain = next((gain for gain in gains if gain.system == "bidia bleu_t"), None)
    if results.paper is None or gain is None or gain.over_base is None:
        return []
    base, tuned = results.mean(BASE, size), results.mean(TUNED, size)
    ours = f"{format_signed(100 * gain.over_base / base, 0)} %" if base else "not defined (vbs has 0)"
    if tuned and gain.over_tuned is not None:
        ours += f" over vbs and {format_signed(100 * gain.over_tuned / tuned, 0)} % over vbs-tuned"
    else:
        ours += " over vbs"
    claim = f"{format_signed(100 * results.paper.gain, 0)} % over VBS on {results.paper.name}"
    return [f"The paper claims {claim} for BidiA with BLEU_T; ours is {ours}."]


def _tests_table(results: Results, size: int) -> list[Table]:
    """Every paired test at an N_B."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for test in results.tests(size):
        key = (test["system"], test["baseline"], test.get("metric", "bleu"))
        groups.setdefault(key, []).append(test)
    if not groups:
        return []
    kinds = [kind for kind in TESTS if any(kind in test for tests in groups.values() for test in tests)]
    columns = [
        *map(text_column, ("system", "against", "metric")),
        Column("difference"),
        Column(results.interval_label),
        *(Column(TESTS[kind], "p") for kind in kinds),
    ]
    rows = []
    for (system, baseline, metric), tests in groups.items():
        found = Comparison.of(tests)
        ends = [format_metric(metric, end) for end in found.interval or ()]
        p_values = [format_p(found.p_values[kind]) if kind in found.p_values else "" for kind in kinds]
        difference = format_metric(metric, found.difference)
        rows.append([system, baseline, LABELS.get(metric, metric), difference, " to ".join(ends), *p_values])
    several = "Mean difference over seeds; the lowest and the highest end of their intervals; the largest p."
    notes = [several] if len(results.seeds) > 1 else []
    return [Table("Paired tests", columns, rows, notes, is_folded=True)]
