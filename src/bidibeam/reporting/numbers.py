"""Formats numbers for reports, and averages them over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bidibeam.metrics import METRICS
from bidibeam.text import format_value

NOTHING = "-"
"""Stands where there is no number."""
DIGITS = {"distinct-1": 4, "distinct-2": 4}
"""Digits behind the point of metrics of ours that are not shown with two."""
LABELS = {
    "bleu": "BLEU",
    "sentence_bleu": "sentence BLEU",
    "chrf": "chrF",
    "length_ratio": "length ratio",
    "exact_match": "exact match",
    **{name: name.upper() for name in ("ter", "wer", "cer", "ser")},
}
"""The labels of metrics in tables, where they differ from the names."""
SHORT_LABELS = {
    "sentence_bleu": "s-BLEU",
    "distinct-1": "dist-1",
    "distinct-2": "dist-2",
    "length_ratio": "length",
    "exact_match": "exact",
}
"""Those that are shorter where a table must fit into 80 columns."""
PERCENTAGES = ("bleu", "sentence_bleu", "chrf", "exact_match", "ser")
"""Metrics whose axis says that they reach from 0 to 100."""
SCALES = {**dict.fromkeys(METRICS.names(), 100.0), "distinct-1": 1.0, "distinct-2": 1.0, "length_ratio": 1.0}
"""How far our metrics reach; a user's, and milliseconds per source, count as what reaches to 1."""
TINY_SHARE = 0.001
"""A base of a ratio must be at least this part of its scale: +4,856 % over nearly nothing says nothing."""
LEAST_P = 0.001
TWO = 2
"""Two seeds are too few for a standard deviation: both values are shown."""

Interval = tuple[float, float]


def label_metric(name: str) -> str:
    """Returns what tables call a metric."""
    return LABELS.get(name, name)


def to_number(value: Any) -> float | None:
    """Returns a finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def to_numbers(values: Iterable[Any]) -> list[float]:
    """Returns the finite numbers among values."""
    return [number for number in map(to_number, values) if number is not None]


def mean(values: Iterable[Any]) -> float | None:
    """Returns the mean of the finite numbers among values; None if there are none."""
    numbers = to_numbers(values)
    return statistics.fmean(numbers) if numbers else None


def stdev(values: Iterable[Any]) -> float | None:
    """Returns the sample standard deviation; None for fewer than two numbers."""
    numbers = to_numbers(values)
    return statistics.stdev(numbers) if len(numbers) > 1 else None


def format_fixed(value: Any, digits: int) -> str:
    """Formats a number with a fixed number of digits; a number that shows as 0 has no sign."""
    number = to_number(value)
    if number is None:
        return NOTHING
    text = f"{number:,.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text


def format_signed(value: Any, digits: int = 2) -> str:
    """Formats a number with its sign."""
    text = format_fixed(value, digits)
    return text if text.startswith("-") or not text.strip("0.,") else f"+{text}"


def format_metric(name: str, value: Any) -> str:
    """Formats a metric's value: ours with so many digits, a user's, of whatever size, to four in all."""
    return format_fixed(value, DIGITS.get(name, 2)) if name in METRICS.names() else format_value(value)


def format_seeds(name: str, values: Sequence[Any], seeds: int) -> str:
    """Formats a metric over seeds: one value, both of two, or mean ± deviation; how many, if not of all."""
    numbers = to_numbers(values)
    if len(numbers) == seeds == TWO:
        return " / ".join(format_metric(name, value) for value in numbers)
    text = format_metric(name, mean(numbers))
    if (deviation := stdev(numbers)) is not None:
        text += f" ± {format_metric(name, deviation)}"
    return text if len(numbers) in (0, seeds) else f"{text} (n = {len(numbers)})"


def format_percent(value: Any, digits: int = 0) -> str:
    """Formats a share of 1 in per cent."""
    number = to_number(value)
    return NOTHING if number is None else f"{format_fixed(100 * number, digits)} %"


def least_base(name: str) -> float:
    """Returns the smallest value, or difference, of a metric that anything may be shown as a ratio of."""
    return TINY_SHARE * SCALES.get(name, 1.0)


def is_tiny(name: str, base: float) -> bool:
    """Whether a value or a difference of a metric is too small to be the base of a ratio or a percentage."""
    return abs(base) < least_base(name)


def format_p(value: Any) -> str:
    """Formats a p-value; below 0.001 it says only that."""
    number = to_number(value)
    return f"< {LEAST_P}" if number is not None and number < LEAST_P else format_fixed(value, 3)


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Joins words as a sentence lists them."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def average(values: Sequence[Any]) -> Any:
    """Averages one value per seed: numbers, and numbers in mappings and lists.

    Anything else, and lists that differ in length, come from the first seed that has them.
    """
    found = [value for value in values if value is not None]
    if not found:
        return None
    if all(isinstance(value, Mapping) for value in found):
        keys = dict.fromkeys(key for value in found for key in value)
        return {key: average([value.get(key) for value in found]) for key in keys}
    if all(isinstance(value, list) and len(value) == len(found[0]) for value in found):
        return [average(items) for items in zip(*found, strict=True)]
    is_single = len(found) == 1
    return found[0] if is_single or len(to_numbers(found)) < len(found) else mean(found)


def average_rows(analyses: Iterable[Mapping[str, Any]], rows: str, *keys: str) -> list[dict[str, Any]]:
    """Averages the rows of several seeds' analyses; rows belong together if they agree in `keys`."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in (row for analysis in analyses for row in analysis.get(rows) or ()):
        groups.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return [average(group) for group in groups.values()]


def span_intervals(intervals: Iterable[tuple[Any, Any]]) -> Interval | None:
    """Returns the lowest and the highest end of intervals; None if none has two ends."""
    ends = [to_numbers(interval) for interval in intervals]
    known = [pair for pair in ends if len(pair) == TWO]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def format_interval(interval: Interval | None, format_end: Callable[[float], str]) -> str:
    """Formats an interval; empty if there is none."""
    return f"{format_end(interval[0])} to {format_end(interval[1])}" if interval else ""
