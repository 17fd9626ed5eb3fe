"""Intervals of BLEU: every BLEU in a report has one."""

from __future__ import annotations

from bidibeam.reporting.numbers import metric_text, number
from bidibeam.reporting.results import Results


def interval_text(results: Results, system: str, size: int) -> str:
    """The 95 % interval of BLEU; of several seeds the lowest end to the highest. Empty if there is none."""
    lows, highs = [], []
    for entry in results.entries(system, size):
        score = entry.get("scores", {}).get("bleu", {})
        low, high = number(score.get("low")), number(score.get("high"))
        if low is not None and high is not None:
            lows.append(low)
            highs.append(high)
    return f"{metric_text('bleu', min(lows))} to {metric_text('bleu', max(highs))}" if lows else ""
