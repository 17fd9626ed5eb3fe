"""Similarities that count the tokens two hypotheses share: token F1 and edit similarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from bidibeam.scores import Signed
from bidibeam.similarities.bleu import count_matches, number_tokens
from bidibeam.work import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Matrix


@dataclass(frozen=True)
class TokenF1(Signed):
    """The harmonic mean of the shares of its tokens that each has in common with the other.

    A token counts as often as it occurs in both. Two empty hypotheses score 1, an empty one and another 0.
    """

    recipe: ClassVar[Mapping[str, str]] = {"similarity": "token_f1"}
    is_parallel: ClassVar[bool] = True

    def pairwise(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        """Compares each hypothesis with each reference, from 0 to 1."""
        count(compared_pairs=len(hypotheses) * len(references))
        tokens = number_tokens([each.tokens for each in hypotheses], [each.tokens for each in references])
        matches = count_matches(*tokens, 1)[0]  # (hypotheses, references)
        lengths = np.diff(tokens.offsets)
        totals = np.add.outer(lengths[: len(hypotheses)], lengths[len(hypotheses) :])  # of both
        return np.where(totals, 2 * matches / np.maximum(1, totals), 1.0)


@dataclass(frozen=True)
class Edit(Signed):
    """1 - (the fewest insertions, deletions and replacements of tokens) / (the longer one's length).

    Two empty hypotheses are alike, 1.

    Reference: Levenshtein (1966); RapidFuzz computes it.
    """

    recipe: ClassVar[Mapping[str, str]] = {"similarity": "edit"}
    is_parallel: ClassVar[bool] = True

    def pairwise(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        """Compares each hypothesis with each reference, from 0 to 1."""
        count(compared_pairs=len(hypotheses) * len(references))
        return cdist(
            [each.tokens for each in hypotheses],
            [each.tokens for each in references],
            scorer=Levenshtein.normalized_similarity,
            dtype=np.float64,
            workers=1,
        )
