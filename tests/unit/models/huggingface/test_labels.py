from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import DataCollatorForSeq2Seq

from bidibeam.data.tokenization import Tokenizer
from bidibeam.errors import InputError, SettingsError
from bidibeam.hf import PairCollator, ReverseCollator, reverse_labels, special_ids
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.bases import wrap_tokenizer
from tests.unit.models.huggingface.tiny import DECODERS, ENCODER_DECODERS, FAMILIES, tiny_model

SPECIAL = {0, 1, 2}
ROWS = st.integers(1, 8).flatmap(
    lambda length: st.lists(
        st.lists(st.sampled_from([-100, *range(8)]), min_size=length, max_size=length), min_size=1, max_size=4
    )
)


def slowly(row: list[int], special: set[int]) -> list[int]:
    """Write down the places of tokens, then the tokens from the last to the first."""
    places = [place for place, token in enumerate(row) if token not in special and token != -100]
    turned = list(row)
    for number, place in enumerate(places):
        turned[place] = row[places[len(places) - 1 - number]]
    return turned


@given(ROWS)
def test_tensors_and_lists_are_turned_as_the_oracle_turns_them(rows: list[list[int]]) -> None:
    expected = [slowly(row, SPECIAL) for row in rows]

    assert reverse_labels(rows, SPECIAL) == expected
    assert reverse_labels(torch.tensor(rows), SPECIAL).tolist() == expected
    assert reverse_labels(rows[0], SPECIAL) == expected[0]
    assert reverse_labels(torch.tensor(rows[0]), SPECIAL).tolist() == expected[0]
    assert reverse_labels(expected, SPECIAL) == rows  # twice is not at all


KINDS_OF_ROW: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "tensor": lambda row: torch.tensor(row, dtype=torch.long),
    "array": lambda row: np.array(row, dtype=np.int64),
    "int32 tensor": lambda row: torch.tensor(row, dtype=torch.int32),
    "int32 array": lambda row: np.array(row, dtype=np.int32),
    "list of scalar tensors": lambda row: [torch.tensor(token) for token in row],
    "list of NumPy integers": lambda row: [np.int64(token) for token in row],
}
RAGGED = st.lists(st.lists(st.sampled_from([-100, *range(8)]), max_size=8), min_size=1, max_size=4)


@pytest.mark.parametrize("kind", KINDS_OF_ROW)
@given(rows=RAGGED)
def test_rows_of_any_kind_are_turned_each_by_itself_and_stay_of_their_kind(
    kind: str, rows: list[list[int]]
) -> None:
    made, expected = KINDS_OF_ROW[kind], [slowly(row, SPECIAL) for row in rows]

    for outer in (list, tuple):
        turned = reverse_labels(outer(map(made, rows)), SPECIAL)
        assert type(turned) is outer
        assert [list(map(int, row)) for row in turned] == expected
        for one, row in zip(turned, rows, strict=True):
            assert type(one) is type(made(row))
            assert getattr(one, "dtype", None) == getattr(made(row), "dtype", None)
    assert list(map(int, reverse_labels(made(rows[0]), SPECIAL))) == expected[0]


def test_arrays_and_tensors_of_any_whole_numbers_keep_their_type() -> None:
    for dtype in (np.int64, np.int32, np.int16, np.uint8, np.uint16, np.uint32):
        labels = np.array([[5, 6, 2], [7, 2, 8]], dtype=dtype)
        reversed_rows = reverse_labels(labels, SPECIAL)
        assert reversed_rows.dtype == dtype
        assert reversed_rows.tolist() == [[6, 5, 2], [8, 2, 7]]
        assert labels.tolist() == [[5, 6, 2], [7, 2, 8]]
    assert reverse_labels(torch.tensor([5, 6, 2], dtype=torch.uint8), SPECIAL).tolist() == [6, 5, 2]


def test_batches_of_batches_are_turned_row_by_row() -> None:
    rows = torch.arange(24).view(2, 3, 4) + 5

    assert torch.equal(reverse_labels(rows, SPECIAL), rows.flip(-1))
    assert np.array_equal(reverse_labels(rows.numpy()[:, ::-1], SPECIAL), rows.numpy()[:, ::-1, ::-1])
    assert reverse_labels(rows.tolist(), SPECIAL) == rows.flip(-1).tolist()


def test_nothing_is_turned_into_nothing_and_another_label_may_be_ignored() -> None:
    assert reverse_labels([[5, -1, 6, 7]], [7], ignore_index=-1) == [[6, -1, 5, 7]]
    assert reverse_labels([], []) == []
    for shape in ((0,), (0, 3), (2, 0)):
        assert reverse_labels(torch.empty(shape, dtype=torch.long), SPECIAL).shape == shape
        assert reverse_labels(np.empty(shape, dtype=np.int64), SPECIAL).shape == shape
    assert reverse_labels([[], [5, 6, 2]], SPECIAL) == [[], [6, 5, 2]]
    assert reverse_labels((), SPECIAL) == ()


NO_LABELS: dict[str, tuple[Any, str]] = {
    "a float tensor": (torch.tensor([[5.0, 6.0]]), "a tensor of float32"),
    "a mask": (torch.tensor([True, False]), "a tensor of bool"),
    "a float array": (np.array([5.0, 6.0]), "an array of float64"),
    "rows of an array of objects": (np.array([[5], [6, 7]], dtype=object), "an array of object"),
    "one tensor that is no row": (torch.tensor(5), "a single id"),
    "one id": (5, "a single id"),
    "nothing": (None, "a value of type NoneType"),
    "a text": ("abc", "a value of type str"),
    "tokens": (["a", "b"], "a value of type str"),
    "a mapping": ({"labels": [5, 6]}, "a value of type dict"),
    "a set": ({5, 6}, "a value of type set"),
    "numbers that are none": ([5, 6.0], "a value of type float"),
    "a row with a gap": ([[5, None]], "a value of type NoneType"),
    "rows beside ids": ([5, [6, 7]], "rows and ids side by side"),
    "ids beside rows": ([[6, 7], 5], "rows and ids side by side"),
    "one tensor with a fraction": ([torch.tensor(5.5)], "a tensor of float32"),
}


@pytest.mark.parametrize("case", NO_LABELS)
def test_what_is_no_row_of_ids_is_named(case: str) -> None:
    labels, received = NO_LABELS[case]

    with pytest.raises(InputError, match=rf"^Labels must be ids, .*, but there is {received}\.$"):
        reverse_labels(labels, SPECIAL)


def reader() -> Any:
    """Ids 4 and up: a b c d e f."""
    text = " ".join(letter for count, letter in enumerate("fedcba", 1) for _ in range(count))
    return wrap_tokenizer(Tokenizer.train([text], kind="word", vocabulary_size=50), is_encoder_decoder=True)


def test_an_unknown_word_moves_and_an_end_does_not() -> None:
    assert special_ids(reader()) == {0, 2, 3}
    shared = {"unk_token_id": 7, "eos_token_id": 7, "bos_token_id": 7, "pad_token_id": None}  # as GPT-2's
    assert special_ids(SimpleNamespace(all_special_ids=[7], **shared)) == {7}


IDS: dict[str, Any] = {"pad_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 3}
PAIRS = [{"input_ids": [4, 5, 3], "labels": [6, 7, 8, 3]}, {"input_ids": [9, 3], "labels": [4, 3]}]


@pytest.mark.parametrize("kind", ENCODER_DECODERS)
def test_an_encoder_decoder_gets_labels_and_what_its_decoder_reads(kind: str) -> None:
    model = tiny_model(kind, **IDS)

    batch = PairCollator(reader(), model, direction=Direction.REVERSE)(PAIRS)

    assert batch["input_ids"].tolist() == [[4, 5, 3], [9, 3, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["labels"].tolist() == [[8, 7, 6, 3], [4, 3, -100, -100]]
    assert batch["decoder_input_ids"].tolist() == [[2, 8, 7, 6], [2, 4, 3, 0]]
    assert PairCollator(reader(), model)(PAIRS)["labels"].tolist() == [[6, 7, 8, 3], [4, 3, -100, -100]]


@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_alone_gets_a_masked_prompt_and_only_the_response_turned(kind: str) -> None:
    batch = PairCollator(reader(), tiny_model(kind), direction=Direction.REVERSE)(PAIRS)

    assert batch["input_ids"].tolist() == [[4, 5, 3, 8, 7, 6, 3], [9, 3, 4, 3, 0, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1] * 7, [1, 1, 1, 1, 0, 0, 0]]
    labels = [[-100, -100, -100, 8, 7, 6, 3], [-100, -100, 4, 3, -100, -100, -100]]
    assert batch["labels"].tolist() == labels
    assert "decoder_input_ids" not in batch


def test_padding_changes_no_loss() -> None:
    for kind in FAMILIES:
        model = tiny_model(kind, **IDS)
        collate = PairCollator(reader(), model, direction=Direction.REVERSE)
        with torch.no_grad():
            alone = [model(**collate([pair])).loss for pair in PAIRS]
            together = model(**collate(PAIRS)).loss
        expected = sum(loss * len(pair["labels"]) for loss, pair in zip(alone, PAIRS, strict=True)) / 6
        torch.testing.assert_close(together, expected, atol=1e-5, rtol=0)


def test_without_padding_the_end_will_do_and_without_either_nothing() -> None:
    model = tiny_model("gpt2")
    ids = {"all_special_ids": [3], "unk_token_id": None, "bos_token_id": None}
    ended = SimpleNamespace(**ids, pad_token_id=None, eos_token_id=3)

    assert PairCollator(ended, model)(PAIRS)["input_ids"][1].tolist() == [9, 3, 4, 3, 3, 3, 3]
    with pytest.raises(SettingsError, match=r"^The tokenizer has neither a padding nor an end token"):
        PairCollator(SimpleNamespace(**ids, pad_token_id=None, eos_token_id=None), model)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_wrapped_collator_makes_what_ours_makes(kind: str) -> None:
    model = tiny_model(kind, **IDS)
    inner = PairCollator(reader(), model)

    wrapping = ReverseCollator(inner, reader(), model)(PAIRS)

    expected = PairCollator(reader(), model, direction=Direction.REVERSE)(PAIRS)
    assert set(wrapping) == set(expected)
    for name, tensor in expected.items():
        assert torch.equal(wrapping[name], tensor), name


def test_transformers_own_collator_is_wrapped() -> None:
    model = tiny_model("bart", **IDS)
    inner = DataCollatorForSeq2Seq(reader(), model)

    batch = ReverseCollator(inner, [0, 2, 3], model)([dict(pair) for pair in PAIRS])

    assert batch["labels"].tolist() == [[8, 7, 6, 3], [4, 3, -100, -100]]
    assert batch["decoder_input_ids"].tolist() == [[2, 8, 7, 6], [2, 4, 3, 0]]


def test_a_collator_that_cannot_be_wrapped_is_named() -> None:
    def bare(_: object) -> dict[str, Any]:
        return {"input_ids": torch.ones(1, 2)}

    def other(_: object) -> dict[str, Any]:
        return {"input_ids": torch.tensor([[5, 6]]), "labels": torch.tensor([[6, 5]])}

    with pytest.raises(SettingsError, match=r"^The collator function makes batches without labels"):
        ReverseCollator(bare, [], tiny_model("gpt2"))([])
    with pytest.raises(SettingsError, match=r"^The labels of a decoder-only model must be its input_ids"):
        ReverseCollator(other, [], tiny_model("gpt2"))([])
