"""BLEU: of the whole corpus, computed by sacreBLEU on our tokens, and the mean of smoothed sentence BLEU."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from bidibeam.metrics.ngrams import NgramCounts, check_paired, count_ngrams, sign
from bidibeam.scores import Score

if TYPE_CHECKING:
    from collections.abc import Sequence

    Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

ORDER = 4
FLOOR = 0.1
"""What a precision without a match counts as having matched in sentence BLEU."""


@dataclass(frozen=True)
class CorpusBleu:
    """Corpus BLEU-4 from 0 to 100, one reference a reply; replies that are all empty score 0.

    Reference: Papineni et al. (2002); Post (2018), whose sacreBLEU computes it. Its own signature stands
    inside ours.
    """

    def score(self, replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Score:
        """Scores the whole list at once."""
        check_paired(replies, references)
        # sacreBLEU splits lines at white space. Numbers in place of tokens keep one that holds a space whole;
        # BLEU only asks which tokens are equal.
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        lines = [
            [" ".join(str(numbers[token]) for token in tokens) for tokens in sequences]
            for sequences in (replies, references)
        ]
        metric = BLEU(tokenize="none", force=True)
        value = metric.corpus_score(lines[0], lines[1:]).score
        theirs = dict(fact.split(":", 1) for fact in str(metric.get_signature()).split("|"))
        return Score("bleu", float(value), sign(metric="bleu", order=ORDER, **theirs))


def corpus_bleu(sums: Array) -> Array:
    """Returns corpus BLEU of each row of summed statistics: (rows, 2 + 2 * order) to (rows,).

    A row holds words written, words wanted, matches by order and n-grams by order. The values equal
    sacreBLEU's to the last bit, in the precision of `sums`. Logarithms are the C library's, as sacreBLEU's
    are: NumPy's own differ in the last bit on some machines, and a tie between trials is decided by it.
    """
    matches, ngrams = sums[:, 2 : 2 + ORDER], sums[:, 2 + ORDER :]
    is_positive = (matches > 0).any(axis=1) & (ngrams > 0).all(axis=1)
    matches, ngrams = matches[is_positive], ngrams[is_positive]
    smoothing = (2 ** np.cumsum(matches == 0, axis=1)).astype(sums.dtype)  # doubles at each order without
    precisions = np.where(matches == 0, 100 / (smoothing * ngrams), 100 * matches / ngrams)
    lengths = sums[is_positive, :2].tolist()
    scores = np.zeros(len(sums))
    scores[is_positive] = [
        (math.exp(1 - wanted / written) if written < wanted else 1.0)
        * math.exp(sum(map(math.log, row)) / ORDER)
        for (written, wanted), row in zip(lengths, precisions.tolist(), strict=True)
    ]
    return scores


@dataclass(frozen=True)
class SentenceBleu:
    """The mean over replies of sentence BLEU-4, from 0 to 100; a reply without a match scores 0.

    Every reply counts alike, however long it is. An order without a match counts as a tenth of one; the
    brevity penalty is the ordinary one. The same as nltk's `sentence_bleu` with its smoothing method 1.

    Reference: Papineni et al. (2002); Chen and Cherry (2014).
    """

    def score(self, replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Score:
        """Scores the whole list at once."""
        return self.of_counts(count_ngrams(replies, references, ORDER))

    def of_counts(self, counts: NgramCounts) -> Score:
        """Scores the same where the n-grams of 1 to 4 words have been counted already."""
        value = 100.0 * float(sentence_bleus(counts).mean())
        settings = {"smoothing": "floor", "brevity": "ordinary", "mean": "replies"}
        return Score("sentence_bleu", value, sign(metric="sentence_bleu", order=ORDER, **settings))


def sentence_bleus(counts: NgramCounts) -> Array:
    """Returns each reply's BLEU, from 0 to 1, (pairs,)."""
    numerators = np.where(counts.matches == 0, FLOOR, counts.matches)  # (pairs, order)
    precisions = numerators / np.maximum(1, counts.reply_ngrams)
    lengths = np.maximum(1, counts.reply_lengths)
    penalties = np.exp(np.minimum(0.0, 1.0 - counts.reference_lengths / lengths))  # (pairs,)
    scores = penalties * precisions.prod(axis=1) ** (1 / ORDER)
    return np.where(counts.matches[:, 0] > 0, scores, 0.0)
