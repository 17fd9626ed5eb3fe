"""The main table, the gain over VBS beyond length, and the paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bidibeam.evaluation.systems import BASE, BASELINES, TUNED
from bidibeam.reporting.blocks import Block, Cell, Column, Section, Table, make_table, text_column
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
    gains = _find_gains(results, size)
    blocks: list[Block] = [_make_scores(results, size, f"Scores{at}")]
    if gains:
        blocks.append(_make_gains(results, gains, f"Gain in BLEU{at}: how much is more than length"))
    if results.tests(size):
        blocks.append(_make_tests(results, size))
    return Section("summary", "Summary", blocks, _quote_claim(results, gains, size))


def _make_scores(results: Results, size: int, caption: str) -> Table:
    """Systems by metrics, with the share of the headroom and p against the baselines."""
    tests = [test for test in results.tests(size) if test.get("metric", "bleu") == "bleu"]
    shares = (
        average([one.get("by_beam_size", {}).get(str(size)) for one in results.analyses("headroom")]) or {}
    )
    count = len(results.seeds)

    def score(metric: str, system: str) -> Cell:
        text = format_seeds(metric, results.values(system, size, metric), count)
        return Cell(text, results.paper_score(system, metric, size))

    def reach(system: str) -> str:
        return format_interval(results.headroom_interval(system, size), format_percent)

    def p_against(baseline: str, system: str) -> str:
        pair = [test for test in tests if (test["system"], test["baseline"]) == (system, baseline)]
        return Comparison.of(pair).format_p()

    found = results.metrics(size)
    columns = [text_column("system", str)]
    for metric in (
        *(name for name in DIGITS if name in found),
        *(name for name in found if name not in DIGITS),
    ):
        columns.append(Column(LABELS.get(metric, metric), partial(score, metric)))
        if metric == "bleu" and count == TWO:
            columns.append(
                Column("mean BLEU", lambda system: format_metric("bleu", results.mean(system, size)))
            )
        if metric == "bleu":
            columns.append(Column(results.interval_label, lambda system: results.bleu_interval(system, size)))
    columns += [
        Column("share", lambda system: format_percent(shares[system]) if system in shares else "", HEADROOM),
        Column(results.interval_label, reach, HEADROOM),
        *(Column(name, partial(p_against, name), P_AGAINST) for name in BASELINES),
    ]

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
    span = (
        "; their reach, from the lowest end to the highest, is no interval of the mean"
        if results.is_mean
        else ""
    )
    largest = ", the largest over seeds" if results.is_mean else ""
    head_notes = {
        results.interval_label: f"Intervals are bootstraps over sources{span}.",
        HEADROOM: "Headroom captured is (system - vbs-tuned) / (oracle - vbs-tuned), in BLEU.",
        P_AGAINST: f"p is that of a paired two-sided test on BLEU by approximate randomisation{largest}.",
    }
    return make_table(caption, columns, results.systems, notes, head_notes=head_notes)


@dataclass(frozen=True)
class Gain:
    """A system's BLEU above that of others, as a mean over seeds.

    Attributes:
        system: Its name.
        over_base: Over VBS.
        over_tuned: Over VBS with tuned length settings.
        matched: Over VBS with the word reward that brings its length ratio nearest the system's.
        ratios: The length ratios of the system and of that VBS, as the table shows them.
    """

    system: str
    over_base: float
    over_tuned: float | None
    matched: Comparison
    ratios: str

    def share(self, part: float | None) -> str:
        """Formats a part of the gain over VBS; empty if the gain is tiny or the part exceeds it."""
        if part is None or self.over_base < MIN_GAIN or part > self.over_base + ROUNDING:
            return ""
        return format_percent(min(1.0, part / self.over_base)) if part > 0 else "none"


def _find_gains(results: Results, size: int) -> list[Gain]:
    """Returns the gains of all systems that use the reverse direction."""
    analyses = [one for one in results.analyses("diversity") if one.get("beam_size", size) == size]

    def gain_over(other: str, system: str) -> float | None:
        pairs = [(one.mean(system, size), one.mean(other, size)) for one in results.by_seed]
        return mean(ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None)

    gains = []
    for system in results.systems:
        over_base = gain_over(BASE, system)
        if system.split()[0] in ("bidia", "bidis") and over_base is not None:
            facts = average([one.get("systems", {}).get(system) for one in analyses]) or {}
            ratios = [to_number(one.get("length_ratio")) for one in (facts, facts.get("matched") or {})]
            shown = "" if None in ratios else " / ".join(format_fixed(ratio, 2) for ratio in ratios)
            matched = compare_matched(analyses, system)
            gains.append(Gain(system, over_base, gain_over(TUNED, system), matched, shown))
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


def _make_gains(results: Results, gains: Sequence[Gain], caption: str) -> Table:
    """Every gain, and what remains of it over stronger baselines."""
    columns = [
        text_column("system", lambda gain: gain.system),
        Column("gain", lambda gain: format_signed(gain.over_base), "over vbs"),
        Column("gain", lambda gain: format_signed(gain.over_tuned), "over vbs-tuned"),
        Column("remains", lambda gain: gain.share(gain.over_tuned), "over vbs-tuned"),
        Column("gain", lambda gain: format_signed(gain.matched.difference), MATCHED),
        Column(
            results.interval_label,
            lambda gain: format_interval(gain.matched.interval, format_signed),
            MATCHED,
        ),
        Column("p", lambda gain: gain.matched.format_p(), MATCHED),
        Column("remains", lambda gain: gain.share(gain.matched.difference), MATCHED),
        Column("length ratios", lambda gain: gain.ratios, MATCHED),
    ]
    head_notes = {
        "remains": f"“Remains” is the share of the gain over vbs; it is empty where that gain is below "
        f"{MIN_GAIN} BLEU or the other system is worse than vbs.",
        MATCHED: "A vbs at a system's length ratio has the word reward that brings it nearest to that.",
        "p": "p is the largest over seeds." if results.is_mean else "",
    }
    return make_table(caption, columns, gains, results.means_note, head_notes=head_notes)


def _quote_claim(results: Results, gains: Sequence[Gain], size: int) -> str:
    """Sets the paper's claim for BidiA beside our relative gain."""
    gain = next((gain for gain in gains if gain.system == "bidia bleu_t"), None)
    if results.paper is None or gain is None:
        return ""
    ours = [
        f"{format_signed(100 * part / base, 0)} % over {name}"
        for name, part in ((BASE, gain.over_base), (TUNED, gain.over_tuned))
        if part is not None and (base := results.mean(name, size))
    ]
    claim = f"{format_signed(100 * results.paper.gain, 0)} % over VBS on {results.paper.name}"
    return f"The paper claims {claim} for BidiA with BLEU_T; ours is {join_words(ours) or 'not defined'}."


def _make_tests(results: Results, size: int) -> Table:
    """Every paired test at an N_B."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for test in results.tests(size):
        key = (test["system"], test["baseline"], test.get("metric", "bleu"))
        groups.setdefault(key, []).append(test)
    items = [(*key, Comparison.of(tests)) for key, tests in groups.items()]
    columns = [
        text_column("system", lambda item: item[0]),
        text_column("against", lambda item: item[1]),
        text_column("metric", lambda item: LABELS.get(item[2], item[2])),
        Column("difference", lambda item: format_metric(item[2], item[3].difference)),
        Column(
            results.interval_label,
            lambda item: format_interval(item[3].interval, partial(format_metric, item[2])),
        ),
        *(Column(label, partial(_format_test, kind), "p") for kind, label in TESTS.items()),
    ]
    several = "Mean difference over seeds; the lowest and the highest end of their intervals; the largest p."
    return make_table("Paired tests", columns, items, [several] if results.is_mean else [], is_folded=True)


def _format_test(kind: str, item: tuple[str, str, str, Comparison]) -> str:
    return item[3].format_p(kind)
