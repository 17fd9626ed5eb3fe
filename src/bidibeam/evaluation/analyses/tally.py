"""Scores of many lists of replies to the same sources: each different reply is split and counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from bidibeam.data.words import split
from bidibeam.metrics import METRICS
from bidibeam.metrics.pairing import check_paired
from bidibeam.similarities.ngrams import count_matches
from bidibeam.similarities.tokens import number_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

ORDER = 4
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

    def bleu(self, replies: Sequence[str]) -> float:
        """Corpus BLEU."""
        check_paired(replies, self.references)
        counts = [self._counted(source, reply) for source, reply in enumerate(replies)]
        totals = np.array(counts, dtype=np.int64).sum(0)  # (2 * order + 1,)
        score = BLEU.compute_bleu(
            correct=totals[:ORDER].tolist(),
            total=totals[ORDER : 2 * ORDER].tolist(),
            sys_len=int(totals[-1]),
            ref_len=sum(map(len, self.references)),
            smooth_method="exp",
        )
        return float(score.score)

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
        """Matches by order, n-grams by order, words."""
        found = self._counts[source].get(reply)
        if found is None:
            words = self.words(reply)
            matches = count_matches(number_tokens([words], [self.references[source]]), ORDER)
            totals = (max(0, len(words) - order) for order in range(ORDER))
            found = (*matches.numerators[:, 0, 0].tolist(), *totals, len(words))
            self._counts[source][reply] = found
        return found
