"""Pairs in arrays are the pairs that they were made of."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.labels import IGNORED, PairCollator, reverse_labels
from bidibeam.models.huggingface.rows import Rows, TokenPairs
from tests.unit.models.huggingface.test_labels import reader
from tests.unit.models.huggingface.tiny import tiny_model

ROW = st.lists(st.integers(4, 9), max_size=6)
PAIRS = st.lists(
    st.fixed_dictionaries(
        {"input_ids": ROW.map(lambda row: [*row, 3]), "labels": ROW.map(lambda row: [*row, 3])}
    ),
    min_size=1,
    max_size=7,
)


def slowly_padded(rows: list[list[int]], value: int) -> list[list[int]]:
    longest = max(map(len, rows))
    return [row + [value] * (longest - len(row)) for row in rows]


@given(st.lists(ROW, min_size=1, max_size=7), st.data())
def test_rows_are_taken_joined_and_padded_as_lists_are(rows: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    arrays = Rows.joined([Rows.of(rows[:2]), Rows.of(rows[2:])])

    assert [arrays.row(index) for index in range(len(arrays))] == rows
    some = arrays.taken(chosen)
    assert some.padded(-7).tolist() == slowly_padded([rows[index] for index in chosen], -7)
    assert some.mask().tolist() == slowly_padded([[1] * len(rows[index]) for index in chosen], 0)


@given(PAIRS)
def test_pairs_are_a_sequence_of_what_they_were_made_of(pairs: list[dict[str, list[int]]]) -> None:
    arrays = TokenPairs.of(pairs)

    assert list(arrays) == pairs
    assert list(arrays[1:]) == pairs[1:]
    assert list(TokenPairs.joined([arrays, arrays])) == pairs + pairs
    assert list(arrays.__getitems__([len(pairs) - 1, 0])) == [pairs[-1], pairs[0]]
    assert TokenPairs.of(arrays) is arrays
    with pytest.raises(IndexError):
        arrays[len(pairs)]


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("kind", ["bart", "gpt2"])
@given(pairs=PAIRS)
def test_batches_are_those_of_an_obvious_collator(
    kind: str, direction: Direction, pairs: list[dict[str, list[int]]]
) -> None:
    model = tiny_model(
        kind, pad_token_id=0, eos_token_id=3, **({"decoder_start_token_id": 2} if kind == "bart" else {})
    )
    collate = PairCollator(reader(), model, direction=direction)
    turned = direction is Direction.REVERSE
    responses = [reverse_labels(pair["labels"], [0, 2, 3]) if turned else pair["labels"] for pair in pairs]
    inputs, labels = [pair["input_ids"] for pair in pairs], responses
    if kind == "gpt2":
        labels = [[IGNORED] * len(row) + response for row, response in zip(inputs, responses, strict=True)]
        inputs = [row + response for row, response in zip(inputs, responses, strict=True)]

    batch = collate(pairs)

    assert batch["input_ids"].tolist() == slowly_padded(inputs, 0)
    assert batch["attention_mask"].tolist() == slowly_padded([[1] * len(row) for row in inputs], 0)
    assert batch["labels"].tolist() == slowly_padded(labels, IGNORED)


def test_a_loader_takes_a_batch_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [{"input_ids": [4] * (index + 1), "labels": [5, 3]} for index in range(5)]
    arrays = TokenPairs.of(pairs)
    monkeypatch.setattr(TokenPairs, "__getitem__", lambda *_: pytest.fail("one by one"))
    collate = PairCollator(reader(), tiny_model("bart", pad_token_id=0))

    batches = list(DataLoader(arrays, batch_size=2, collate_fn=collate))  # type: ignore[arg-type]

    assert [tuple(batch["input_ids"].shape) for batch in batches] == [(2, 2), (2, 4), (1, 5)]
    assert all(batch["labels"].dtype is torch.long for batch in batches)
