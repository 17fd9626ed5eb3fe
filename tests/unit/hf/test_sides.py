"""What a side found, as hypotheses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bidibeam.hf.sides import Side
from bidibeam.hypotheses import Direction
from bidibeam.search.found import FoundSequence
from bidibeam.search.settings import VocabularyRoles
from tests.unit.hf.tiny import tiny_model


def test_one_that_was_cut_off_does_not_stand_for_those_that_finished() -> None:
    model = tiny_model("bart", vocab_size=40, decoder_start_token_id=2)
    side = Side(model, Direction.REGULAR, frozenset({2}), lambda _: (("x",), "x"))  # all read alike
    sequences = [
        FoundSequence((5, 6), -1.0, 2, -0.5, finished=False),
        FoundSequence((5,), -2.0, 2, -1.0, finished=True, end=2),
        FoundSequence((6,), -3.0, 2, -1.5, finished=True, end=2),
        FoundSequence((7, 8), -4.0, 2, -2.0, finished=False),
    ]
    rules: Any = SimpleNamespace(roles=VocabularyRoles(start=2, end=2))

    line = side._written(sequences, rules, merged=True)

    assert [(one.finished, one.score, one.multiplicity) for one in line.nbest] == [
        (False, -0.5, 2),
        (True, -1.0, 2),
    ]
    assert line.ids == [(5, 6), (5, 2)]
    assert line.others == [[(7, 8)], [(6, 2)]]
    assert len(side._written(sequences, rules, merged=False).nbest) == 4
