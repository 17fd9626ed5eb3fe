"""Distinct-n: how varied the replies are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bidibeam.errors import SettingsError
from bidibeam.metrics.pairing import check_paired, recipe
from bidibeam.scores import Score

if TYPE_CHECKING:
    from collections.abc import Sequence


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
        """Score the whole list at once; the references are only counted."""
        check_paired(replies, references)
        different: set[tuple[str, ...]] = set()
        size = 0
        for reply in replies:
            starts = range(len(reply) - self.order + 1)
            different.update(tuple(reply[start : start + self.order]) for start in starts)
            size += len(reply) if self.per == "words" else len(starts)
        value = len(different) / size if size else 0.0
        return Score(
            f"distinct-{self.order}", value, recipe(metric="distinct", order=self.order, per=self.per)
        )


def distinct_1(per: Literal["words", "ngrams"] = "words") -> Distinct:
    """Different words over all words."""
    return Distinct(1, per)


def distinct_2(per: Literal["words", "ngrams"] = "words") -> Distinct:
    """Different pairs of neighbouring words over all words."""
    return Distinct(2, per)
