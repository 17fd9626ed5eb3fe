"""Shares of the headroom, and what is shown where there is hardly any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bidibeam.evaluation.systems import ORACLE
from bidibeam.reporting.numbers import (
    Interval,
    format_percent,
    format_signed,
    is_tiny,
    least_base,
    span_intervals,
)
from bidibeam.reporting.results import Results
from bidibeam.strategies.settings import TUNED_VBS
from bidibeam.text import format_value


def headroom_metric(results: Results) -> str:
    """Returns the metric that shares of the headroom were computed by."""
    named = (one["metric"] for one in results.analyses("headroom") if one.get("metric"))
    return str(next(named, results.metric))


def has_headroom(results: Results, size: int) -> bool:
    """Returns whether the oracle is so far above tuned VBS that shares of the way say something."""
    room = results.gain(ORACLE, TUNED_VBS, size)
    return room is None or headroom_metric(results) != results.metric or not is_tiny(results.metric, room)


def format_headroom(results: Results, system: str, size: int, share: Any) -> str:
    """Formats a share of the headroom, or the gain over tuned VBS where there is hardly any headroom."""
    gain = None if has_headroom(results, size) else results.gain(system, TUNED_VBS, size)
    return format_percent(share) if gain is None else f"{format_signed(gain)} {results.label}"


def explain_headroom(results: Results, sizes: Iterable[int]) -> list[str]:
    """Says where differences stand in place of shares of the headroom; empty if nowhere."""
    if all(has_headroom(results, size) for size in sizes):
        return []
    least = f"{format_value(least_base(results.metric))} {results.label}"
    return [f"Where the headroom is below {least}, a system's gain over {TUNED_VBS} stands in its place."]


def headroom_interval(results: Results, system: str, size: int) -> Interval | None:
    """Returns the interval of a share of the headroom, spanned over seeds; None where it is tiny."""
    by_size = [(one.get("intervals") or {}).get(str(size)) or {} for one in results.analyses("headroom")]
    found = span_intervals(one.get(system) or (None, None) for one in by_size)
    return found if has_headroom(results, size) else None
