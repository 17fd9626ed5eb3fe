"""Intervals and tests, of one seed or of several: every BLEU in a report has an interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bidibeam.reporting.numbers import mean, metric_text, number, numbers, p_text
from bidibeam.reporting.results import Results

TESTS = {"approximate_randomisation": "randomisation", "paired_bootstrap": "bootstrap"}
"""What tests are called, in the order of preference."""

Reach = tuple[float, float]


@dataclass(frozen=True)
class Compared:
    """A difference between two systems, tested on every seed.

    Attributes:
        difference: Its mean over seeds; None if nobody measured it.
        reach: The lowest and the highest end of its intervals; None if there is none.
        p_values: By kind of test, the largest p over seeds.
    """

    difference: float | None
    reach: Reach | None
    p_values: Mapping[str, float]

    @property
    def p(self) -> str:
        """The p-value of the preferred test that was made; empty if there was none."""
        return next((p_text(value) for value in self.p_values.values()), "")

    @property
    def p_equation(self) -> str:
        """The same as a sentence has it."""
        return self.p if not self.p else f"p {self.p}" if self.p.startswith("<") else f"p = {self.p}"


def compared(tests: Sequence[Mapping[str, Any]]) -> Compared:
    """The tests of one difference, a seed each, as one."""
    p_values = {kind: numbers(test.get(kind) for test in tests) for kind in TESTS}
    return Compared(
        mean(test.get("difference") for test in tests),
        reach((test.get("low"), test.get("high")) for test in tests),
        {kind: max(values) for kind, values in p_values.items() if values},
    )


def reach(intervals: Iterable[tuple[Any, Any]]) -> Reach | None:
    """From the lowest end of intervals to the highest; None if none has two ends."""
    ends = [(number(low), number(high)) for low, high in intervals]
    known = [(low, high) for low, high in ends if low is not None and high is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def reach_text(found: Reach | None, show: Callable[[float], str]) -> str:
    """A reach in words; empty if there is none."""
    return f"{show(found[0])} to {show(found[1])}" if found else ""


def interval_label(results: Results, what: str = "") -> str:
    """The head of a column of intervals."""
    of = f" of {what}" if what else ""
    return f"reach of the 95 % intervals{of}" if len(results.seeds) > 1 else f"95 % interval{of}"


def interval_text(results: Results, system: str, size: int) -> str:
    """The 95 % interval of BLEU; of several seeds the lowest end to the highest. Empty if there is none."""
    scores = [entry.get("scores", {}).get("bleu", {}) for entry in results.entries(system, size)]
    found = reach((score.get("low"), score.get("high")) for score in scores)
    return reach_text(found, lambda value: metric_text("bleu", value))


def headroom_reach(results: Results, system: str, size: int | str) -> Reach | None:
    """The interval of a system's share of the headroom; None if there is none."""
    found = []
    for one in results.analyses("headroom"):
        at_size = (one.get("intervals") or {}).get(str(size)) or {}
        found.append(at_size.get(system) or (None, None))
    return reach((low, high) for low, high in found)
