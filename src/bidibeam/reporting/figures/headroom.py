"""How much of the oracle's lead each system takes, against N_B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bidibeam.reporting.figures.systems import Line, Look, draw_lines
from bidibeam.reporting.plots import new_figure, size_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOWEST, LEAST = -60.0, 20.0
"""Per cent: what lies below the first is not drawn, or one bad system would flatten all others; the scale
goes to the second at least, and to the oracle only if somebody comes near it."""


def draw_headroom(lines: Sequence[Line], look: Mapping[str, Look], *, baseline: str) -> Figure:
    """Draw shares of the way from a baseline to the oracle; both are lines across, where in view.

    Args:
        lines: By system, the shares, of 1.
        look: Of each system.
        baseline: What is 0.
    """
    figure = new_figure(8.0, 4.0)
    axes = figure.subplots()
    shown = [line for line in map(_visible, lines) if line.sizes]
    draw_lines(axes, shown, look, scale=100)
    size_axis(axes, sorted({size for line in lines for size in line.sizes}))
    values = [100 * value for line in lines for value in line.values]
    axes.set_ylim(max(LOWEST, min(1.1 * min(values), -10)), min(max(1.3 * max(values), LEAST), 108))
    for level in (0, 100):
        axes.axhline(level, color="black", linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    axes.set_ylabel(f"headroom captured (%)\n0 = {baseline}, 100 = oracle")
    if shown:
        figure.legend(loc="outside right center", handlelength=3.2, labelspacing=0.7)
    return figure


def _visible(line: Line) -> Line:
    """Of a line what is not too low to be drawn."""
    points = [
        (size, share) for size, share in zip(line.sizes, line.values, strict=True) if 100 * share >= LOWEST
    ]
    return Line(line.name, [size for size, _ in points], [share for _, share in points])
