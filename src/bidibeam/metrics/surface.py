"""Measures of the surface: n-grams of characters (chrF), variety (distinct-n) and length."""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, count
from typing import TYPE_CHECKING

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from bidibeam.errors import SettingsError
from bidibeam.metrics.bleu import sacrebleu_facts
from bidibeam.metrics.ngrams import (
    WORDS,
    check_paired,
    count_ngrams,
    find_nearest,
    first_lowest,
    sign,
    split_words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bidibeam.protocols import Array
    from bidibeam.scores import Signature


CHRF_ORDER: int = CHRF.CHAR_ORDER
BETA: int = CHRF.BETA
AT_ONCE = 1 << 16
"""Of so many replies n-grams are looked at at once."""


@dataclass(frozen=True)
class Chrf:
    """Corpus chrF from 0 to 100, to the last bit sacreBLEU's; white space does not count.

    Of several references each reply is compared with that of the highest chrF, the first of equal ones.
    All replies are counted at once, which takes a sixth of sacreBLEU's time; its signature is inside ours.

    Reference: Popović (2015); Post (2018).

    Args:
        lowercase: Whether case is ignored.
    """

    lowercase: bool = False

    name = "chrf"
    higher_is_better = True
    resampled_as = np.float32  # as sacreBLEU does

    @property
    def signature(self) -> Signature:
        """The one of sacreBLEU."""
        return sign(metric="chrf", beta=BETA, **sacrebleu_facts(CHRF(lowercase=self.lowercase)))

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """Returns n-grams written, wanted and matched, by order, (items, 3 * order)."""
        check_paired(replies, references)
        sizes = np.fromiter(map(len, references), np.int64, len(references))
        written = np.repeat(np.array(list(map(self._characters, replies)), dtype=object), sizes)
        wanted = [[self._characters(text)] for text in chain.from_iterable(references)]
        counts = count_ngrams(written.tolist(), wanted, CHRF_ORDER)
        is_wanted = counts.reference_ngrams > 0  # nothing is expected of a reply whose reference has none
        columns = [np.where(is_wanted, counts.reply_ngrams, 0), counts.reference_ngrams, counts.matches]
        found = np.concatenate(columns, axis=1).astype(np.float64)
        return found if len(found) == len(sizes) else found[first_lowest(-self.values(found), sizes)]

    def values(self, sums: Array) -> Array:
        """Returns chrF of each row: F of mean precision and mean recall, over the orders both have."""
        written, wanted, matches = np.split(sums, 3, axis=1)  # (rows, order)
        is_known = (written > 0) & (wanted > 0)
        shares = [
            np.divide(matches, of, out=np.zeros_like(sums[:, :CHRF_ORDER]), where=is_known)
            for of in (written, wanted)
        ]
        orders = np.maximum(1, is_known.sum(axis=1)).astype(sums.dtype)
        # One order after the other, as sacreBLEU adds them up: NumPy's own sum may round in another way.
        precision, recall = (sum(share.T, np.zeros(len(sums), sums.dtype)) / orders for share in shares)
        weighted = BETA**2 * precision + recall
        product = (1 + BETA**2) * precision * recall
        scores: Array = 100 * np.divide(product, weighted, out=np.zeros_like(product), where=weighted > 0)
        return scores

    def _characters(self, text: str) -> str:
        return "".join((text.lower() if self.lowercase else text).split())


@dataclass(frozen=True)
class Distinct:
    """The number of different n-grams in all replies together, over all their words, as in the paper.

    It is known for a whole list alone: no sum over replies gives it. Without words it is 0.

    Args:
        order: n, the length of the n-grams.

    Reference: Li et al. (2016), arXiv:1510.03055.
    """

    order: int

    higher_is_better = True
    bounds = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.order < 1:
            raise SettingsError(f"distinct-n counts n-grams of at least one word, not of {self.order}.")

    @property
    def name(self) -> str:
        """The name with the order."""
        return f"distinct-{self.order}"

    @property
    def signature(self) -> Signature:
        """The order, and what the count is divided by."""
        return sign(metric="distinct", order=self.order, per="words").extended(words=WORDS)

    def score(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> float:
        """Scores the whole list at once; the references are only counted."""
        check_paired(replies, references)
        different: set[tuple[str, ...]] = set()
        size = 0
        for words in map(split_words, replies):
            different.update(zip(*(words[start:] for start in range(self.order)), strict=False))
            size += len(words)
        return len(different) / size if size else 0.0

    def prepare(self, replies: Sequence[str]) -> Callable[[Array], float]:
        """Returns the score as a function of which replies are drawn; n-grams are numbered once for all."""
        numbers: defaultdict[tuple[str, ...], int] = defaultdict(count().__next__)
        grams, lengths = array("I"), array("I")
        for words in map(split_words, replies):
            ngrams = zip(*(words[start:] for start in range(self.order)), strict=False)
            grams.extend(map(numbers.__getitem__, ngrams))
            lengths.append(len(words))
        of_replies, sizes = np.asarray(grams), np.asarray(lengths)  # (n-grams,), (replies,)
        counts = np.maximum(sizes, self.order - 1) - (self.order - 1)  # n-grams of each reply

        def score_drawn(drawn: Array) -> float:
            is_drawn, is_there = np.zeros(len(sizes), np.bool_), np.zeros(len(numbers), np.bool_)
            is_drawn[drawn] = True
            end = 0
            for start in range(0, len(sizes), AT_ONCE):
                part = slice(start, start + AT_ONCE)
                begin, end = end, end + int(counts[part].sum())
                is_there[of_replies[begin:end][np.repeat(is_drawn[part], counts[part])]] = True
            size = int(sizes[drawn].sum())
            return int(is_there.sum()) / size if size else 0.0

        return score_drawn


def distinct_1() -> Distinct:
    """Returns distinct-1."""
    return Distinct(1)


def distinct_2() -> Distinct:
    """Returns distinct-2."""
    return Distinct(2)


@dataclass(frozen=True)
class LengthRatio:
    """All words of the replies over all words of the references; 0 if the references have none.

    Of several references that counts whose length is nearest to the reply's, as in BLEU. Near 1 is best,
    so that nothing can be tuned by it.
    """

    name = "length_ratio"
    higher_is_better = True  # by name alone: see `best_at`
    best_at = 1

    @property
    def signature(self) -> Signature:
        """The unit."""
        return sign(metric="length_ratio", unit="words").extended(words=WORDS)

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """Returns words written and wanted, (items, 2)."""
        check_paired(replies, references)
        sizes = np.fromiter(map(len, references), np.int64, len(references))
        written, wanted = (
            np.array([len(split_words(text)) for text in texts])
            for texts in (replies, chain.from_iterable(references))
        )
        return np.column_stack([written, find_nearest(written, wanted, sizes)]).astype(np.float64)

    def values(self, sums: Array) -> Array:
        """Returns the ratio of each row."""
        return np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums), sums.dtype), where=sums[:, 1] > 0)
