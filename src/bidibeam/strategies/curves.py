"""What tuning found: the values chosen, and BLEU along every setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

OUTER = 0.1
"""A value this near the upper end of its grid, as a share of the grid, lies at it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Corpus BLEU along one setting, the others as they are named.

    Attributes:
        setting: The setting's name.
        held: What the other settings were.
        values: The values tried.
        bleu: Corpus BLEU at each.
    """

    setting: str
    held: dict[str, float]
    values: tuple[float, ...]
    bleu: tuple[float, ...]

    @property
    def best(self) -> tuple[float, float]:
        """The value with the highest BLEU, the first of equal ones, and that BLEU."""
        index = int(np.argmax(self.bleu))
        return self.values[index], self.bleu[index]

    @property
    def is_flat(self) -> bool:
        """Whether all values are as good as each other."""
        return len(set(self.bleu)) == 1

    def chosen(self, default: float) -> tuple[float, float]:
        """The best value and its BLEU; where all are as good, the one nearest the default."""
        return (nearest(self.values, default), self.bleu[0]) if self.is_flat else self.best

    @property
    def is_at_end(self) -> bool:
        """Whether a better value may lie beyond those tried.

        So it is if the best is the first, unless that is 0, which stands for nothing at all; or if it lies in
        the last tenth of the grid. Where all values are as good, nothing was decided.
        """
        first, last = self.values[0], self.values[-1]
        if self.is_flat:
            return False
        value, _ = self.best
        return (value == first and first != 0) or value >= last - OUTER * (last - first)


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was found.

    Attributes:
        options: By strategy, the settings to use; T by strategy and similarity, "bidia bleu_t".
        bleu: By the same names, corpus BLEU with them; and that of VBS as it was searched.
        curves: What there is to see: BLEU against lambda, against the exponent and the word reward, each with
            the other as it was chosen, and against every T; one for each option, in the order of `options`.
        sources: How many sources decided.
    """

    options: dict[str, dict[str, float]]
    bleu: dict[str, float]
    curves: tuple[Curve, ...]
    sources: int

    @property
    def named_curves(self) -> list[tuple[str, Curve]]:
        """Each curve with the name in `options` that it belongs to."""
        names = [name for name, options in self.options.items() for _ in options]
        return list(zip(names, self.curves, strict=True))

    @property
    def chosen(self) -> list[float]:
        """The value that was chosen on each curve."""
        return [value for options in self.options.values() for value in options.values()]

    @property
    def at_ends(self) -> list[tuple[str, Curve]]:
        """The curves, by name, whose best value lies at the end of what was tried."""
        return [(name, curve) for name, curve in self.named_curves if curve.is_at_end]

    @property
    def end_note(self) -> str:
        """Which values lie at the end of their grids, in a sentence; empty if none does."""
        told = [
            f"{curve.setting.replace('_', ' ')} of {name} ({curve.best[0]:g} of {curve.values[0]:g} to "
            f"{curve.values[-1]:g})"
            for name, curve in self.at_ends
        ]
        return f"At the end of what was tried, so better may lie beyond: {', '.join(told)}." if told else ""

    @property
    def flat_note(self) -> str:
        """Which settings made no difference, in a sentence; empty if all made one."""
        told = [
            f"{curve.setting.replace('_', ' ')} of {name} ({value:g})"
            for (name, curve), value in zip(self.named_curves, self.chosen, strict=True)
            if curve.is_flat and len(curve.values) > 1
        ]
        return (
            "BLEU is the same on these sources whatever the value, so the default, or what was tried nearest "
            f"to it, is kept: {', '.join(told)}."
            if told
            else ""
        )

    def without(self, names: Collection[str]) -> Tuned:
        """The same but for some of the names in `options`."""
        return Tuned(
            {name: options for name, options in self.options.items() if name not in names},
            {name: bleu for name, bleu in self.bleu.items() if name not in names},
            tuple(curve for name, curve in self.named_curves if name not in names),
            self.sources,
        )

    def extended(self, strategy: str, options: dict[str, float], bleu: float, *curves: Curve) -> Tuned:
        """The same and one more strategy."""
        return Tuned(
            {**self.options, strategy: options},
            {**self.bleu, strategy: bleu},
            (*self.curves, *curves),
            self.sources,
        )

    def joined(self, other: Tuned) -> Tuned:
        """The same and what was found elsewhere on as many sources, or a few less."""
        return Tuned(
            {**self.options, **other.options},
            {**self.bleu, **other.bleu},
            (*self.curves, *other.curves),
            self.sources,
        )


def nearest(values: Sequence[float], default: float) -> float:
    """The value nearest the default, the first of equally near ones."""
    return min(values, key=lambda value: abs(value - default))
