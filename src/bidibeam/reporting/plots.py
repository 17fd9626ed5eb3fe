"""Figures, drawn with matplotlib where that is installed: it is an extra."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bidibeam.files import replacing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MISSING = "No plot was drawn: matplotlib is not installed. pip install 'bidibeam[plots]' brings it."

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#595959"
"""Okabe and Ito's colours, which the colour-blind can tell apart."""
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "bidibeam",
}


def curves_figure(
    path: Path,
    panels: Sequence[tuple[str, Sequence[float], Sequence[float], float]],
    *,
    baseline: tuple[str, float],
) -> bool:
    """Draw BLEU against one setting a panel, side by side; False if there is nothing to draw with.

    Args:
        path: The file; its ending decides the format.
        panels: For each: the setting, its values, BLEU at each, and the value chosen.
        baseline: A name and a BLEU to draw across.
    """
    if find_spec("matplotlib") is None:
        return False
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.4 * len(panels), 3.0), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]  # each with its own scale
        name, level = baseline
        for axis, (setting, values, bleu, best) in zip(axes, panels, strict=True):
            axis.axhline(level, color=GREY, linestyle="--", linewidth=1, label=name)
            axis.plot(values, bleu, color=BLUE, marker="o", markersize=2.5, linewidth=1.4)
            chosen = bleu[list(values).index(best)]
            axis.plot([best], [chosen], color=ORANGE, marker="D", linestyle="none", label=f"best: {best:g}")
            axis.set_xlabel(setting)
            axis.set_ylim(0, 1.1 * max(level, *bleu) or 1.0)
            axis.legend(frameon=False, fontsize=8)
        axes[0].set_ylabel("corpus BLEU on validation")
        with replacing(path) as partial:
            figure.savefig(partial, format=path.suffix.removeprefix("."), metadata={"Date": None})
    return True
