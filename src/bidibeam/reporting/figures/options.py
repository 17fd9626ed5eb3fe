"""BLEU by every other option: a row a value, in groups of one option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bidibeam.reporting.figures.penalty import Trial, value_order
from bidibeam.reporting.figures.systems import Look
from bidibeam.reporting.plots import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROW, GAP = 0.23, 0.5
"""The height of a row in inches, and the gap between options in rows."""


def draw_options(groups: Mapping[str, Mapping[str, Sequence[Trial]]], look: Mapping[str, Look]) -> Figure:
    """Draw dots: a row a value, a mark a system, filled where it is the default.

    Args:
        groups: By option, by system, what was tried.
        look: Of each system.
    """
    places = _places(groups)
    height = max(places.values())
    figure = new_figure(8.0, ROW * (height + 1) + 1.1)
    axes = figure.subplots()
    named: set[str] = set()
    for option, systems in groups.items():
        for system, line in systems.items():
            for trial in line:
                style: dict[str, Any] = look[system].options() | {"linestyle": "none", "markersize": 7}
                style |= {} if trial.is_default else {"markerfacecolor": "white"}
                style |= {} if system in named or not trial.is_default else {"label": f" {system}"}
                named |= {system} if trial.is_default else set()
                axes.plot([trial.bleu], [places[option, trial.value]], **style)
    axes.set_yticks([*places.values()], [f"{option} = {value}" for option, value in places])
    axes.set_ylim(height + 0.7, -0.7)
    axes.set_xlabel("corpus BLEU-4 (0 to 100); filled: the default")
    if named:
        figure.legend(loc="outside upper center", ncols=4)
    return figure


def _places(groups: Mapping[str, Mapping[str, Sequence[Trial]]]) -> dict[tuple[str, str], float]:
    """By option and value, how far down its row is."""
    places: dict[tuple[str, str], float] = {}
    height = 0.0
    for option, systems in groups.items():
        values = list(dict.fromkeys(trial.value for line in systems.values() for trial in line))
        if not any(value_order(value)[0] for value in values):
            values.sort(key=value_order)
        for value in values:
            places[option, value] = height
            height += 1
        height += GAP
    return places
