"""How often the commonest words stand at the first places, read from the left and from the right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bidibeam.reporting.figures.systems import BLUE, VERMILLION
from bidibeam.reporting.plots import SMALL, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OFTEN = 1000
NAMED, LETTERS = 4, 10
COLOURS = {"left": BLUE, "right": VERMILLION}


def draw_positions(panels: Mapping[str, Sequence[tuple[int, Sequence[str], Sequence[int], int]]]) -> Figure:
    """Draw counts by rank, on a logarithmic scale: a row a side, a column a position.

    Args:
        panels: By side ("left", "right"): the position, the commonest words there, their counts, and how many
            words appear more than a thousand times there.
    """
    from matplotlib.ticker import FuncFormatter, NullLocator

    columns = max(len(row) for row in panels.values())
    figure = new_figure(8.0, 2.35 * len(panels) + 0.4)
    grid = figure.subplots(len(panels), columns, sharex=True, sharey=True, squeeze=False)
    for axes_row, (side, row) in zip(grid, panels.items(), strict=True):
        for axes, (position, words, counts, above) in zip(axes_row, row, strict=False):
            edges = [rank + 0.5 for rank in range(len(counts) + 1)]
            axes.stairs(counts, edges, fill=True, color=COLOURS.get(side, BLUE), alpha=0.75)
            axes.set_title(f"position {position} from the {side}")
            _note(axes, words, above)
        axes_row[0].set_ylabel("count")
    grid[0][0].set_yscale("log")
    grid[0][0].yaxis.set_minor_locator(NullLocator())
    grid[0][0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    counts = [count for row in panels.values() for _, _, counts, _ in row for count in counts if count > 0]
    bottom = 10.0 ** math.floor(math.log10(min(counts, default=1)))
    grid[0][0].set_ylim(min(bottom, OFTEN / 10), max(counts, default=OFTEN) * 8)  # room for the notes
    longest = max(len(one[2]) for row in panels.values() for one in row)
    grid[0][0].set_xticks([1, *range(10, longest + 1, 10)])
    figure.supxlabel("rank of the word at its position", fontsize=10)
    return figure


def _note(axes: Axes, words: Sequence[str], above: int) -> None:
    """A line at a thousand, how many words are above it, and the first words."""
    axes.axhline(OFTEN, color="black", linewidth=1, linestyle=(0, (1, 2)))
    axes.grid(visible=False, axis="x")
    named = " ".join(map(_short, words[:NAMED]))
    for height, text in ((0.97, f"{above:,} above {OFTEN:,}"), (0.86, named)):
        axes.text(0.97, height, text, transform=axes.transAxes, ha="right", va="top", fontsize=SMALL)


def _short(word: str) -> str:
    """A word without what cannot be printed, and not too long."""
    letters = "".join(letter for letter in word if letter.isprintable())
    return letters if len(letters) <= LETTERS else f"{letters[: LETTERS - 1]}…"
