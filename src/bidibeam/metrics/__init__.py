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
        "bleu": "bidibeam.metrics.bleu:Bleu",
        "sentence_bleu": "bidibeam.metrics.sentence_bleu:SentenceBleu",
        "chrf": "bidibeam.metrics.chrf:Chrf",
        "distinct-1": "bidibeam.metrics.distinct:distinct_1",
        "distinct-2": "bidibeam.metrics.distinct:distinct_2",
        "length_ratio": "bidibeam.metrics.length_ratio:LengthRatio",
    },
)
"""Every metric, by the name that reports and the command line use."""
