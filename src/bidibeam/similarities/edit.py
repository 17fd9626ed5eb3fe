"""How few tokens must change to make one hypothesis into another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from bidibeam.scores import Signature
from bidibeam.work import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Matrix


@dataclass(frozen=True)
class Edit:
    """1 - (the fewest insertions, deletions and replacements of tokens) / (the longer one's length).

    Two empty hypotheses are alike, 1.

    Reference: Levenshtein (1966); RapidFuzz computes it.
    """

    is_parallel: ClassVar[bool] = True

    @property
    def signature(self) -> Signature:
        """Its name."""
        return Signature.of_settings(self, similarity="edit")

    def pairwise(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Matrix:
        """Each with each, from 0 to 1."""
        count(compared_pairs=len(judged) * len(others))
        return cdist(
            [each.tokens for each in judged],
            [each.tokens for each in others],
            scorer=Levenshtein.normalized_similarity,
            dtype=np.float64,
            workers=1,
        )
