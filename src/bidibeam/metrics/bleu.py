"""BLEU: of the whole corpus, as sacreBLEU has it, and the mean of smoothed sentence BLEU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from bidibeam.errors import check_choice
from bidibeam.metrics.ngrams import (
    KNOWN_TEXTS,
    WORDS,
    NgramCounts,
    check_paired,
    count_ngrams,
    sign,
    split_words,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.protocols import Array
    from bidibeam.scores import Signature


ORDER = 4
FLOOR = 0.1
"""What a precision without a match counts as having matched in sentence BLEU."""
OWN_WORDS = "words"
TOKENIZERS = ("13a", "intl", "char", "none", OWN_WORDS)
"""Those of sacreBLEU, and our own words, which are lower-cased."""


@dataclass(frozen=True)
class CorpusBleu:
    """Corpus BLEU-4 from 0 to 100, to the last bit sacreBLEU's; replies that are all empty score 0.

    Reference: Papineni et al. (2002); Post (2018), whose signature stands inside ours.

    Args:
        tokenize: How texts become tokens: one of sacreBLEU's ways, or "words" for bidibeam's own.
        lowercase: Whether case is ignored; words always ignore it.
    """

    tokenize: str = "13a"
    lowercase: bool = False

    name = "bleu"
    higher_is_better = True
    resampled_as = np.float32  # as sacreBLEU does

    def __post_init__(self) -> None:
        check_choice("tokenize", self.tokenize, TOKENIZERS)
        if self.tokenize == OWN_WORDS:  # one metric has one signature
            object.__setattr__(self, "lowercase", False)

    @property
    def signature(self) -> Signature:
        """The one of sacreBLEU, and whose words they are if they are not its."""
        theirs = sacrebleu_facts(_sacrebleu(self._tokenizer, self.lowercase))
        signature = sign(metric="bleu", order=ORDER, **theirs)
        return signature.extended(words=WORDS) if self.tokenize == OWN_WORDS else signature

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """Returns lengths, matches and n-grams by order, (items, 2 + 2 * order)."""
        check_paired(replies, references)
        counts = count_ngrams(
            list(map(self.tokens, replies)), [list(map(self.tokens, each)) for each in references], ORDER
        )
        return counts.statistics.astype(np.float64)

    def values(self, sums: Array) -> Array:
        """Returns corpus BLEU of each row."""
        return corpus_bleu(sums)

    def tokens(self, text: str) -> tuple[str, ...]:
        """Returns the tokens of a text."""
        if self.tokenize == OWN_WORDS:
            return split_words(text)
        return _tokenize(text, self.tokenize, self.lowercase)

    @property
    def _tokenizer(self) -> str:
        return "none" if self.tokenize == OWN_WORDS else self.tokenize


@cache
def _sacrebleu(tokenize: str, lowercase: bool) -> BLEU:
    return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)


@lru_cache(KNOWN_TEXTS)
def _tokenize(text: str, tokenize: str, lowercase: bool) -> tuple[str, ...]:
    tokenizer = _sacrebleu(tokenize, lowercase).tokenizer
    return tuple(tokenizer((text.lower() if lowercase else text).rstrip()).split())


def sacrebleu_facts(metric: Any) -> dict[str, str]:
    """Returns what sacreBLEU's signature says of one of its metrics, for one reference a reply."""
    metric.corpus_score(["a"], [["a"]])  # it knows its signature only once it has seen a reference
    return dict(fact.split(":", 1) for fact in str(metric.get_signature()).split("|"))


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
    brevity penalty is the ordinary one. The same as nltk's `sentence_bleu` with its smoothing method 1, on
    bidibeam's words.

    Reference: Papineni et al. (2002); Chen and Cherry (2014).
    """

    name = "sentence_bleu"
    higher_is_better = True

    @property
    def signature(self) -> Signature:
        """Smoothing, penalty and mean."""
        settings = {"smoothing": "floor", "brevity": "ordinary", "mean": "replies"}
        return sign(metric="sentence_bleu", order=ORDER, **settings).extended(words=WORDS)

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """Returns each reply's BLEU, and 1, (items, 2)."""
        check_paired(replies, references)
        words = [list(map(split_words, each)) for each in references]
        scores = sentence_bleus(count_ngrams(list(map(split_words, replies)), words, ORDER))
        return np.column_stack([scores, np.ones(len(scores))])

    def values(self, sums: Array) -> Array:
        """Returns the mean of each row."""
        return mean_percent(sums)


def mean_percent(sums: Array) -> Array:
    """Returns of rows of two, the sum and how many, the mean in per cent, (rows,)."""
    means: Array = 100.0 * (sums[:, 0] / sums[:, 1])
    return means


def sentence_bleus(counts: NgramCounts) -> Array:
    """Returns each reply's BLEU, from 0 to 1, (items,)."""
    numerators = np.where(counts.matches == 0, FLOOR, counts.matches)  # (items, order)
    precisions = numerators / np.maximum(1, counts.reply_ngrams)
    lengths = np.maximum(1, counts.reply_lengths)
    penalties = np.exp(np.minimum(0.0, 1.0 - counts.reference_lengths / lengths))  # (items,)
    scores = penalties * precisions.prod(axis=1) ** (1 / ORDER)
    return np.where(counts.matches[:, 0] > 0, scores, 0.0)
