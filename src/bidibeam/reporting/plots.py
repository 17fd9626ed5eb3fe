"""What figures of reports have in common: the look of systems, lines over N_B, tuning curves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import accumulate, product
from math import log
from textwrap import fill
from typing import TYPE_CHECKING, Any

from bidibeam.figures import (
    BLACK,
    BLUE,
    DARK_GREY,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    new_figure,
    require_matplotlib,
    use_style,
)
from bidibeam.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSING = "No plot was drawn: matplotlib is not installed. pip install 'bidibeam[plots]' brings it."

PANELS_PER_ROW = 3
WIDTH = 3.9
"""Inches of a report's figure: a phone shows it as wide as its screen, with text that can be read."""
LETTER, HANDLE, LEGEND_ROW = 0.066, 0.5, 0.19
"""Inches of a letter in a legend, of what stands before a name there, and of a row."""
MOST_COLUMNS = 3
LONG_NAME = 17
"""Letters of a name beside a row; a longer one takes two lines."""
ABOVE_PANEL: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (-0.17, 1.0), "borderaxespad": 0.3}
ABOVE_FIGURE: dict[str, Any] = {"loc": "outside upper left"}
"""Where a legend stands."""
TICK_LETTER, TICK_GAP = 0.021, 0.018
"""The width of a digit of a tick's label, and the room between two labels, in parts of the axis."""
SHIFT = 1.013
"""The factor of N_B between the error bars of neighbouring systems."""


def check_matplotlib() -> None:
    """Raises InputError if matplotlib is not installed."""
    require_matplotlib("A report has figures")


def add_legend(target: Axes | Figure, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """Adds a legend above a panel or a figure, which grows by its rows: beside it is no room."""
    from matplotlib.figure import Figure

    columns, rows = arrange_legend([len(name) for name in names])
    where = ABOVE_FIGURE if isinstance(target, Figure) else ABOVE_PANEL
    target.legend(handles, names, ncols=columns, handlelength=2.4, columnspacing=1.0, **where)
    figure = target.get_figure(root=True)
    if figure is not None:
        figure.set_figheight(figure.get_figheight() + LEGEND_ROW * rows)


def arrange_legend(lengths: Sequence[int]) -> tuple[int, int]:
    """Returns the columns and the rows of a legend of names of so many letters: as many columns as fit."""
    for columns in range(min(MOST_COLUMNS, len(lengths)), 1, -1):
        sizes = [len(lengths) // columns + (index < len(lengths) % columns) for index in range(columns)]
        ends = [*accumulate(sizes)]
        widest = [max(lengths[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
        if LETTER * sum(widest) + HANDLE * columns <= WIDTH:
            return columns, sizes[0]
    return 1, len(lengths)


def set_size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    """Makes the x axis one of N_B: logarithmic, with a tick per size, and a label where there is room."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    width, labels = log(sizes[-1] / sizes[0]) or 1.0, [str(sizes[-1])]
    last = sizes[-1]
    for size in reversed(sizes[:-1]):
        needed = TICK_LETTER * (len(str(size)) + len(str(last))) / 2 + TICK_GAP
        is_shown = log(last / size) / width > needed
        labels.insert(0, str(size) if is_shown else "")
        last = size if is_shown else last
    axes.set_xticks(sizes, labels)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("N_B (hypotheses to choose from)")


@dataclass(frozen=True)
class Look:
    """Colour, marker and line style of a system."""

    colour: str
    marker: str
    line: str | tuple[int, tuple[int, ...]]

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of matplotlib's `plot`."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.line,
            "linewidth": 1.4,
            "markersize": 5.5,
            "markeredgewidth": 1.2,
        }


LOOKS = {
    "vbs": Look(BLACK, "o", "-"),
    "vbs-tuned": Look(BLACK, "s", "--"),
    "bidis": Look(BLUE, "^", "-"),
    "bidia bleu_t": Look(VERMILLION, "D", "-"),
    "bidia wmd_t": Look(GREEN, "v", "-"),
    "bidia bleu_t tuned": Look(VERMILLION, "d", ":"),
    "bidia wmd_t tuned": Look(GREEN, "h", ":"),
    "bidia bleu_t either": Look(VERMILLION, "P", "--"),
    "bidia bleu_t expected": Look(ORANGE, "X", "-."),
    "longest": Look(PURPLE, "<", ":"),
    "reverse-vbs": Look(SKY, ">", "--"),
    "random": Look(GREY, "x", (0, (5, 4))),
    "oracle": Look(GREY, "*", "-"),
}
"""The same in every figure."""
OTHER_LOOKS = [
    Look(colour, marker, line)
    for line, (marker, colour) in product(
        ("-.", ":"), zip("pH8+12", (BLUE, GREEN, PURPLE, SKY, ORANGE, BLACK), strict=True)
    )
]


def assign_looks(names: Iterable[str]) -> dict[str, Look]:
    """Returns the look of every system of a report; unknown systems get theirs in alphabetical order."""
    unknown = sorted(name for name in set(names) if name not in LOOKS)
    return LOOKS | {name: OTHER_LOOKS[index % len(OTHER_LOOKS)] for index, name in enumerate(unknown)}


FAR = 3.0
"""How many times as far from the best as the middle one a system is still drawn to scale."""


@dataclass(frozen=True)
class Series:
    """A system's values over N_B, which rises; spreads are half the lengths of the error bars."""

    name: str
    sizes: Sequence[int]
    values: Sequence[float]
    spreads: Sequence[float | None] = ()


def draw_series(
    axes: Axes, series: Sequence[Series], looks: Mapping[str, Look], *, scale: float = 1.0
) -> None:
    """Draws series as lines, the highest first in the legend; error bars stand side by side."""
    order = {name: index for index, name in enumerate(looks)}  # the first lie under the others
    has_bars = any(spread for one in series for spread in one.spreads)
    for index, one in enumerate(sorted(series, key=lambda one: -one.values[-1])):
        shift = SHIFT ** (index - (len(series) - 1) / 2) if has_bars else 1.0
        sizes, values = [shift * size for size in one.sizes], [scale * value for value in one.values]
        depth = 2 + order[one.name] / 100
        (drawn,) = axes.plot(sizes, values, zorder=depth, **looks[one.name].options)
        drawn.set_label(f" {one.name}")  # a name that begins with _ would not be in the legend
        widths = [scale * (spread or 0.0) for spread in one.spreads]
        if any(widths):
            low, high = ([v + sign * w for v, w in zip(values, widths, strict=True)] for sign in (-1, 1))
            axes.vlines(sizes, low, high, colors=looks[one.name].colour, linewidth=1.0, zorder=depth)


def draw_ranked(
    series: Sequence[Series], label: str, *, lower_is_better: bool, hollow: Collection[str] = ()
) -> Figure:
    """Draws systems at one N_B, the best at the top, some of them hollow; what lies far off has a number."""
    ranked = sorted(series, key=lambda one: one.values[-1], reverse=not lower_is_better)
    values = [one.values[-1] for one in ranked]
    spreads = [(one.spreads or [None])[-1] or 0.0 for one in ranked]
    best, middle = values[0], values[len(values) // 2]
    reach = FAR * max(abs(middle - best), 0.5)
    near = [bar for bar in zip(values, spreads, strict=True) if abs(bar[0] - best) <= reach]
    low, high = min(v - w for v, w in near), max(v + w for v, w in near)
    names = [fill(one.name, LONG_NAME, break_long_words=False) for one in ranked]
    figure = new_figure(WIDTH, 0.8 + (0.31 if any("\n" in name for name in names) else 0.25) * len(ranked))
    axes = figure.subplots()
    for row, (one, value, spread) in enumerate(zip(ranked, values, spreads, strict=True)):
        shown = min(max(value, low), high)
        colour = GREY if one.name in hollow else BLUE
        face = "white" if one.name in hollow else colour
        axes.plot([shown], [row], "o", color=colour, markerfacecolor=face, markersize=6)
        if shown == value:
            axes.hlines(row, value - spread, value + spread, colors=colour, linewidth=1.2, zorder=1)
        else:
            side, gap = ("right", -8) if value > shown else ("left", 8)
            points = "offset points"
            axes.annotate(f"{value:.1f}", (shown, row), (gap, 0), textcoords=points, ha=side, va="center")
    axes.set_yticks(range(len(ranked)), names)
    axes.set_ylim(len(ranked) - 0.5, -0.5)
    axes.set_xlabel(label)
    return figure


def draw_tuning_curves(
    path: Path,
    panels: Sequence[tuple[str, Sequence[float], Sequence[float], float]],
    *,
    baseline: tuple[str, float] | None,
    metric: str,
) -> bool:
    """Draws a metric against one setting per panel; returns False if matplotlib is not installed.

    The suffix of the path decides the format. A panel is the setting, its values, the metric at each, and the
    best value; the baseline, a name and a value, is drawn across, if there is one.
    """
    if find_spec("matplotlib") is None:
        return False
    with use_style():
        columns = min(len(panels), PANELS_PER_ROW)
        rows = -(-len(panels) // columns)
        figure = new_figure(3.4 * columns, 3.0 * rows)
        axes = [figure.add_subplot(rows, columns, index) for index in range(1, len(panels) + 1)]
        name, level = baseline or ("", 0.0)
        for axis, (setting, values, scores, best) in zip(axes, panels, strict=True):
            if baseline is not None:
                axis.axhline(level, color=DARK_GREY, linestyle="--", linewidth=1, label=name)
            axis.plot(values, scores, color=BLUE, marker="o", markersize=2.5, linewidth=1.4)
            at_best, label = scores[list(values).index(best)], f"best: {best:g}"
            axis.plot([best], [at_best], color=VERMILLION, marker="D", linestyle="none", label=label)
            axis.set_xlabel(setting)
            axis.set_ylim(0, 1.1 * max(level, *scores) or 1.0)
            axis.legend()
        for axis in axes[::columns]:
            axis.set_ylabel(f"{metric} on validation")
        with replacing(path) as partial:
            figure.savefig(partial, format=path.suffix.removeprefix("."), metadata={"Date": None})
    return True
