"""BLEU by every option that the paper leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bidibeam.reporting.blocks import Block, Picture, Section, make_table, number_columns, text_columns
from bidibeam.reporting.numbers import LABELS, average_rows, format_metric, to_number
from bidibeam.reporting.plots import Look, assign_looks, new_figure
from bidibeam.reporting.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = ("bleu", "length_ratio", "distinct-2")
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


class Trial(NamedTuple):
    """The scores of one value of an option; the length ratio may be unknown."""

    value: str
    bleu: float
    length_ratio: float | None
    is_default: bool


Trials = Mapping[str, Sequence[Trial]]
"""By system."""


def sensitivity(results: Results) -> Section | None:
    """BLEU by T and by every other option."""
    analyses = results.analyses("sensitivity")
    scored = average_rows(analyses, "rows", "system", "option", "value")
    if not scored:
        return None
    groups: dict[str, dict[str, list[Trial]]] = {}
    rows = []
    for row in scored:
        system, option, value = row["system"], str(row.get("option") or ""), str(row.get("value"))
        is_default, bleu = bool(row.get("is_default")), to_number(row.get("bleu"))
        shown = f"{value} (default)" if is_default else value
        rows.append([system, option, shown, *(format_metric(name, row.get(name)) for name in METRICS)])
        if bleu is not None:
            trial = Trial(value, bleu, to_number(row.get("length_ratio")), is_default)
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
            f"BLEU and length ratio{at} by T, the length that BP_T asks for; “none” has no penalty, a ring "
            "marks the default."
        )
        blocks.append(Picture("penalty", caption, partial(draw_penalty, lengths, levels, looks)))
    if groups:
        caption = f"BLEU by the other options{at}, on a scale that does not begin at 0."
        blocks.append(Picture("options", caption, partial(draw_options, groups, looks)))
    scores = number_columns(*(LABELS.get(name, name) for name in METRICS))
    columns = [*text_columns("system", "option", "value"), *scores]
    blocks.append(make_table(f"All options{at}", columns, rows, results.means_note, is_folded=True))
    return Section("sensitivity", "Sensitivity to what the paper leaves open", blocks)


def draw_penalty(trials: Trials, levels: Mapping[str, Trial], looks: Mapping[str, Look]) -> Figure:
    """Draws BLEU and length ratio against T; "none" stands apart, and levels are drawn across."""
    ticks = sorted({trial.value for line in trials.values() for trial in line}, key=_value_order)
    gap = len(ticks) // MANY_VALUES
    xs = {value: index + gap * _is_word(value) for index, value in enumerate(ticks)}
    figure = new_figure(8.0, 3.5)
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.08})
    for axes, measure in ((left, "bleu"), (right, "length_ratio")):
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
        axes.set_xlabel("T (tokens)")
        axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    left.set_ylabel("corpus BLEU-4 (0 to 100)")
    right.set_ylabel("length ratio (replies / references)")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


def draw_options(groups: Mapping[str, Trials], looks: Mapping[str, Look]) -> Figure:
    """Draws BLEU as markers, by option and system: a row per value; the default is filled."""
    ys: dict[tuple[str, str], float] = {}  # option and value: how far down
    height = 0.0
    for option, systems in groups.items():
        values = list(dict.fromkeys(trial.value for line in systems.values() for trial in line))
        if not any(map(_is_word, values)):
            values.sort(key=_value_order)
        ys |= {(option, value): height + row for row, value in enumerate(values)}
        height += len(values) + GAP
    bottom = max(ys.values())
    figure = new_figure(8.0, ROW * (bottom + 1) + 1.1)
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
                axes.plot([trial.bleu], [ys[option, trial.value]], **style)
    axes.set_yticks([*ys.values()], [f"{option} = {value}" for option, value in ys])
    axes.set_ylim(bottom + 0.7, -0.7)
    axes.set_xlabel("corpus BLEU-4 (0 to 100); filled: the default")
    if labelled:
        figure.legend(loc="outside upper center", ncols=4)
    return figure


def _value_order(value: str) -> tuple[bool, float, str]:
    """The sort key of a value: numbers by size, then words."""
    try:
        return (False, float(value), value)
    except ValueError:
        return (True, 0.0, value)


def _is_word(value: str) -> bool:
    return _value_order(value)[0]
