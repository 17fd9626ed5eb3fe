"""Which place of the beam is chosen, how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bidibeam.reporting.figures.systems import Look
from bidibeam.reporting.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_ranks(
    systems: Mapping[str, tuple[Sequence[float], Sequence[float]]], look: Mapping[str, Look]
) -> Figure:
    """Draw a histogram of places a panel.

    Args:
        systems: By system, for each place the share of sources for which it was chosen, and its share of the
            places tied for first (empty if nobody counted).
        look: Of each system.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = new_figure(min(8.0, 2.4 * len(systems) + 0.8), 2.9)
    panels = figure.subplots(1, len(systems), sharey=True, squeeze=False)[0]
    for axes, (name, (chosen, tied)) in zip(panels, systems.items(), strict=True):
        places = range(1, len(chosen) + 1)
        axes.bar(places, [100 * share for share in chosen], width=0.9, color=look[name].colour, alpha=0.65)
        if len(tied):
            edges = [place - 0.5 for place in range(1, len(tied) + 2)]
            heights = [100 * share for share in tied]
            axes.stairs(heights, edges, color="black", linewidth=1.2)
        axes.set_title(name)
        axes.grid(visible=False, axis="x")
        axes.set_xticks(_ticks(len(chosen)))
    figure.supxlabel("place in the regular beam (1 = most likely)", fontsize=10)
    panels[0].set_ylabel("sources (%)")
    bars, outline = Patch(color="#9a9a9a"), Line2D([], [], color="black", linewidth=1.2)
    figure.legend([bars, outline], ["the reply", "ties shared equally"], loc="outside upper right", ncols=2)
    return figure


def _ticks(places: int) -> list[int]:
    """The first place and about five others."""
    step = max(1, round(places / 25)) * 5 if places > 5 else 1
    return [1, *range(step if step > 1 else 2, places + 1, step)]
