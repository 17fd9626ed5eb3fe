"""How much of the oracle's lead each system takes, against N_B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bidibeam.reporting.figures.systems import Line, Look, draw_lines
from bidibeam.reporting.plots import new_figure, size_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOWEST = -100.0
"""Per cent: what lies lower is not drawn, or one bad system would flatten all others."""


def draw_headroom(lines: Sequence[Line], look: Mapping[str, Look], *, baseline: str) -> Figure:
    """Draw shares of the way from a baseline to the oracle, both of them lines across.

    Args:
        lines: By system, the shares, of 1.
        look: Of each system.
        baseline: What is 0.
    """
    figure = new_figure(8.0, 4.0)
    axes = figure.subplots()
    draw_lines(axes, lines, look, scale=100)
    size_axis(axes, sorted({size for line in lines for size in line.sizes}))
    lowest = min(min(line.values) for line in lines) * 100
    axes.set_ylim(max(LOWEST, min(lowest * 1.1, -10)), 108)
    for level in (0, 100):
        axes.axhline(level, color="black", linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    axes.set_ylabel(f"headroom captured (%)\n0 = {baseline}, 100 = oracle")
    figure.legend(loc="outside right center", handlelength=3.2, labelspacing=0.7)
    return figure
