"""Measures of a system's replies: texts in, statistics per item out, and a signature."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from bidibeam.errors import SettingsError
from bidibeam.registry import Registry, import_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.protocols import Metric

METRICS: Registry[Metric] = Registry(
    "metric",
    group="bidibeam.metrics",
    locations={
        "bleu": "bidibeam.metrics.bleu:CorpusBleu",
        "sentence_bleu": "bidibeam.metrics.bleu:SentenceBleu",
        "chrf": "bidibeam.metrics.surface:Chrf",
        "ter": "bidibeam.metrics.edits:Ter",
        "wer": "bidibeam.metrics.edits:WordErrorRate",
        "cer": "bidibeam.metrics.edits:CharacterErrorRate",
        "exact_match": "bidibeam.metrics.edits:ExactMatch",
        "ser": "bidibeam.metrics.edits:SentenceErrorRate",
        "distinct-1": "bidibeam.metrics.surface:distinct_1",
        "distinct-2": "bidibeam.metrics.surface:distinct_2",
        "length_ratio": "bidibeam.metrics.surface:LengthRatio",
    },
)
"""Every metric, by the name that reports and the command line use."""
DEFAULT_METRIC = "bleu"
DEFAULT_METRICS = ("bleu", "sentence_bleu", "chrf", "distinct-1", "distinct-2", "length_ratio")
"""What is measured where nobody says what; the others suit some tasks alone, or take long."""


def build_metric(name: str, tokenize: str | None = None, lowercase: bool | None = None) -> Metric:
    """Returns a metric from its name, "package.module:name" or entry point, with the options that are given.

    One that is not ours is wrapped, so that what it answers is checked. Raises UnknownNameError, MetricError
    or SettingsError if there is no such metric, it cannot be used, or it does not take an option.
    """
    return build_metrics([name], tokenize, lowercase)[0]


def build_metrics(
    names: Sequence[str], tokenize: str | None = None, lowercase: bool | None = None
) -> list[Metric]:
    """Returns several metrics; each takes those of the options that it has, and each option must be taken."""
    from bidibeam.metrics.custom import as_metric

    given = {"tokenize": tokenize, "lowercase": lowercase}
    factories = {name: import_named("metric", name) if ":" in name else METRICS.get(name) for name in names}
    known = {name: list_options(factory) for name, factory in factories.items()}
    for key, value in given.items():
        if value is not None and not any(key in taken for taken in known.values()):
            several = f"None of the metrics {', '.join(factories)} takes"
            refused = f"The metric {names[0]} takes no" if len(factories) == 1 else several
            raise SettingsError(f"{refused} `{key}`, received {value!r}: leave it out.")
    metrics = []
    for name, factory in factories.items():
        options = {key: given[key] for key in known[name] if given[key] is not None}
        is_made = inspect.isclass(factory) or inspect.isfunction(factory)
        is_ours = is_made and factory.__module__.startswith(f"{__name__}.")
        metrics.append(factory(**options) if is_ours else as_metric(factory, name, options))
    called = [metric.name for metric in metrics]
    if twice := next((name for name in called if called.count(name) > 1), None):
        raise SettingsError(f"Two metrics are called {twice!r}: give one of them another `name`.")
    return metrics


def list_options(factory: Any) -> set[str]:
    """Returns the options that a metric may be made with, of those there are."""
    if not callable(factory):
        return set()
    try:
        return {"tokenize", "lowercase"} & set(inspect.signature(factory).parameters)
    except (TypeError, ValueError):  # some builtins have no signature
        return set()
