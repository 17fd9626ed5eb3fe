"""TEMPORARY, until bidibeam.metrics has build_metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bidibeam.data.words import split
from bidibeam.errors import SettingsError
from bidibeam.metrics import METRICS
from bidibeam.metrics.bleu import ORDER, corpus_bleu
from bidibeam.metrics.ngrams import count_ngrams
from bidibeam.scores import Signature


@dataclass(frozen=True)
class _WordBleu:
    """BLEU of lower-cased words, until every metric has statistics."""

    name: str = "bleu"
    higher_is_better: bool = True

    @property
    def signature(self) -> Signature:
        return METRICS.create("bleu").score([["a"]], [["a"]]).signature

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Any:
        words = [split(line[0]) for line in references]
        return count_ngrams(list(map(split, replies)), words, ORDER).statistics.astype(float)

    def values(self, sums: Any) -> Any:
        return corpus_bleu(sums)


def build_metric(name: str, tokenize: str | None = None, lowercase: bool | None = None) -> Any:
    """The metric of a name."""
    if name != "bleu":
        raise SettingsError(f"Unknown metric {name!r}.")
    return _WordBleu()
