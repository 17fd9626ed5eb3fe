"""Shared tokens, in whatever order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bidibeam.scores import Signature
from bidibeam.similarities.ngrams import count_matches
from bidibeam.similarities.tokens import number_tokens
from bidibeam.work import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Matrix


@dataclass(frozen=True)
class TokenF1:
    """The harmonic mean of the shares of its tokens that each has in common with the other.

    A token counts as often as it occurs in both. Two empty hypotheses score 1, an empty one and another 0.
    """

    is_parallel: ClassVar[bool] = True

    @property
    def signature(self) -> Signature:
        """Its name."""
        return Signature.of_settings(self, similarity="token_f1")

    def pairwise(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Matrix:
        """Each with each, from 0 to 1."""
        count(compared_pairs=len(judged) * len(others))
        tokens = number_tokens([each.tokens for each in judged], [each.tokens for each in others])
        matched = count_matches(tokens, 1).numerators[0]  # (judged, others)
        lengths = np.diff(tokens.offsets)
        tokens_of_both = np.add.outer(lengths[: tokens.judged], lengths[tokens.judged :])
        return np.where(tokens_of_both, 2 * matched / np.maximum(1, tokens_of_both), 1.0)
