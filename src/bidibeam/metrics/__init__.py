"""Measures of a system's replies: tokens in, a score that carries its recipe out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam.registry import Registry

if TYPE_CHECKING:
    from bidibeam.protocols import Metric

METRICS: Registry[Metric] = Registry(
    "metric",
    group="bidibeam.metrics",
    locations={
        "bleu": "bidibeam.metrics.bleu:CorpusBleu",
        "sentence_bleu": "bidibeam.metrics.bleu:SentenceBleu",
        "chrf": "bidibeam.metrics.surface:Chrf",
        "distinct-1": "bidibeam.metrics.surface:distinct_1",
        "distinct-2": "bidibeam.metrics.surface:distinct_2",
        "length_ratio": "bidibeam.metrics.surface:LengthRatio",
    },
)
"""Every metric, by the name that reports and the command line use."""
