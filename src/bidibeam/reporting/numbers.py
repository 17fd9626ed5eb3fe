"""Numbers as reports show them, and what becomes of several seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NOTHING = "-"
"""Stands where there is no number."""
DIGITS = {"bleu": 2, "sentence_bleu": 2, "chrf": 2, "distinct-1": 4, "distinct-2": 4, "length_ratio": 2}
"""Digits behind the point, by metric."""
LABELS = {"bleu": "BLEU", "sentence_bleu": "sentence BLEU", "chrf": "chrF", "length_ratio": "length ratio"}
"""What tables call a metric, where that is not its name."""
LEAST_P = 0.001
TWO = 2
"""So many seeds have no standard deviation worth the name: both values are shown."""


def number(value: Any) -> float | None:
    """A finite number, or None for whatever else stands there."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def numbers(values: Iterable[Any]) -> list[float]:
    """The finite numbers among values."""
    return [found for found in map(number, values) if found is not None]


def mean(values: Iterable[Any]) -> float | None:
    """The mean of the numbers there are."""
    found = numbers(values)
    return statistics.fmean(found) if found else None


def spread(values: Iterable[Any]) -> float | None:
    """The sample standard deviation; None for fewer than two numbers."""
    found = numbers(values)
    return statistics.stdev(found) if len(found) > 1 else None


def fixed(value: Any, digits: int) -> str:
    """A number with so many digits behind the point; it has no sign if it is shown as 0."""
    found = number(value)
    if found is None:
        return NOTHING
    text = f"{found:,.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text


def signed(value: float | None, digits: int = 2) -> str:
    """The same with its sign."""
    text = fixed(value, digits)
    return text if text.startswith("-") or not text.strip("0.,") or text == NOTHING else f"+{text}"


def metric_text(name: str, value: Any) -> str:
    """A metric's value."""
    return fixed(value, DIGITS[name]) if name in DIGITS else plain(value)


def over_seeds(name: str, values: Sequence[Any], seeds: int) -> str:
    """A metric over seeds: one value, both of two, or mean and standard deviation of more.

    Args:
        name: The metric.
        values: One a seed.
        seeds: How many seeds there are; fewer values than that are said to be so many.
    """
    found = numbers(values)
    if len(found) == seeds == TWO:
        return " / ".join(metric_text(name, value) for value in found)
    deviation = spread(found)
    text = metric_text(name, mean(found))
    if deviation is not None:
        text += f" ± {metric_text(name, deviation)}"
    return text if len(found) in (0, seeds) else f"{text} (n = {len(found)})"


def percent(value: Any, digits: int = 0) -> str:
    """A share of 1 as per cent."""
    found = number(value)
    return NOTHING if found is None else f"{fixed(100 * found, digits)} %"


def p_text(value: Any) -> str:
    """A p-value; small ones only as small."""
    found = number(value)
    if found is None:
        return NOTHING
    return f"< {LEAST_P}" if found < LEAST_P else f"{found:.3f}"


def plain(value: Any) -> str:
    """Whatever a fact is: whole numbers in groups of three, others to four digits, lists with commas."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value))
    return str(value)


def joined(words: Sequence[str], last: str = "and") -> str:
    """Words as a sentence lists them."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def averaged(values: Sequence[Any]) -> Any:
    """One for each seed in, their mean out: of numbers, and of numbers in mappings and lists.

    What is no number, or lists that differ in length, is taken from the first that is not None.
    """
    found = [value for value in values if value is not None]
    if not found:
        return None
    if all(isinstance(value, Mapping) for value in found):
        keys = dict.fromkeys(key for value in found for key in value)
        return {key: averaged([value.get(key) for value in found]) for key in keys}
    if all(isinstance(value, list) and len(value) == len(found[0]) for value in found):
        return [averaged(items) for items in zip(*found, strict=True)]
    is_single = len(found) == 1
    return found[0] if is_single or len(numbers(found)) < len(found) else mean(found)


def averaged_rows(lists: Sequence[Sequence[Mapping[str, Any]]], keys: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of several seeds as one list of means; rows belong together if they agree in `keys`."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for rows in lists:
        for row in rows:
            groups.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return [averaged(rows) for rows in groups.values()]
