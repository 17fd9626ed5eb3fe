"""How long the replies are beside their references."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bidibeam.metrics.pairing import check_paired, recipe
from bidibeam.scores import Score

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class LengthRatio:
    """All words of the replies over all words of the references; 0 if the references have none."""

    def score(self, replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Score:
        """Score the whole list at once."""
        check_paired(replies, references)
        written, wanted = (sum(map(len, sequences)) for sequences in (replies, references))
        value = written / wanted if wanted else 0.0
        return Score("length_ratio", value, recipe(metric="length_ratio", unit="words"))
