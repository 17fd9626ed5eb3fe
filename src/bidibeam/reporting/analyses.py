"""Analyses of replies, their cost, and what the paper leaves open: a section each, with its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from bidibeam.evaluation.systems import BASE
from bidibeam.figures import BLUE, SMALL, VERMILLION, new_figure
from bidibeam.metrics import DEFAULT_METRIC
from bidibeam.reporting.blocks import Block, Cell, Picture, Section, make_table, number_columns, text_columns
from bidibeam.reporting.numbers import (
    average,
    average_rows,
    format_fixed,
    format_interval,
    format_metric,
    format_percent,
    format_signed,
    is_tiny,
    label_metric,
    to_number,
)
from bidibeam.reporting.paper import COMPLEXITY, FOOTNOTE, RANKED
from bidibeam.reporting.plots import WIDTH, Look, add_legend, assign_looks
from bidibeam.reporting.quality import label_axis
from bidibeam.reporting.results import NO_SIZE, Results
from bidibeam.reporting.scores import compare_matched
from bidibeam.text import format_value

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME_WORDS_METRICS = ("distinct-1", "distinct-2")
AT_ITS_LENGTH = "VBS at its length ratio"
ENDS = {"left": BLUE, "right": VERMILLION}
"""The ends that positions are counted from, with their colours."""
FREQUENT = 1000
WORDS_IN_TABLE, WORDS_IN_PANEL, LETTERS, PANEL_LETTERS = 8, 4, 10, 18
WORK = {
    "projected_rows": "rows projected",
    "compared_pairs": "pairs compared",
    "exact_transports": "exact transports",
}
"""Counted work per source."""
TIMES = {"ms_a_source": "ms per source", "ratio": "to vbs"}
LEVELS = ("longest", "random")
"""Systems without options."""
MANY_VALUES = 10
"""With so many values, words keep a step's distance from numbers; with twice as many, two."""
ROW, GAP = 0.23, 0.5
"""The height of a row of the figure of options in inches, and the gap between options in rows."""
RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 13,
    "markerfacecolor": "none",
    "linestyle": "none",
    "color": "black",
}


def constant(results: Results) -> Section | None:
    """The constant reply that validation chose, and the next best."""
    found = results.content.get("constant")
    if not found:
        return None
    metric = str(found.get("metric") or DEFAULT_METRIC)
    label = label_metric(metric)
    replies = [("chosen", found["chosen"]), *(("", one) for one in found["runners_up"])]
    if all(one != found["most_common"] for _, one in replies):
        replies.append(("commonest in training", found["most_common"]))
    rows = []
    for what, one in replies:
        keys = (f"validation_{metric}", metric, "low", "high", "length_ratio")
        validation, value, low, high, ratio = (format_fixed(one[key], 2) for key in keys)
        exact = format_value(one["exact"])
        rows.append([one["reply"], what, validation, value, f"{low} to {high}", ratio, exact])
    columns = [
        *text_columns("reply", ""),
        *number_columns(f"{label}, validation", label, "95 % interval", "length ratio", "exact matches"),
    ]
    tried, references = found["candidates"], found["references"]
    share, count = format_percent(references["share_short"]), format_value(references["sources"])
    how = (
        f"Chosen by {label} on {format_value(found['validation_sources'])} validation sources among the "
        f"{tried['commonest']} commonest training replies and the commonest {tried['parts']} of them "
        f"followed by each other, {format_value(tried['tried'])} in all."
    )
    short = f"{share} of {count} references have at most {references['short']} words."
    notes = [how, short, f"{label}: {found['signature']}."]
    table = make_table("The best constant replies", columns, rows, notes)
    return Section("constant", "One reply to every source", [table])


def ranks(results: Results) -> Section | None:
    """The rank of the reply in the regular beam."""
    systems = (average(results.analyses("ranks")) or {}).get("systems")
    if not systems:
        return None
    shares = {}
    for name in dict.fromkeys([*(name for name in RANKED if name in systems), *systems]):
        counts, mass = systems[name]["counts"], systems[name].get("tie_mass") or []
        total, total_mass = sum(counts) or 1, sum(mass) or 1
        shares[name] = ([count / total for count in counts], [part / total_mass for part in mass])
    caption = (
        f"Place of the reply in the regular beam of {len(next(iter(shares.values()))[0])}. Bars: the reply; "
        "outline: each source counted in equal parts for the places tied for first."
    )
    rows = [
        [
            name,
            format_percent(chosen[0], 1),
            *(format_fixed(systems[name].get(key), 1) for key in ("mean", "median", "tied")),
        ]
        for name, (chosen, _) in shares.items()
    ]
    heads = number_columns("first place", "mean place", "median place", "tied for first")
    tied = "Tied for first: hypotheses that only the order of the beam tells apart, mean over sources."
    picture = Picture("ranks", caption, partial(draw_ranks, shares, assign_looks(results.names)))
    table = make_table("Places chosen", [*text_columns("system"), *heads], rows, [*results.means_note, tied])
    return Section("ranks", "Rank of the reply in the beam", [picture, table])


def draw_ranks(
    systems: Mapping[str, tuple[Sequence[float], Sequence[float]]], looks: Mapping[str, Look]
) -> Figure:
    """Draws a histogram of ranks per system: shares of the places chosen, outlined those tied for first."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = new_figure(WIDTH, 1.5 * len(systems) + 0.5)
    panels = figure.subplots(len(systems), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (name, (chosen, tied)) in zip(panels, systems.items(), strict=True):
        count = len(chosen)
        heights = [100 * share for share in chosen]
        axes.bar(range(1, count + 1), heights, width=0.9, color=looks[name].colour, alpha=0.65)
        if len(tied):
            edges = [place - 0.5 for place in range(1, len(tied) + 2)]
            axes.stairs([100 * share for share in tied], edges, color="black", linewidth=1.2)
        axes.set_title(name)
        axes.grid(visible=False, axis="x")
        step = max(1, round(count / 25)) * 5 if count > 5 else 1  # the first place and about five others
        axes.set_xticks([1, *range(step if step > 1 else 2, count + 1, step)])
    figure.supxlabel("place in the regular beam (1 = most likely)", fontsize=10)
    figure.supylabel("sources (%)", fontsize=10)
    bars, outline = Patch(color="#9a9a9a"), Line2D([], [], color="black", linewidth=1.2)
    add_legend(figure, [bars, outline], ["the reply", "ties shared equally"])
    return figure


def diversity(results: Results) -> Section | None:
    """distinct-n as it is, beside a VBS of the same length, and on the same number of words."""
    analyses = results.analyses("diversity")
    found = average(analyses) or {}
    systems: Mapping[str, Mapping[str, Any]] = found.get("systems") or {}
    if not systems:
        return None
    largest = int(found.get("beam_size") or results.largest)
    sizes = {name: int(system.get("beam_size") or largest) for name, system in systems.items()}
    has_sizes = len(set(sizes.values())) > 1  # imported lists need not be equally long
    same = [system["same_words"]["words"] for system in systems.values() if system.get("same_words")]
    on_same = f"on {format_value(round(same[0]))} words" if same else ""
    metric = str(found.get("metric") or DEFAULT_METRIC)
    own_metrics = ("distinct-1", "distinct-2", "length_ratio", metric)
    matched_metrics = ("length_ratio", metric, "distinct-1", "distinct-2")
    tests = {name: compare_matched(analyses, name, metric) for name in systems}
    has_tests = any(test.interval or test.p_values for test in tests.values())

    def format_all(metrics: Sequence[str], scores: Mapping[str, Any] | None) -> list[str]:
        return [format_metric(metric, (scores or {}).get(metric)) for metric in metrics]

    rows = []
    for name, system in systems.items():
        test, size = tests[name], sizes[name]
        own = zip(format_all(own_metrics, system), own_metrics, strict=True)
        rows.append(
            [
                name,
                format_value(size) if has_sizes else "",
                *(Cell(text, results.paper_score(name, measure, size)) for text, measure in own),
                *format_all(matched_metrics, system.get("matched")),
                format_signed(test.difference) if has_tests else "",
                format_interval(test.interval, format_signed),
                test.format_p(),
                *format_all(SAME_WORDS_METRICS, system.get("same_words")),
            ]
        )
    columns = [
        *text_columns("system"),
        *number_columns("N_B", *map(label_metric, own_metrics)),
        *number_columns(*map(label_metric, matched_metrics), group=AT_ITS_LENGTH),
        *number_columns(
            "difference", results.interval_label, "p", group=f"{label_metric(metric)} above that VBS"
        ),
        *number_columns(*SAME_WORDS_METRICS, group=on_same),
    ]
    lower = (
        [f"{label_metric(metric)} is better where it is lower."] if results.is_lower_better(metric) else []
    )
    notes = [*results.means_note, *lower]
    head_notes = {
        AT_ITS_LENGTH: f"{AT_ITS_LENGTH} has the word reward that brings it nearest the system's.",
        on_same: "The last columns are means over random replies of as many words as the tersest system's.",
    }
    at = "" if has_sizes or size == NO_SIZE else f" at N_B = {size}"
    table = make_table(f"Diversity{at}", columns, rows, notes, head_notes=head_notes)
    return Section("diversity", "Diversity of the replies", [table])


def positions(results: Results) -> Section | None:
    """The frequencies of words at the first positions from the left and from the right."""
    found = results.content.get("positions") or next(iter(results.analyses("positions")), {})
    counted = [(end, one) for end in ENDS for one in (found.get("from") or {}).get(end) or ()]
    if not counted:
        return None
    pairs = f" in {format_value(found['pairs'])} replies" if "pairs" in found else ""
    caption = (
        f"Counts of the {found.get('words_shown', 50)} commonest words by position{pairs}; the dotted line "
        "is at 1,000. The regular direction begins on the left, the reverse one on the right."
    )
    rows = [
        [
            end,
            format_value(one["position"]),
            format_value(one["different"]),
            format_fixed(one["entropy_bits"], 2),
            format_value(one["above_1000"]),
            " ".join(one["words"][:WORDS_IN_TABLE]),
        ]
        for end, one in counted
    ]
    numbers = number_columns("position", "different words", "entropy (bits)", "above 1,000")
    columns = [*text_columns("from"), *numbers, *text_columns("commonest")]
    picture = Picture("positions", caption, partial(draw_positions, counted))
    table = make_table("Words at the first positions", columns, rows)
    papers = results.paper.positions if results.paper else ""
    return Section("positions", "Words by position", [picture, table], papers)


def draw_positions(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Figure:
    """Draws counts by rank on a logarithmic scale: a column of panels per end, a row per position."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    by_end = {end: [one for of, one in rows if of == end] for end in dict(rows)}
    positions = max(map(len, by_end.values()))
    figure = new_figure(WIDTH, 1.9 * positions + 0.4)
    grid = figure.subplots(positions, len(by_end), sharex=True, sharey=True, squeeze=False)
    for axes_column, (end, column) in zip(grid.T, by_end.items(), strict=True):
        for axes, one in zip(axes_column, column, strict=False):
            edges = [rank + 0.5 for rank in range(len(one["counts"]) + 1)]
            axes.stairs(one["counts"], edges, fill=True, color=ENDS[end], alpha=0.75)
            axes.set_title(f"{one['position']} from the {end}")
            axes.axhline(FREQUENT, color="black", linewidth=1, linestyle=(0, (1, 2)))
            axes.grid(visible=False, axis="x")
            printable = ("".join(filter(str.isprintable, word)) for word in one["words"][:WORDS_IN_PANEL])
            named = " ".join(
                word if len(word) <= LETTERS else f"{word[: LETTERS - 1]}…" for word in printable
            )
            note = f"{one['above_1000']:,} above {FREQUENT:,}\n{fill(named, PANEL_LETTERS)}"
            axes.text(0.98, 0.98, note, transform=axes.transAxes, ha="right", va="top", fontsize=SMALL)
    figure.supylabel("count", fontsize=10)
    first = grid[0][0]
    first.set_yscale("log")
    first.yaxis.set_minor_locator(NullLocator())
    first.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    counts = [count for _, one in rows for count in one["counts"] if count > 0]
    bottom = 10.0 ** math.floor(math.log10(min(counts, default=1)))
    first.set_ylim(min(bottom, FREQUENT / 10), max(counts, default=FREQUENT) * 60)  # room for the notes
    first.set_xticks([1, *range(10, max(len(one["counts"]) for _, one in rows) + 1, 10)])
    figure.supxlabel("rank of the word at its position", fontsize=10)
    return figure


def cost(results: Results) -> Section | None:
    """Cost by time, by counted work and by formula."""
    analyses = results.analyses("cost")
    if not analyses:
        return None
    about, costs = analyses[0], average_rows(analyses, "rows", "strategy")
    labels = {"device": "on", "N_B": "N_B =", "sources": "sources:", "turns": "turns:"}
    where = ", ".join(
        f"{label} {format_value(about[name])}" for name, label in labels.items() if about.get(name)
    )
    at = ", ".join(f"{name} = {format_value(about[name])}" for name in ("N_B", "T", "V") if about.get(name))
    base_ms = next((to_number(row.get("ms_a_source")) for row in costs if row["strategy"] == BASE), None)
    has_ratio = base_ms is None or not is_tiny("ms", base_ms)
    rows = []
    for row in costs:
        times = [format_fixed(row.get(name) if name != "ratio" or has_ratio else None, 2) for name in TIMES]
        work = [to_number(row.get(name)) for name in WORK]
        digits = [0 if one is None or one >= 100 or one.is_integer() else 1 for one in work]
        rows.append([row["strategy"], *times, *map(format_fixed, work, digits)])
    formulas = []
    for row in average_rows(analyses, "formulas", "strategy"):
        number = to_number(row.get("value"))
        value = format_fixed(number, 0) if number is None or abs(number) < 1e6 else f"{number:.3g}"
        ratio = format_fixed(row.get("ratio"), 3)
        formulas.append([row["strategy"], str(row.get("formula", "")), value, ratio])
    measured = [
        *text_columns("strategy"),
        *number_columns(*TIMES.values(), group="time"),
        *number_columns(*WORK.values(), group="work per source"),
    ]
    by_formula = [*text_columns("strategy", "formula"), *number_columns("value", "to vbs")]
    paper = text_columns("algorithm", "complexity")
    tables = [
        make_table(f"Measured ({where})" if where else "Measured", measured, rows),
        make_table(f"By formula ({at}; natural logarithms)" if at else "By formula", by_formula, formulas),
        make_table("The paper's formulas", paper, COMPLEXITY.items(), [FOOTNOTE], is_folded=True),
    ]
    return Section("cost", "Cost", [table for table in tables if table.rows])


class Trial(NamedTuple):
    """The scores of one value of an option, by the metric and in length, which may be unknown."""

    value: str
    score: float
    length_ratio: float | None
    is_default: bool


Trials = Mapping[str, Sequence[Trial]]
"""By system."""


def sensitivity(results: Results) -> Section | None:
    """The metric by T and by every other option."""
    analyses = results.analyses("sensitivity")
    scored = average_rows(analyses, "rows", "system", "option", "value")
    if not scored:
        return None
    metric = str(analyses[0].get("metric") or DEFAULT_METRIC)
    metrics = (metric, "length_ratio", "distinct-2")
    groups: dict[str, dict[str, list[Trial]]] = {}
    rows = []
    for row in scored:
        system, option, value = row["system"], str(row.get("option") or ""), str(row.get("value"))
        is_default, value_by = bool(row.get("is_default")), to_number(row.get(metric))
        shown = f"{value} (default)" if is_default else value
        rows.append([system, option, shown, *(format_metric(name, row.get(name)) for name in metrics)])
        if value_by is not None:
            trial = Trial(value, value_by, to_number(row.get("length_ratio")), is_default)
            by_system = groups.setdefault("" if system in LEVELS else option, {})
            by_system.setdefault(system, []).append(trial)
    levels = {name: trials[0] for name, trials in groups.pop("", {}).items()}
    lengths = groups.pop("T", {})
    size = analyses[0].get("beam_size")
    at = f" at N_B = {size}" if size else ""
    looks = assign_looks(results.names)
    blocks: list[Block] = []
    if lengths:
        caption = (
            f"{label_metric(metric)} and length ratio{at} by T, the length that BP_T asks for; “none” has no "
            "penalty, a ring marks the default."
        )
        blocks.append(Picture("penalty", caption, partial(draw_penalty, lengths, levels, looks, metric)))
    if groups:
        what = f"{label_metric(metric)} by the other options{at}"
        caption = f"{what}, on a scale that does not begin at 0; filled: the default."
        blocks.append(Picture("options", caption, partial(draw_options, groups, looks, metric)))
    scores = number_columns(*map(label_metric, metrics))
    columns = [*text_columns("system", "option", "value"), *scores]
    blocks.append(make_table(f"All options{at}", columns, rows, results.means_note, is_folded=True))
    return Section("sensitivity", "Sensitivity to what the paper leaves open", blocks)


def draw_penalty(
    trials: Trials, levels: Mapping[str, Trial], looks: Mapping[str, Look], metric: str
) -> Figure:
    """Draws a metric and length ratio against T; "none" stands apart, and levels are drawn across."""
    ticks = sorted({trial.value for line in trials.values() for trial in line}, key=_value_order)
    gap = len(ticks) // MANY_VALUES
    xs = {value: index + gap * _is_word(value) for index, value in enumerate(ticks)}
    figure = new_figure(WIDTH, 5.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    for axes, measure in ((upper, "score"), (lower, "length_ratio")):
        for name, line in trials.items():
            known = [trial for trial in line if getattr(trial, measure) is not None]
            known.sort(key=lambda trial: xs[trial.value])
            for label, style, shown in (
                (f" {name}", looks[name].options, [one for one in known if not _is_word(one.value)]),
                (None, looks[name].options | {"linestyle": "none"}, [o for o in known if _is_word(o.value)]),
                (None, RING, [one for one in known if one.is_default]),
            ):
                ys = [getattr(one, measure) for one in shown]
                axes.plot([xs[one.value] for one in shown], ys, label=label, **style)
        for name, trial in levels.items():
            if (level := getattr(trial, measure)) is not None:
                style = {"color": looks[name].colour, "linestyle": looks[name].line}
                axes.axhline(level, linewidth=1.2, label=f" {name}", zorder=1, **style)
        axes.plot([], [], label=" default", **RING)
        axes.set_xticks([*xs.values()], [*xs])
        axes.tick_params(labelbottom=True)
        axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    lower.set_xlabel("T (tokens)")
    upper.set_ylabel(label_axis(metric))
    lower.set_ylabel("length ratio (replies / references)")
    add_legend(figure, *upper.get_legend_handles_labels())
    return figure


def draw_options(groups: Mapping[str, Trials], looks: Mapping[str, Look], metric: str) -> Figure:
    """Draws a metric as markers, by option and system: a row per value; the default is filled."""
    ys: dict[tuple[str, str], float] = {}  # option and value: how far down
    height = 0.0
    for option, systems in groups.items():
        values = list(dict.fromkeys(trial.value for line in systems.values() for trial in line))
        if not any(map(_is_word, values)):
            values.sort(key=_value_order)
        ys |= {(option, value): height + row for row, value in enumerate(values)}
        height += len(values) + GAP
    bottom = max(ys.values())
    figure = new_figure(WIDTH, ROW * (bottom + 1) + 0.9)
    axes = figure.subplots()
    labelled: set[str] = set()
    for option, systems in groups.items():
        for system, line in systems.items():
            for trial in line:
                style: dict[str, Any] = looks[system].options | {"linestyle": "none", "markersize": 7}
                if not trial.is_default:
                    style["markerfacecolor"] = "white"
                elif system not in labelled:
                    style["label"] = f" {system}"
                    labelled.add(system)
                axes.plot([trial.score], [ys[option, trial.value]], **style)
    axes.set_yticks([*ys.values()], [f"{option} = {value}" for option, value in ys])
    axes.set_ylim(bottom + 0.7, -0.7)
    axes.set_xlabel(label_axis(metric))
    if labelled:
        add_legend(figure, *axes.get_legend_handles_labels())
    return figure


def _value_order(value: str) -> tuple[bool, float, str]:
    """The sort key of a value: numbers by size, then words."""
    try:
        return (False, float(value), value)
    except ValueError:
        return (True, 0.0, value)


def _is_word(value: str) -> bool:
    return _value_order(value)[0]
