"""BLEU against N_B, a line a system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bidibeam.reporting.figures.systems import Line, Look, draw_lines
from bidibeam.reporting.plots import new_figure, size_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPEN = {"linestyle": "none", "markerfacecolor": "none", "markersize": 8, "zorder": 4}
"""How what is not ours is marked."""


def draw_quality(
    lines: Sequence[Line],
    look: Mapping[str, Look],
    *,
    paper: Mapping[str, Mapping[int, float]],
    claim: tuple[str, str, int, float] | None = None,
) -> Figure:
    """Draw BLEU against N_B.

    Args:
        lines: Ours.
        look: Of each system.
        paper: By system, the paper's BLEU by N_B, drawn as open marks.
        claim: Something the paper says in words: a label, the system, N_B and BLEU.
    """
    figure = new_figure(8.0, 4.6)
    axes = figure.subplots()
    draw_lines(axes, lines, look)
    sizes = {size for line in lines for size in line.sizes}
    for system, points in paper.items():
        axes.plot([*points], [*points.values()], label=f" paper: {system}", **look[system].options() | OPEN)
        sizes |= set(points)
    if claim is not None:
        label, system, size, bleu = claim
        axes.plot([size], [bleu], label=f" {label}", **look[system].options() | OPEN)
    size_axis(axes, sorted(sizes))
    axes.set_ylim(bottom=0)
    axes.set_ylabel("corpus BLEU-4 (0 to 100)")
    figure.legend(loc="outside right center", handlelength=3.2, labelspacing=0.7)
    return figure
