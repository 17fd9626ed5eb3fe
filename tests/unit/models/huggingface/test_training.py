"""Batches are what an obvious collator makes, and losses are those of transformers itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.trainer_pt_utils import LabelSmoother

from bidibeam.data.batching import IGNORED, BatchPlan, TokenBatches, TokenPairs
from bidibeam.data.prepared import PreparedData
from bidibeam.errors import SettingsError
from bidibeam.hf import BidirectionalSeq2Seq, PairCollator, reverse_labels, special_ids
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.bases import wrap_tokenizer
from bidibeam.models.huggingface.pairs import encode_pairs, from_prepared, set_prompt_end
from bidibeam.models.huggingface.training import ModelWithLoss, check_positions
from tests.unit.models.huggingface.tiny import ENCODER_DECODERS, FAMILIES, tiny_config, tiny_model

LIMITS: dict[str, int] = {"max_source_length": 4, "max_response_length": 6}
IDS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "vocab_size": 20}
ROWS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=1, max_size=7)


def flat(rows: list[list[int]]) -> tuple[Any, Any]:
    return np.concatenate([np.array(row, np.int64) for row in rows]), np.array([*map(len, rows)])


def rows_of(pairs: TokenPairs) -> list[dict[str, list[int]]]:
    sources = np.split(pairs.sources, np.cumsum(pairs.source_lengths)[:-1])
    responses = np.split(pairs.responses, np.cumsum(pairs.response_lengths)[:-1])
    return [{"input_ids": a.tolist(), "labels": b.tolist()} for a, b in zip(sources, responses, strict=True)]


def model_of(kind: str, **changes: Any) -> Any:
    start = {"decoder_start_token_id": 2, "forced_eos_token_id": None} if kind in SEQ2SEQ else {}
    return tiny_model(kind, **{**IDS, **start, **changes})


SEQ2SEQ = (*ENCODER_DECODERS, "mbart")


class Batches(NamedTuple):
    """What a model is trained on, and how an obvious collator makes the same."""

    batches: TokenBatches
    rows: list[dict[str, list[int]]]
    tokenizer: Any

    def collate(self, model: Any, direction: Direction, plan: BatchPlan) -> Any:
        collate = PairCollator(self.tokenizer, model, direction=direction)
        return collate([self.rows[index] for index in plan.indices])


Make = Callable[..., Batches]


@pytest.fixture(scope="module")
def make(copies: PreparedData) -> Make:
    """Makes batches of four pairs for a model and directions."""

    def make(model: Any, *directions: Direction) -> Batches:
        kind = {"is_encoder_decoder": model.config.is_encoder_decoder}
        tokenizer = wrap_tokenizer(copies.tokenizer, **kind)
        if not model.config.is_encoder_decoder:
            set_prompt_end(model.config, tokenizer, "\n")
        pairs = encode_pairs(copies.examples("train"), tokenizer, model.config, **LIMITS)
        options = {"special": special_ids(tokenizer), "pad_id": 0, "batch_size": 4, **kind}
        return Batches(TokenBatches(pairs, directions, **options), rows_of(pairs), tokenizer)

    return make


@given(ROWS)
def test_responses_are_reversed_as_labels_are(rows: list[list[int]]) -> None:
    pairs = TokenPairs(*flat(rows), *flat(rows))

    expected = reverse_labels(rows, {0, 2, 3})

    assert pairs.reversed_responses({0, 2, 3}).tolist() == [token for row in expected for token in row]


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_prepared_ids_are_the_pairs_that_texts_give(kind: str, copies: PreparedData, make: Make) -> None:
    model = model_of(kind)
    by_text, tokenizer = make(model, Direction.REGULAR).rows, make(model, Direction.REGULAR).tokenizer

    by_ids = from_prepared(copies.split("train"), tokenizer, model.config, **LIMITS)

    assert rows_of(by_ids) == by_text
    assert max(by_ids.source_lengths) == LIMITS["max_source_length"]


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("kind", FAMILIES)
def test_batches_are_those_of_the_collator(kind: str, direction: Direction, make: Make) -> None:
    model = model_of(kind)
    made, seen = make(model, direction), []

    for plan in made.batches.plan(seed=(3,)):
        inputs, lengths, labels, is_real = made.batches.batch(plan)
        expected = made.collate(model, direction, plan)
        width = expected["input_ids"].shape[1]
        assert torch.equal(inputs[:, :width], expected["input_ids"])
        assert torch.all(inputs[:, width:] == 0)
        assert torch.equal(lengths, expected["attention_mask"].sum(dim=1))
        real = expected["labels"] != IGNORED
        assert torch.equal(labels[0][labels[0] != IGNORED], expected["labels"][real])
        assert plan.tokens == int(real.sum())
        assert is_real.all()
        seen += plan.indices.tolist()

    assert sorted(seen) == list(range(len(made.rows)))


def test_pairs_of_similar_lengths_share_a_batch() -> None:
    rows = [[5] * length for length in range(1, 41)]
    options: dict[str, Any] = {"special": {3}, "pad_id": 0, "is_encoder_decoder": True, "batch_size": 4}
    batches = TokenBatches(TokenPairs(*flat(rows), *flat(rows)), [Direction.REGULAR], **options)

    plans = batches.plan(seed=(0,))

    assert sorted(index for plan in plans for index in plan.indices) == list(range(40))
    for plan in plans:
        longest = max(plan.indices) + 1
        assert longest <= min(plan.source_width, plan.response_width) <= longest + 10
    assert [len(plan.indices) for plan in plans] != [len(plan.indices) for plan in batches.plan(seed=(1,))]


@pytest.mark.parametrize("kind", FAMILIES)
def test_losses_and_gradients_are_those_of_transformers(kind: str, make: Make) -> None:
    model = model_of(kind)
    made = make(model, Direction.REVERSE)
    plan = max(made.batches.plan(seed=None), key=lambda plan: len(plan.indices))
    expected = model(**made.collate(model, Direction.REVERSE, plan))
    expected.loss.backward()
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    gradients = {name: weight.grad.clone() for name, weight in trained.items()}
    model.zero_grad()

    losses = ModelWithLoss(model)(*made.batches.batch(plan))
    losses.total.backward()

    assert losses.tokens == plan.tokens
    torch.testing.assert_close(losses.total, expected.loss)
    torch.testing.assert_close(losses.sums[0], expected.loss * plan.tokens)
    for name, weight in trained.items():
        torch.testing.assert_close(weight.grad, gradients[name], atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_smoothed_labels_are_those_of_transformers(kind: str, make: Make) -> None:
    model = model_of(kind)
    made = make(model, Direction.REGULAR)
    plan = made.batches.plan(seed=None)[0]
    inputs = made.collate(model, Direction.REGULAR, plan)
    outputs = model(**inputs)

    losses = ModelWithLoss(model)(*made.batches.batch(plan), label_smoothing=0.3)

    shift = not model.config.is_encoder_decoder
    expected = LabelSmoother(epsilon=0.3)(outputs, inputs["labels"], shift_labels=shift)
    torch.testing.assert_close(losses.total, expected)
    torch.testing.assert_close(losses.sums[0], outputs.loss.detach() * plan.tokens)
    weight = model.get_input_embeddings().weight
    (ours,), (theirs,) = (torch.autograd.grad(loss, weight) for loss in (losses.total, expected))
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_joint_model_has_a_loss_in_each_direction(reduction: str, make: Make) -> None:
    config = tiny_config("bart", **IDS, decoder_start_token_id=2)
    options: dict[str, Any] = {"special_ids": [0, 2, 3], "reduction": reduction}
    model = BidirectionalSeq2Seq.from_encoder_decoder(config, **options).eval()
    made = make(model, *Direction)
    plan = made.batches.plan(seed=None)[0]
    inputs = made.collate(model.regular, Direction.REGULAR, plan)
    inputs.pop("decoder_input_ids")
    expected = model(**inputs)

    losses = ModelWithLoss(model)(*made.batches.batch(plan))

    torch.testing.assert_close(losses.total, expected.loss)
    both = torch.stack([expected.regular_loss, expected.reverse_loss]).detach()
    torch.testing.assert_close(losses.sums / plan.tokens, both)


@pytest.mark.parametrize("kind", [*FAMILIES, "mbart"])
def test_rows_that_fill_up_a_batch_cost_nothing(kind: str, make: Make) -> None:
    model = model_of(kind)
    batches = make(model, Direction.REGULAR).batches
    plan = batches.plan(seed=None)[0]

    alone = ModelWithLoss(model)(*batches.batch(plan))
    filled = ModelWithLoss(model)(*batches.batch(plan, rows=9))

    assert len(batches.batch(plan, rows=9)[0]) == 9
    assert filled.tokens == alone.tokens == plan.tokens
    torch.testing.assert_close(filled.total, alone.total)


def test_a_step_that_drops_layers_at_random_is_not_captured() -> None:
    assert ModelWithLoss(model_of("bart")).has_fixed_layers
    assert not ModelWithLoss(model_of("bart", decoder_layerdrop=0.1)).has_fixed_layers
    config = tiny_config("bart", encoder_layerdrop=0.1)
    assert not ModelWithLoss(BidirectionalSeq2Seq.from_encoder_decoder(config)).has_fixed_layers


@pytest.mark.parametrize(
    ("kind", "lengths", "told"),
    [
        ("bart", (65, 20), "max_source_length=64"),
        ("bart", (256, 128), "max_source_length=64 and max_response_length=64"),
        ("gpt2", (45, 20), "max_source_length=44"),
        ("gpt2", (20, 128), "max_response_length=32"),
        ("gpt2", (256, 128), "max_source_length=32 and max_response_length=32"),
    ],
)
def test_a_model_with_too_few_positions_is_refused(kind: str, lengths: tuple[int, int], told: str) -> None:
    limits = dict(zip(LIMITS, lengths, strict=True))
    with pytest.raises(SettingsError, match=rf"^The model has 64 positions, .*: lower them, as {told}\.$"):
        check_positions(model_of(kind), **limits)
    check_positions(model_of("t5"), **limits)


def test_a_model_without_positions_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"^The model has max_position_embeddings 0: no text fits into it"
    ):
        check_positions(tiny_model("bart", max_position_embeddings=0), **LIMITS)


def test_a_decoder_alone_learns_one_direction(make: Make) -> None:
    with pytest.raises(SettingsError, match="learns one direction"):
        make(model_of("gpt2"), *Direction)
