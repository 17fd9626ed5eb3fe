"""BLEU against N_B, a line a system; the oracle has a panel and a scale of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bidibeam.reporting.figures.systems import Line, Look, draw_lines
from bidibeam.reporting.plots import new_figure, size_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORACLE = "oracle"
BESIDE = (ORACLE, "vbs-tuned", "vbs")
"""What the panel of the oracle shows."""
HEIGHTS = {False: 3.9, True: 2.6}
"""Inches, by whether it is the oracle's panel."""
WHITE: dict[str, Any] = {
    "linestyle": "none",
    "markerfacecolor": "white",
    "markeredgewidth": 1.6,
    "zorder": 10,
}
"""How what is not ours is marked: on top of all lines."""
POINTS = {"*": 13.0}
"""The size of such a mark, where 9 points are too small."""
LEFT, RIGHT = 0.93, 1.12
"""The paper's numbers stand this far to the left of their N_B and its claim to the right, clear of ours."""


def panels(lines: Sequence[Line]) -> list[list[Line]]:
    """All systems but the oracle, then the oracle with what it is compared with; without it, one panel."""
    others = [line for line in lines if line.name != ORACLE]
    best = [line for line in lines if line.name in BESIDE] if len(others) < len(lines) else []
    return [panel for panel in (others, best) if panel]


def draw_quality(
    lines: Sequence[Line],
    look: Mapping[str, Look],
    *,
    paper: Mapping[str, Mapping[int, float]],
    claim: tuple[str, str, int, float] | None = None,
) -> Figure:
    """Draw BLEU against N_B, panels under each other.

    Args:
        lines: Ours.
        look: Of each system.
        paper: By system, the paper's BLEU by N_B, drawn as white marks; the oracle's in its panel, others in
            the first.
        claim: Something the paper says in words: a label, the system, N_B and BLEU.
    """
    shown = panels(lines)
    is_best = [any(line.name == ORACLE for line in panel) for panel in shown]
    heights = [HEIGHTS[best] for best in is_best]
    figure = new_figure(8.0, sum(heights) + 0.3)
    grid = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    sizes = {size for line in lines for size in line.sizes}
    for axes, panel, best in zip(grid, shown, is_best, strict=True):
        draw_lines(axes, panel, look)
        marks = {name: points for name, points in paper.items() if (name == ORACLE) == best}
        _draw_paper(axes, marks, look, None if best else claim)
        sizes |= {size for points in marks.values() for size in points}
    size_axis(grid[-1], sorted(sizes))
    for axes in grid:
        axes.tick_params(labelbottom=True)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("corpus BLEU-4 (0 to 100)")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.2, labelspacing=0.6)
    return figure


def _draw_paper(
    axes: Axes,
    paper: Mapping[str, Mapping[int, float]],
    look: Mapping[str, Look],
    claim: tuple[str, str, int, float] | None,
) -> None:
    marks: list[tuple[str, str, list[float], list[float]]] = [
        (f"paper: {name}", name, [LEFT * size for size in points], [*points.values()])
        for name, points in paper.items()
    ]
    if claim is not None:
        label, system, size, bleu = claim
        marks.append((label, system, [RIGHT * size], [bleu]))
    for label, system, xs, ys in marks:
        style = look[system].options() | WHITE | {"markersize": POINTS.get(look[system].marker, 9.0)}
        axes.plot(xs, ys, label=f" {label}", **style)
