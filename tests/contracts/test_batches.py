"""The comparer of lists: ties are let pass, and nothing else."""

from __future__ import annotations

import pytest

from bidibeam.hypotheses import Hypothesis, NBest
from tests.contracts.batches import differences


def nbest(**scores: float) -> NBest:
    """Hypotheses by text, each with its score; one whose text ends in _ was cut off."""
    return NBest(
        tuple(
            Hypothesis(text, (text,), 2 * score, 3, score, finished=not text.endswith("_"))
            for text, score in scores.items()
        )
    )


LIST = nbest(a=-1.0, b=-2.0, c=-2.00005, d=-3.0)


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (LIST, True),
        (nbest(a=-1.00004, b=-2.0, c=-2.00005, d=-3.0), True),
        (nbest(a=-1.0, c=-2.0, b=-2.00005, d=-3.0), True),
        (nbest(a=-1.0, b=-2.0, c=-2.00005, e=-3.00002), True),
        (nbest(a=-1.00006, b=-2.0, c=-2.00005, d=-3.0), False),
        (nbest(b=-2.0, a=-1.0, c=-2.00005, d=-3.0), False),
        (nbest(a=-1.0, b=-2.0, c=-2.00005, e=-3.0002), False),
        (nbest(a=-1.0, b=-2.0, e=-2.00005, d=-3.0), False),
        (nbest(a=-1.0, b=-2.0, c=-2.00005), False),
        (nbest(a=-1.0, b=-2.0, c=-2.00005, d_=-3.0), False),
        (NBest(), False),
    ],
)
def test_ties_are_let_pass_and_nothing_else(other: NBest, is_same: bool) -> None:
    assert (differences(LIST, other) == []) is is_same
