"""The metric against N_B, and the headroom up to the best hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bidibeam.evaluation.systems import AGREEMENT, BASE, CONTROL, ORACLE
from bidibeam.figures import new_figure
from bidibeam.metrics import DEFAULT_METRIC
from bidibeam.reporting.blocks import (
    Block,
    Cell,
    Picture,
    Section,
    Table,
    make_table,
    number_columns,
    text_columns,
)
from bidibeam.reporting.headroom import explain_headroom, format_headroom, has_headroom, headroom_interval
from bidibeam.reporting.numbers import (
    PERCENTAGES,
    TWO,
    average,
    format_interval,
    format_percent,
    format_seeds,
    label_metric,
    stdev,
    to_number,
)
from bidibeam.reporting.paper import BEAM_SIZES, NAMES, PaperCorpus
from bidibeam.reporting.plots import (
    WIDTH,
    Look,
    Series,
    add_legend,
    assign_looks,
    draw_ranked,
    draw_series,
    set_size_axis,
)
from bidibeam.reporting.results import NO_SIZE, Results
from bidibeam.strategies.settings import TUNED_VBS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_SERIES = 8
"""With more series than this, BidiA's variants have a panel of their own."""
HEIGHTS = (2.6, 2.4, 2.2)
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
    panels, sizes, is_low = split_panels(series), results.sizes, results.is_lower_better()
    bars = "to both values" if count == TWO else "of one standard deviation"
    where = "against N_B" if len(sizes) > 1 else f"at N_B = {sizes[0]}"
    parts = {
        f"{what[0].upper()}{what[1:]} {where}{', lower is better' * is_low}": True,
        f"mean of {count} seeds with bars {bars}, side by side": results.is_mean,
        "BidiA's variants on a scale that does not begin at 0": any(not panel.from_zero for panel in panels),
        "the oracle on a scale of its own": panels[-1].is_oracle and len(panels) > 1,
        f"white marks: the paper on {paper.name if paper else ''}, its gain of unknown N_B right of the "
        "largest": paper is not None,
    }
    draw = partial(draw_quality, series, assign_looks(results.names), paper=paper, metric=results.metric)
    systems = series
    if len(sizes) == 1:
        controls = [name for name in results.systems if name.endswith(CONTROL)]
        parts = {
            f"{what[0].upper()}{what[1:]} {where}, the best at the top": True,
            f"mean of {count} seeds with bars {bars}": results.is_mean,
            "hollow: controls, with a second regular network": bool(controls),
            "what lies far off stands at the edge, with its number": len(series) > TWO,
            "the oracle is in the table": any(one.name == ORACLE for one in series),
        }
        systems = [one for one in series if one.name != ORACLE and isfinite(one.values[0])]
        draw = partial(
            draw_ranked, systems, label_axis(results.metric), lower_is_better=is_low, hollow=controls
        )
    caption = "; ".join(part for part, is_true in parts.items() if is_true) + "."
    tables = _make_tables(
        results,
        what,
        (results.systems, results.sizes),
        partial(_format_seeds, results),
        results.interval,
    )
    name = "BLEU-4" if results.metric == DEFAULT_METRIC else results.label
    pictures = [Picture("quality", caption, draw)] if systems else []
    return Section("quality", f"{name} {where}", [*pictures, *tables])


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
    notes: Sequence[str] = (),
) -> list[Table]:
    """Makes the folded tables of a measure, with notes, and of its intervals: rows of systems over N_B."""
    (names, sizes), several = axes, results.is_mean
    columns = [*text_columns("system"), *number_columns(*map(str, sizes), group="N_B")]
    reach = ["From the lowest end of the seeds' intervals to the highest."] if several else []
    tables = []
    for caption, make, told in (
        (f"{what[0].upper()}{what[1:]} by N_B", cell, notes),
        (f"{'Reach of the ' if several else ''}95 % intervals of {what} by N_B", interval, reach),
    ):
        rows = [[name, *(make(name, size) for size in sizes)] for name in names]
        tables.append(make_table(caption, columns, rows, told, is_folded=True))
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
    figure = new_figure(WIDTH, sum(heights) + 0.3)
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
        add_legend(axes, *axes.get_legend_handles_labels())
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
        points = {
            size: value for size, value in values.items() if value is not None and has_headroom(results, size)
        }
        if points:
            series.append(Series(name, [*points], [*points.values()]))
    if series:
        baseline = str(analyses[0].get("baseline", TUNED_VBS))
        over = f", mean of {len(results.seeds)} seeds" if results.is_mean else ""
        caption = f"Headroom captured{over}: 0 is {baseline}, 100 % the oracle at the same N_B."
        if any(100 * value < LOWEST for one in series for value in one.values):
            caption += f" What lies below {LOWEST:.0f} % is not drawn; the table has it."
        draw = partial(draw_headroom, series, assign_looks(results.names), baseline=baseline)
        if len({size for one in series for size in one.sizes}) > 1:  # of one N_B, the table says the same
            blocks.append(Picture("headroom", caption, draw))
        blocks += _make_tables(
            results,
            "headroom captured",
            (names, sizes),
            lambda name, size: format_headroom(results, name, int(size), shares[size].get(name)),
            lambda name, size: format_interval(headroom_interval(results, name, int(size)), format_percent),
            explain_headroom(results, map(int, sizes)),
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
    figure = new_figure(WIDTH, 2.9)
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
        add_legend(figure, *axes.get_legend_handles_labels())
    return figure
