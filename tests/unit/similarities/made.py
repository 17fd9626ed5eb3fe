"""Hypotheses for the tests of similarities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam.hypotheses import Hypothesis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.protocols import ClosestPair, Matrix, Similarity


def hypotheses(*texts: str | Sequence[str]) -> list[Hypothesis]:
    tokens = [tuple(text.split() if isinstance(text, str) else text) for text in texts]
    return [Hypothesis(" ".join(each), each, None, len(each) + 1, None) for each in tokens]


def compare(similarity: Similarity, hypothesis: str, reference: str) -> float:
    return float(similarity.pairwise(hypotheses(hypothesis), hypotheses(reference)).item())


def is_first_highest(pair: ClosestPair, matrix: Matrix) -> bool:
    is_first = (pair.hypothesis, pair.reference) == divmod(int(matrix.argmax()), matrix.shape[1])
    return is_first and pair.value == matrix.max()
