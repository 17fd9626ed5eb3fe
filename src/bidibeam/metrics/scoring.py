"""Scores of whole lists, by metrics with statistics per item and by those known for a whole corpus alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bidibeam.errors import SettingsError
from bidibeam.metrics.ngrams import check_paired

if TYPE_CHECKING:
    from bidibeam.protocols import Array, Metric
    from bidibeam.scores import Signature


AT_ONCE = 1 << 12
"""Of so many replies statistics are computed at once, which takes kilobytes for each."""
LARGEST_COUNT = 2**32


class Texts(NamedTuple):
    """What a metric of whole corpora is given: it has nothing in between."""

    replies: Sequence[str]
    references: Sequence[Sequence[str]]


def has_statistics(metric: Metric) -> bool:
    """Whether a metric has statistics per item."""
    return hasattr(metric, "statistics")


def check_tunable(metric: Metric) -> None:
    """Refuses a metric that systems cannot be tuned by: of a whole corpus alone, or best in between."""
    if not has_statistics(metric):
        raise SettingsError(
            f"The metric {metric.name} is known only for all replies together, and tuning needs what each "
            "reply adds to it: choose another `metric`, such as bleu."
        )
    if (best := getattr(metric, "best_at", None)) is not None:
        raise SettingsError(
            f"The metric {metric.name} is best near {best}, and tuning looks for the highest or the lowest: "
            "choose another `metric`, such as bleu."
        )


def measure(metric: Metric, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array | Texts:
    """Returns what scores, intervals and tests of a list are computed from.

    Statistics that are counts take a byte or two each, where the metric gives eight.
    """
    if not has_statistics(metric):
        return Texts(replies, references)
    check_paired(replies, references)
    parts = (slice(start, start + AT_ONCE) for start in range(0, len(replies), AT_ONCE))
    return np.concatenate(
        [_shrink(metric.statistics([*replies[part]], [*references[part]])) for part in parts]
    )


def _shrink(statistics: Array) -> Array:
    """Returns the same numbers in the smallest type of counts, if all are counts."""
    most = statistics.max(initial=0)
    if not (statistics.min(initial=0) >= 0 and most < LARGEST_COUNT):
        return statistics
    counts: Array = statistics.astype(np.min_scalar_type(int(most)))
    return counts if np.array_equal(counts, statistics) else statistics


def add_up(statistics: Array) -> Array:
    """Returns the sums over all items, (columns,)."""
    sums: Array = statistics.sum(axis=0, dtype=np.float64)
    return sums


def score(metric: Any, measured: Array | Texts) -> float:
    """Returns the value of the whole list."""
    if isinstance(measured, Texts):
        return float(metric.score(*measured))
    return float(metric.values(add_up(measured)[np.newaxis])[0])


def orient(metric: Metric, value: Any) -> Any:
    """Returns a value, or values, so that higher is better."""
    return value if metric.higher_is_better else -value


def sign_references(signature: Signature, references: Sequence[Sequence[str]]) -> Signature:
    """Returns a metric's signature with the number of references a reply; "var" where it varies."""
    counts = set(map(len, references))
    number = str(counts.pop()) if len(counts) == 1 else "var"
    if "nrefs" in dict(signature.facts):
        facts = ((key, number if key == "nrefs" else value) for key, value in signature.facts)
        return type(signature)(tuple(facts))
    return signature if number == "1" else signature.extended(nrefs=number)


def minds_case(metric: Metric) -> bool:
    """Whether a metric minds case, and could do without: words of our own are lower-cased."""
    return getattr(metric, "lowercase", True) is False and getattr(metric, "tokenize", "") != "words"


def ignore_case(metric: Metric) -> Metric:
    """Returns the same metric without regard to case, where it minds: for replies that have no capitals."""
    return replace(metric, lowercase=True) if minds_case(metric) else metric  # type: ignore[type-var]
