"""The mean of smoothed sentence BLEU: every reply counts alike, however long it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bidibeam.metrics.ngrams import NgramCounts, count_ngrams
from bidibeam.metrics.pairing import recipe
from bidibeam.scores import Score

if TYPE_CHECKING:
    from collections.abc import Sequence

    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

ORDER = 4
FLOOR = 0.1
"""What a precision without a match counts as having matched."""


@dataclass(frozen=True)
class SentenceBleu:
    """The mean over replies of sentence BLEU-4, from 0 to 100; a reply without a match scores 0.

    An order without a match counts as a tenth of one; the brevity penalty is the ordinary one. The same as
    nltk's `sentence_bleu` with its smoothing method 1.

    Reference: Papineni et al. (2002); Chen and Cherry (2014).
    """

    def score(self, replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Score:
        """Score the whole list at once."""
        return self.of_counts(count_ngrams(replies, references, ORDER))

    def of_counts(self, counts: NgramCounts) -> Score:
        """The same, where the n-grams of 1 to 4 words have been counted already."""
        value = 100.0 * float(sentence_bleus(counts).mean())
        facts = {"smoothing": "floor", "brevity": "ordinary", "mean": "replies"}
        return Score("sentence_bleu", value, recipe(metric="sentence_bleu", order=ORDER, **facts))


def sentence_bleus(counts: NgramCounts) -> Floats:
    """Each reply's BLEU, from 0 to 1, (pairs,)."""
    numerators = np.where(counts.matches == 0, FLOOR, counts.matches)  # (pairs, order)
    precisions = numerators / np.maximum(1, counts.reply_ngrams)
    lengths = np.maximum(1, counts.reply_lengths)
    penalties = np.exp(np.minimum(0.0, 1.0 - counts.reference_lengths / lengths))  # (pairs,)
    scores = penalties * precisions.prod(axis=1) ** (1 / ORDER)
    return np.where(counts.matches[:, 0] > 0, scores, 0.0)
