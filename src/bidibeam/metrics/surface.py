"""Measures of the surface: n-grams of characters (chrF), variety (distinct-n) and length."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from bidibeam.errors import SettingsError
from bidibeam.metrics.ngrams import check_paired, count_ngrams, sign
from bidibeam.scores import Score

if TYPE_CHECKING:
    from collections.abc import Sequence

CHRF_ORDER: int = CHRF.CHAR_ORDER
BETA: int = CHRF.BETA


@dataclass(frozen=True)
class Chrf:
    """Corpus chrF from 0 to 100, one reference a reply; white space does not count.

    The number that sacreBLEU's `CHRF` gives, whose signature stands inside ours; counted for all replies at
    once, which takes a sixth of the time.

    Reference: Popović (2015); Post (2018).
    """

    def score(self, replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Score:
        """Scores the whole list at once: F of mean precision and mean recall, over the orders both have."""
        written_text, wanted_text = (
            ["".join(" ".join(words).split()) for words in sequences] for sequences in (replies, references)
        )
        counts = count_ngrams(written_text, wanted_text, CHRF_ORDER)
        matches = counts.matches.sum(axis=0)  # (order,)
        is_wanted = counts.reference_ngrams > 0  # nothing is expected of a reply whose reference has none
        written = np.where(is_wanted, counts.reply_ngrams, 0).sum(axis=0)  # (order,)
        wanted = counts.reference_ngrams.sum(axis=0)  # (order,)
        orders = [order for order in range(CHRF_ORDER) if written[order] and wanted[order]]
        value = 0.0
        if matches.any():
            precision = sum(float(matches[order] / written[order]) for order in orders) / len(orders)
            recall = sum(float(matches[order] / wanted[order]) for order in orders) / len(orders)
            value = 100 * ((1 + BETA**2) * precision * recall / (BETA**2 * precision + recall))
        metric = CHRF()
        metric.corpus_score(["a"], [["a"]])  # it knows its signature only once it has seen a reference
        theirs = dict(fact.split(":", 1) for fact in str(metric.get_signature()).split("|"))
        return Score("chrf", value, sign(metric="chrf", beta=BETA, **theirs))


@dataclass(frozen=True)
class Distinct:
    """The number of different n-grams in all replies together, over their size; 0 if that size is 0.

    Args:
        order: n, the length of the n-grams.
        per: What the count is divided by: all generated "words", as in the paper, or all "ngrams".

    Reference: Li et al. (2016), arXiv:1510.03055.
    """

    order: int
    per: Literal["words", "ngrams"] = "words"

    def __post_init__(self) -> None:
        if self.order < 1:
            raise SettingsError(f"distinct-n counts n-grams of at least one word, not of {self.order}.")
        if self.per not in ("words", "ngrams"):
            raise SettingsError(f"distinct-n divides by 'words' or by 'ngrams', not by {self.per!r}.")

    def score(self, replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Score:
        """Scores the whole list at once; the references are only counted."""
        check_paired(replies, references)
        different: set[tuple[str, ...]] = set()
        size = 0
        for reply in replies:
            starts = range(len(reply) - self.order + 1)
            different.update(tuple(reply[start : start + self.order]) for start in starts)
            size += len(reply) if self.per == "words" else len(starts)
        value = len(different) / size if size else 0.0
        signature = sign(metric="distinct", order=self.order, per=self.per)
        return Score(f"distinct-{self.order}", value, signature)


distinct_1 = partial(Distinct, 1)
distinct_2 = partial(Distinct, 2)


@dataclass(frozen=True)
class LengthRatio:
    """All words of the replies over all words of the references; 0 if the references have none."""

    def score(self, replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Score:
        """Scores the whole list at once."""
        check_paired(replies, references)
        written, wanted = (sum(map(len, sequences)) for sequences in (replies, references))
        value = written / wanted if wanted else 0.0
        return Score("length_ratio", value, sign(metric="length_ratio", unit="words"))
