"""What a side found, as hypotheses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from transformers.modeling_outputs import BaseModelOutput

from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.generate import BidiGenerate
from bidibeam.models.huggingface.sides import Side
from bidibeam.search.backpointers import ScoredSequence
from bidibeam.search.settings import VocabularyRoles
from tests.unit.models.huggingface.tiny import tiny_model


def test_one_that_was_cut_off_does_not_stand_for_those_that_finished() -> None:
    model = tiny_model("bart", vocab_size=40, decoder_start_token_id=2)
    side = Side(model, Direction.REGULAR, frozenset({2}), lambda _: (("x",), "x"))  # all read alike
    sequences = [
        ScoredSequence((5, 6), -1.0, 2, -0.5, finished=False),
        ScoredSequence((5,), -2.0, 2, -1.0, finished=True, end=2),
        ScoredSequence((6,), -3.0, 2, -1.5, finished=True, end=2),
        ScoredSequence((7, 8), -4.0, 2, -2.0, finished=False),
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


def test_what_the_encoder_said_is_held_once_per_source() -> None:
    model = tiny_model("bart", vocab_size=40, decoder_start_token_id=2)
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    with torch.no_grad():
        said = model.get_encoder()(ids).last_hidden_state
    mine = BaseModelOutput(last_hidden_state=said.clone(), hidden_states=(said,))

    model.generate(
        encoder_outputs=mine,
        attention_mask=torch.ones_like(ids),
        custom_generate=BidiGenerate(strategy="vbs"),
        num_beams=4,
        max_new_tokens=3,
        do_sample=False,
    )

    kept = mine.last_hidden_state
    assert kept is not None
    assert torch.equal(kept, said)
    assert kept.untyped_storage().nbytes() == said.nbytes  # and nothing larger behind it
    assert mine.hidden_states == (said,)
