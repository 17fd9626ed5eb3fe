"""BLEU and length ratio against T, the length that the brevity penalty asks for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bidibeam.reporting.figures.systems import Look
from bidibeam.reporting.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CROWD = 10
"""So many values, and words keep a step's distance from numbers; with twice as many, two."""
RING: dict[str, Any] = {
    "marker": "o",
    "markersize": 13,
    "markerfacecolor": "none",
    "linestyle": "none",
    "color": "black",
}


@dataclass(frozen=True)
class Trial:
    """What came of one value of a setting.

    Attributes:
        value: As tables show it.
        bleu: Corpus BLEU.
        length_ratio: Words of replies over words of references; None where nobody counted.
        is_default: Whether it is what you get unasked.
    """

    value: str
    bleu: float
    length_ratio: float | None
    is_default: bool


def draw_penalty(
    trials: Mapping[str, Sequence[Trial]], levels: Mapping[str, Trial], look: Mapping[str, Look]
) -> Figure:
    """Draw a line a system, values that are no number ("none") apart; a ring marks the default.

    Args:
        trials: By system, what was tried.
        levels: By system, what does not depend on T, drawn across.
        look: Of each system.
    """
    places = _places({trial.value for line in trials.values() for trial in line})
    figure = new_figure(8.0, 3.5)
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.08})
    for axes, measure in ((left, "bleu"), (right, "length_ratio")):
        for name, line in trials.items():
            _draw_line(
                axes,
                look[name],
                f" {name}",
                [(places[trial.value], getattr(trial, measure), trial) for trial in line],
            )
        for name, trial in levels.items():
            if (level := getattr(trial, measure)) is not None:
                style = {"color": look[name].colour, "linestyle": look[name].line}
                axes.axhline(level, linewidth=1.2, label=f" {name}", zorder=1, **style)
        axes.plot([], [], label=" default", **RING)
        axes.set_xticks([*places.values()], [*places])
        axes.set_xlabel("T (tokens)")
        axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    left.set_ylabel("corpus BLEU-4 (0 to 100)")
    right.set_ylabel("length ratio (replies / references)")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


def _places(values: Collection[str]) -> dict[str, int]:
    """Where each value stands, side by side; words stand further off where many make the steps narrow."""
    ticks = sorted(values, key=value_order)
    gap = len(ticks) // CROWD
    return {value: place + gap * value_order(value)[0] for place, value in enumerate(ticks)}


def _draw_line(axes: Axes, look: Look, label: str, points: Sequence[tuple[int, float | None, Trial]]) -> None:
    """Numbers joined, words not, and rings around defaults."""
    known = sorted(((x, y, trial) for x, y, trial in points if y is not None), key=lambda point: point[0])
    joined = [(x, y) for x, y, trial in known if not value_order(trial.value)[0]]
    apart = [(x, y) for x, y, trial in known if value_order(trial.value)[0]]
    rings = [(x, y) for x, y, trial in known if trial.is_default]
    axes.plot(*_sides(joined), label=label, **look.options())
    axes.plot(*_sides(apart), **look.options() | {"linestyle": "none"})
    axes.plot(*_sides(rings), **RING)


def _sides(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def value_order(value: str) -> tuple[bool, float, str]:
    """Sorts numbers by size, and words after them."""
    try:
        return (False, float(value), value)
    except ValueError:
        return (True, 0.0, value)
