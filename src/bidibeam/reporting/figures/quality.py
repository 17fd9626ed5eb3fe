"""BLEU against N_B, a line a system; BidiA's variants and the oracle have panels and scales of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bidibeam.evaluation.names import AGREEMENT, BASE, ORACLE, TUNED
from bidibeam.reporting.figures.systems import Line, Look, draw_lines
from bidibeam.reporting.plots import new_figure, size_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BESIDE = (ORACLE, TUNED, BASE)
"""What the panel of the oracle shows."""
CROWD = 8
"""So many lines a panel can show."""
HEIGHTS = (3.4, 2.9, 2.3)
"""Inches of the panels: all systems, BidiA's variants, the oracle."""
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


@dataclass(frozen=True)
class Panel:
    """Lines that share a scale.

    Attributes:
        lines: What it shows.
        height: In inches.
        is_best: Whether it is the oracle's.
        from_zero: Whether its scale begins at 0.
    """

    lines: Sequence[Line]
    height: float
    is_best: bool = False
    from_zero: bool = True


def panels(lines: Sequence[Line]) -> list[Panel]:
    """All systems, BidiA's variants where they would crowd the others, and the oracle with its baselines."""
    best = [line for line in lines if line.name in BESIDE]
    others = [line for line in lines if line.name != ORACLE]
    found = []
    if len(others) > CROWD and (variants := [line for line in others if _is_variant(line.name)]):
        agreeing = [line for line in others if line.name.split()[0] == AGREEMENT or line.name == TUNED]
        others = [line for line in others if line not in variants]
        found.append(Panel(agreeing, HEIGHTS[1], from_zero=False))
    if others:
        found.insert(0, Panel(others, HEIGHTS[0]))
    if any(line.name == ORACLE for line in best):
        found.append(Panel(best, HEIGHTS[2], is_best=True))
    return found


def _is_variant(name: str) -> bool:
    """Whether a system is BidiA with an option, as `bidia bleu_t either` is."""
    strategy, *rest = name.split()
    return strategy == AGREEMENT and len(rest) > 1


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
    heights = [panel.height for panel in shown]
    figure = new_figure(8.0, sum(heights) + 0.3)
    grid = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    sizes = {size for line in lines for size in line.sizes}
    for axes, panel in zip(grid, shown, strict=True):
        draw_lines(axes, panel.lines, look)
        if panel.from_zero:
            marks = {name: points for name, points in paper.items() if (name == ORACLE) == panel.is_best}
            _draw_paper(axes, marks, look, None if panel.is_best else claim)
            sizes |= {size for points in marks.values() for size in points}
            axes.set_ylim(bottom=0)
    size_axis(grid[-1], sorted(sizes))
    for axes in grid:
        axes.tick_params(labelbottom=True)
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
