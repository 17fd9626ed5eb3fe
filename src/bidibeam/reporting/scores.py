"""Scores of all systems, paired tests, the metric against N_B, and the headroom up to the best hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bidibeam.evaluation.systems import AGREEMENT, BASE, BASELINES, CONTROL, ORACLE
from bidibeam.figures import new_figure
from bidibeam.metrics import DEFAULT_METRIC
from bidibeam.reporting.blocks import (
    Block,
    Cell,
    Column,
    Picture,
    Section,
    Table,
    make_table,
    number_columns,
    text_columns,
)
from bidibeam.reporting.numbers import (
    NOTHING,
    PERCENTAGES,
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
    label_metric,
    mean,
    stdev,
    to_number,
)
from bidibeam.reporting.paper import BEAM_SIZES, NAMES, PaperCorpus
from bidibeam.reporting.plots import (
    Look,
    Series,
    assign_looks,
    draw_ranked,
    draw_series,
    set_size_axis,
)
from bidibeam.reporting.results import NO_SIZE, TESTS, Comparison, Results
from bidibeam.strategies.settings import TUNED_VBS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADROOM, P_AGAINST, MATCHED = "headroom captured", "p against", "over vbs at its length ratio"
MIN_GAIN = 0.1
"""Points of the metric: the shares of a smaller gain are not shown."""
ROUNDING = 0.005
"""Points of the metric: differences that print alike count as equal."""
MAX_SERIES = 8
"""With more series than this, BidiA's variants have a panel of their own."""
HEIGHTS = (3.4, 2.9, 2.3)
"""Inches of the panels: all systems, BidiA's variants, the oracle."""
PAPER_STYLE: dict[str, Any] = {
    "linestyle": "none",
    "markerfacecolor": "white",
    "markeredgewidth": 1.6,
    "zorder": 10,
}
MARKER_SIZES = {"*": 13.0}
"""The size of the paper's markers, where 9 points are too small."""
LEFT, RIGHT = 0.93, 1.12
"""The paper's numbers are drawn left of their N_B and its claim right of it, clear of ours."""
LOWEST, TOP = -60.0, 20.0
"""Per cent of headroom: lower values are not drawn, since they would flatten all others; the scale reaches
the second at least, and the oracle only if a system comes near it."""


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
    note = (
        "Chosen on validation alone, by cross-validation. A control has the same strategy and tuning, and a "
        "second regular network, of another seed, in the reverse one's place; mbr is agreement in one beam."
    )
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
        row.append(format_percent(shares[system]) if system in shares else "")
        row.append(format_interval(results.headroom_interval(system, size), format_percent))
        for baseline in BASELINES:
            pair = [test for test in tests if (test["system"], test["baseline"]) == (system, baseline)]
            row.append(Comparison.of(pair).format_p())
        rows.append(row)

    notes = []
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
    head_notes = {
        results.interval_label: f"Intervals are bootstraps over sources{reach if results.is_mean else ''}.",
        HEADROOM: f"Headroom captured is (system - vbs-tuned) / (oracle - vbs-tuned), in {results.label}.",
        P_AGAINST: f"p is that of a paired two-sided test on {results.label} by approximate randomisation"
        f"{', the largest over seeds' if results.is_mean else ''}.",
    }
    return make_table(caption, columns, rows, notes, head_notes=head_notes)


def _gain_over(results: Results, other: str, system: str, size: int) -> float | None:
    """Returns by how much a system is better than another, as a mean over the seeds that have both."""
    pairs = [(one.mean(system, size), one.mean(other, size)) for one in results.by_seed]
    gain = mean(ours - theirs for ours, theirs in pairs if ours is not None and theirs is not None)
    return -gain if gain is not None and results.is_lower_better() else gain


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
    """The gains of all systems that use the reverse direction, and what remains over stronger baselines."""
    analyses = [one for one in results.analyses("diversity") if one.get("beam_size", size) == size]
    rows = []
    for system in results.systems:
        gain = _gain_over(results, BASE, system, size)
        if gain is None or system.split()[0] not in ("bidia", "bidis", "loglinear"):
            continue
        over_tuned = _gain_over(results, TUNED_VBS, system, size)
        test = compare_matched(analyses, system, results.metric)
        test = test.turned if results.is_lower_better() else test
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
        f"{MIN_GAIN} {results.label} or the other system is worse than vbs.",
        MATCHED: "A vbs at a system's length ratio has the word reward that brings it nearest to that.",
        "p": "p is the largest over seeds." if results.is_mean else "",
    }
    notes = [*results.means_note]
    if results.is_lower_better():
        notes.append(f"Lower {results.label} is better: a gain is by how much it is lower.")
    return make_table(caption, columns, rows, notes, head_notes=head_notes)


def _format_share(part: float | None, gain: float) -> str:
    """Formats a part of the gain over VBS; empty if the gain is tiny or the part exceeds it."""
    if part is None or gain < MIN_GAIN or part > gain + ROUNDING:
        return ""
    return format_percent(min(1.0, part / gain)) if part > 0 else "none"


def _quote_claim(results: Results, size: int) -> str:
    """Sets the paper's claim for BidiA beside our relative gain."""
    claimed = "bidia bleu_t"
    if (
        results.paper is None
        or results.metric != DEFAULT_METRIC
        or _gain_over(results, BASE, claimed, size) is None
    ):
        return ""
    ours = [
        f"{format_signed(100 * gain / base, 0)} % over {name}"
        for name in (BASE, TUNED_VBS)
        if (gain := _gain_over(results, name, claimed, size)) is not None
        and (base := results.mean(name, size))
    ]
    claim = f"{format_signed(100 * results.paper.gain, 0)} % over VBS on {results.paper.name}"
    return f"The paper claims {claim} for BidiA with BLEU_T; ours is {join_words(ours) or 'not defined'}."


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


def quality(results: Results) -> Section | None:
    """The metric of every system at every N_B."""
    series = []
    for name in results.systems:
        scores = {size: results.values(name, size, results.metric) for size in results.sizes}
        found = {size: values for size, values in scores.items() if values}
        spreads = [  # of two values the bar reaches both
            abs(values[0] - values[1]) / 2 if len(values) == TWO else stdev(values)
            for values in found.values()
        ]
        if found:
            series.append(Series(name, [*found], [fmean(values) for values in found.values()], spreads))
    if not series or results.sizes == [NO_SIZE]:
        return None
    what = name_measure(results.metric)
    count, paper = len(results.seeds), results.paper if results.metric == DEFAULT_METRIC else None
    panels, sizes = split_panels(series), results.sizes
    bars = "to both values" if count == TWO else "of one standard deviation"
    where = "against N_B" if len(sizes) > 1 else f"at N_B = {sizes[0]}"
    name = "BLEU-4" if results.metric == DEFAULT_METRIC else results.label
    is_low = results.is_lower_better()
    parts = {
        f"{what[0].upper()}{what[1:]} {where}{', lower is better' * is_low}": True,
        f"mean of {count} seeds with bars {bars}, side by side": results.is_mean,
        "BidiA's variants on a scale that does not begin at 0": any(not panel.from_zero for panel in panels),
        "the oracle on a scale of its own": panels[-1].is_oracle and len(panels) > 1,
        f"white marks: the paper on {paper.name if paper else ''}, its gain of unknown N_B right of the "
        "largest": paper is not None,
    }
    if len(sizes) == 1:
        has_controls = any(name.endswith(CONTROL) for name in results.systems)
        parts = {
            f"{what[0].upper()}{what[1:]} {where}, the best at the top": True,
            f"mean of {count} seeds with bars {bars}": results.is_mean,
            "hollow: controls, with a second regular network": has_controls,
            "what lies far off stands at the edge, with its number; the oracle is in the table": True,
        }
    caption = "; ".join(part for part, is_true in parts.items() if is_true) + "."
    draw = partial(draw_quality, series, assign_looks(results.names), paper=paper, metric=results.metric)
    if len(sizes) == 1:
        systems = [one for one in series if one.name != ORACLE]
        draw = partial(draw_ranked, systems, label_axis(results.metric), lower_is_better=is_low)
    tables = _make_tables(
        results,
        what,
        (results.systems, results.sizes),
        partial(_format_seeds, results),
        results.interval,
    )
    return Section("bleu", f"{name} {where}", [Picture("bleu", caption, draw), *tables])


def name_measure(metric: str) -> str:
    """Returns what figures call a metric."""
    return "corpus BLEU-4" if metric == DEFAULT_METRIC else label_metric(metric)


def label_axis(metric: str) -> str:
    """Returns the label of an axis: the metric, and how far it reaches where that is the same for all."""
    reach = " (0 to 100)" if metric in PERCENTAGES else ""
    return f"{name_measure(metric)}{reach}"


def _format_seeds(results: Results, system: str, size: int) -> str:
    metric = results.metric
    return format_seeds(metric, results.values(system, size, metric), len(results.seeds))


def _make_tables(
    results: Results,
    what: str,
    axes: tuple[Sequence[str], Sequence[Any]],
    cell: Callable[[str, Any], str],
    interval: Callable[[str, Any], str],
) -> list[Table]:
    """Makes the folded tables of a measure and of its intervals: a row per system, a column per N_B."""
    (names, sizes), several = axes, results.is_mean
    columns = [*text_columns("system"), *number_columns(*map(str, sizes), group="N_B")]
    reach = ["From the lowest end of the seeds' intervals to the highest."] if several else []
    tables = []
    for caption, make, notes in (
        (f"{what[0].upper()}{what[1:]} by N_B", cell, []),
        (f"{'Reach of the ' if several else ''}95 % intervals of {what} by N_B", interval, reach),
    ):
        rows = [[name, *(make(name, size) for size in sizes)] for name in names]
        tables.append(make_table(caption, columns, rows, notes, is_folded=True))
    return [table for table in tables if len(table.columns) > 1]


@dataclass(frozen=True)
class Panel:
    """Series that share a scale, which begins at 0 or not; the height is in inches."""

    series: Sequence[Series]
    height: float
    is_oracle: bool = False
    from_zero: bool = True


def split_panels(series: Sequence[Series]) -> list[Panel]:
    """Splits series into all systems, BidiA's variants where they are many, and the oracle with VBS."""
    systems = [one for one in series if one.name != ORACLE]
    agreeing = [one for one in systems if one.name.split()[0] == AGREEMENT]
    variants = [one for one in agreeing if len(one.name.split()) > 2]  # such as `bidia bleu_t either`
    panels = []
    if len(systems) > MAX_SERIES and variants:
        compared = [one for one in systems if one in agreeing or one.name == TUNED_VBS]
        systems = [one for one in systems if one not in variants]
        panels.append(Panel(compared, HEIGHTS[1], from_zero=False))
    if systems:
        panels.insert(0, Panel(systems, HEIGHTS[0]))
    if any(one.name == ORACLE for one in series):
        best = [one for one in series if one.name in (ORACLE, TUNED_VBS, BASE)]
        panels.append(Panel(best, HEIGHTS[2], is_oracle=True))
    return panels


def draw_quality(
    series: Sequence[Series],
    looks: Mapping[str, Look],
    *,
    paper: PaperCorpus | None,
    metric: str,
) -> Figure:
    """Draws a metric against N_B, panels below each other; the paper's numbers are white markers."""
    panels = split_panels(series)
    heights = [panel.height for panel in panels]
    figure = new_figure(8.0, sum(heights) + 0.3)
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    sizes = {size for one in series for size in one.sizes}
    for axes, panel in zip(grid, panels, strict=True):
        draw_series(axes, panel.series, looks)
        if not panel.from_zero:
            continue
        points: dict[str, tuple[str, list[float], list[float]]] = {}
        for name, by_size in paper.bleu.items() if paper else ():
            if (name == ORACLE) == panel.is_oracle:
                points[name] = (name, [LEFT * size for size in by_size], [*by_size.values()])
                sizes |= by_size.keys()
        if paper and not panel.is_oracle:
            size, bleu = max(paper.bleu[BASE].items())
            label = f"bidia bleu_t, +{100 * paper.gain:.0f} %"
            points[label] = ("bidia bleu_t", [RIGHT * size], [bleu * (1 + paper.gain)])
        for label, (system, xs, ys) in points.items():
            markersize = MARKER_SIZES.get(looks[system].marker, 9.0)
            style = looks[system].options | PAPER_STYLE | {"markersize": markersize}
            axes.plot(xs, ys, label=f" paper: {label}", **style)
        axes.set_ylim(bottom=0)
    set_size_axis(grid[-1], sorted(sizes))
    for axes in grid:
        axes.tick_params(labelbottom=True)
        axes.set_ylabel(label_axis(metric))
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.2, labelspacing=0.6)
    return figure


def headroom(results: Results) -> Section | None:
    """VBS beside the best hypothesis in its beam, and each system's share of the difference."""
    blocks: list[Block] = []
    if {BASE, ORACLE} <= set(results.systems) and results.sizes != [NO_SIZE]:
        blocks.append(_make_oracle_table(results))
    analyses = results.analyses("headroom")
    shares: Mapping[str, Mapping[str, Any]] = average([one.get("by_beam_size") for one in analyses]) or {}
    sizes = sorted(shares, key=int)
    known = dict.fromkeys(name for at_size in shares.values() for name in at_size)
    names = list(dict.fromkeys([*(name for name in results.systems if name in known), *known]))
    series = []
    for name in names:
        values = {int(size): to_number(shares[size].get(name)) for size in sizes}
        points = {size: value for size, value in values.items() if value is not None}
        if points:
            series.append(Series(name, [*points], [*points.values()]))
    if series:
        baseline = str(analyses[0].get("baseline", TUNED_VBS))
        over = f", mean of {len(results.seeds)} seeds" if results.is_mean else ""
        caption = f"Headroom captured{over}: 0 is {baseline}, 100 % the oracle at the same N_B."
        if any(100 * value < LOWEST for one in series for value in one.values):
            caption += f" What lies below {LOWEST:.0f} % is not drawn; the table has it."
        draw = partial(draw_headroom, series, assign_looks(results.names), baseline=baseline)
        if len(sizes) > 1:  # of one N_B, the scores say the same
            blocks.append(Picture("headroom", caption, draw))
        blocks += _make_tables(
            results,
            "headroom captured",
            (names, sizes),
            lambda name, size: format_percent(shares[size].get(name)),
            lambda name, size: format_interval(results.headroom_interval(name, size), format_percent),
        )
    title = "VBS, Best Hypothesis and the headroom between"
    return Section("headroom", title, blocks) if blocks else None


def _make_oracle_table(results: Results) -> Table:
    """VBS and the oracle at the paper's beam sizes, or at ours if fewer than two of those are there."""
    judge = results.metric
    papers = [size for size in BEAM_SIZES if size in results.sizes]
    sizes = papers if len(papers) > 1 else results.sizes
    rows = [
        [
            f"{name} ({NAMES[name]})" if name in NAMES else name,
            *(Cell(_format_seeds(results, name, n), results.paper_score(name, judge, n)) for n in sizes),
        ]
        for name in (BASE, TUNED_VBS, ORACLE)
        if name in results.systems
    ]
    name = "BLEU-4" if judge == DEFAULT_METRIC else results.label
    columns = [*text_columns(name), *number_columns(*(f"B = {size}" for size in sizes))]
    return make_table("VBS and the best hypothesis in its beam", columns, rows)


def draw_headroom(series: Sequence[Series], looks: Mapping[str, Look], *, baseline: str) -> Figure:
    """Draws shares, of 1, of the way from a baseline to the oracle."""
    figure = new_figure(8.0, 4.0)
    axes = figure.subplots()
    visible = []
    for one in series:
        points = [point for point in zip(one.sizes, one.values, strict=True) if 100 * point[1] >= LOWEST]
        if points:
            visible.append(Series(one.name, [size for size, _ in points], [share for _, share in points]))
    draw_series(axes, visible, looks, scale=100)
    set_size_axis(axes, sorted({size for one in series for size in one.sizes}))
    values = [100 * value for one in series for value in one.values]
    axes.set_ylim(max(LOWEST, min(1.1 * min(values), -10)), min(max(1.3 * max(values), TOP), 108))
    for level in (0, 100):
        axes.axhline(level, color="black", linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    axes.set_ylabel(f"headroom captured (%)\n0 = {baseline}, 100 = oracle")
    if visible:
        figure.legend(loc="outside right center", handlelength=3.2, labelspacing=0.7)
    return figure
