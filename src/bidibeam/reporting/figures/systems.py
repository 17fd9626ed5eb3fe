"""How systems look: the same in every figure, told apart by colour, by mark and by line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLACK, GREY = "#000000", "#7f7f7f"
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = (
    "#e69f00",
    "#56b4e9",
    "#009e73",
    "#0072b2",
    "#d55e00",
    "#cc79a7",
)
"""Okabe and Ito's colours, but for yellow, which print loses."""
STEP = 1.013
"""From the bar of one system to that of the next, as a factor of N_B."""


@dataclass(frozen=True)
class Look:
    """Colour, mark and line of a system."""

    colour: str
    marker: str
    line: str | tuple[int, tuple[int, ...]]

    def options(self) -> dict[str, Any]:
        """As matplotlib's `plot` takes them."""
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
OTHERS = [
    Look(colour, marker, line)
    for line, (marker, colour) in product(
        ("-.", ":"), zip("pH8+12", (BLUE, GREEN, PURPLE, SKY, ORANGE, BLACK), strict=True)
    )
]


def looks(names: Iterable[str]) -> dict[str, Look]:
    """The look of every system of a report; those we do not know get one in the order of their names."""
    unknown = sorted(name for name in set(names) if name not in LOOKS)
    return LOOKS | {name: OTHERS[index % len(OTHERS)] for index, name in enumerate(unknown)}


@dataclass(frozen=True)
class Line:
    """A system's course over N_B.

    Attributes:
        name: The system.
        sizes: Values of N_B, rising.
        values: One for each.
        spreads: The standard deviation over seeds at each; None where there is a single seed.
    """

    name: str
    sizes: Sequence[int]
    values: Sequence[float]
    spreads: Sequence[float | None] = ()


def draw_lines(axes: Axes, lines: Sequence[Line], look: Mapping[str, Look], *, scale: float = 1.0) -> None:
    """Draw lines, named in the order in which they end; bars of one standard deviation stand side by side."""
    order = {name: place for place, name in enumerate(look)}  # the first lie under the others
    for line, shift in zip(sorted(lines, key=lambda line: -line.values[-1]), _shifts(lines), strict=True):
        sizes, values = [shift * size for size in line.sizes], [scale * value for value in line.values]
        depth = 2 + order[line.name] / 100
        (drawn,) = axes.plot(sizes, values, zorder=depth, **look[line.name].options())
        drawn.set_label(f" {line.name}")  # a name that begins with _ would not be in the legend
        widths = [scale * (spread or 0.0) for spread in line.spreads]
        if any(widths):
            low = [value - width for value, width in zip(values, widths, strict=True)]
            high = [value + width for value, width in zip(values, widths, strict=True)]
            axes.vlines(sizes, low, high, colors=look[line.name].colour, linewidth=1.0, zorder=depth)


def _shifts(lines: Sequence[Line]) -> list[float]:
    """By how much each line's points are moved along an axis of N_B, so that bars do not hide each other."""
    if not any(spread for line in lines for spread in line.spreads):
        return [1.0] * len(lines)
    return [STEP ** (place - (len(lines) - 1) / 2) for place in range(len(lines))]
