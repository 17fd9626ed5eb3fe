"""Scores of many lists of replies to the same sources: each different reply is split and counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.data.words import split
from bidibeam.evaluation.significance import ORDER, bleu_of_sums
from bidibeam.metrics import METRICS
from bidibeam.metrics.ngrams import check_paired
from bidibeam.similarities.bleu import count_matches, number_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

SCORES = ("bleu", "length_ratio", "distinct-1", "distinct-2")


class Tally:
    """Scores lists of replies, one reply a source, to the last bit as the metrics of those names do.

    Systems at several beam sizes give the same replies over and over; corpus BLEU from remembered counts is
    ten times quicker than anew.

    Args:
        references: What people answered, as words.
    """

    def __init__(self, references: Sequence[Sequence[str]]) -> None:
        self.references = references
        self._words: dict[str, list[str]] = {}
        self._counts: list[dict[str, tuple[int, ...]]] = [{} for _ in references]

    def words(self, reply: str) -> list[str]:
        """A reply's words."""
        found = self._words.get(reply)
        if found is None:
            found = self._words[reply] = split(reply)
        return found

    def statistics(self, replies: Sequence[str]) -> Array:
        """Each reply's sufficient statistics of BLEU, (sources, columns)."""
        check_paired(replies, self.references)
        return np.array(
            [self._counted(source, reply) for source, reply in enumerate(replies)], dtype=np.int64
        )

    def bleu(self, replies: Sequence[str]) -> float:
        """Corpus BLEU."""
        return float(bleu_of_sums(self.statistics(replies).sum(axis=0, keepdims=True))[0])

    def scores(self, replies: Sequence[str], names: Sequence[str] = SCORES) -> dict[str, float]:
        """Scores by name: corpus BLEU, and other metrics, which are quick as they are."""
        words = [self.words(reply) for reply in replies]
        return {
            name: self.bleu(replies)
            if name == "bleu"
            else METRICS.create(name).score(words, self.references).value
            for name in names
        }

    def _counted(self, source: int, reply: str) -> tuple[int, ...]:
        """Words, the reference's words, matches by order, n-grams by order."""
        found = self._counts[source].get(reply)
        if found is None:
            words, reference = self.words(reply), self.references[source]
            matches = count_matches(number_tokens([words], [reference]), ORDER)
            ngrams = (max(0, len(words) - order) for order in range(ORDER))
            found = (len(words), len(reference), *matches.numerators[:, 0, 0].tolist(), *ngrams)
            self._counts[source][reply] = found
        return found
