"""`BidiGenerate`: both directions behind transformers' own `generate`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from bidibeam.errors import BidibeamError
from bidibeam.hf import BidiGenerate, BidirectionalSeq2Seq, mark, reverse_labels
from bidibeam.hf.scoring import HFScorer
from bidibeam.hypotheses import Direction
from tests.unit.hf.test_parity import KINDS, model_of

STRATEGIES = (
    "vbs",
    "bidis",
    "bidia",
    "bidia bleu_t either",
    "bidia bleu_t expected",
    "longest",
    "reverse-vbs",
)


def pair(kind: str) -> tuple[Any, Any]:
    reverse = model_of(kind, seed=7)
    mark(reverse, Direction.REVERSE)
    return model_of(kind, seed=3), reverse


def inputs(model: Any) -> dict[str, torch.Tensor]:
    left = torch.tensor([[1, 1, 5, 6], [7, 8, 9, 10], [1, 11, 12, 13]])
    ids = (
        torch.tensor([[5, 6, 1, 1], [7, 8, 9, 10], [11, 12, 13, 1]])
        if model.config.is_encoder_decoder
        else left
    )
    return {"input_ids": ids, "attention_mask": (ids != 1).long()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_answers_through_generate(kind: str, strategy: str) -> None:
    model, reverse = pair(kind)
    given = inputs(model)

    found = model.generate(
        **given, custom_generate=BidiGenerate(reverse, strategy=strategy), num_beams=6, max_new_tokens=8
    )

    prompt = 1 if model.config.is_encoder_decoder else 4
    assert len(found) == 3
    assert prompt < found.shape[1] <= prompt + 8
    if prompt == 4:
        assert torch.equal(found[:, :4], given["input_ids"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_answered_as_its_members_one_by_one(kind: str) -> None:
    model, reverse = pair(kind)
    given = inputs(model)
    options = {"custom_generate": BidiGenerate(reverse), "num_beams": 6, "max_new_tokens": 8}
    prompt = 1 if model.config.is_encoder_decoder else 4

    together = model.generate(**given, **options)

    for row, ids, mask in zip(together, given["input_ids"], given["attention_mask"], strict=True):
        own = ids[mask.bool()][None]
        alone = model.generate(input_ids=own, attention_mask=torch.ones_like(own), **options)
        skipped = 1 if model.config.is_encoder_decoder else own.shape[1]
        written = alone[0, skipped:].tolist()
        assert row[prompt : prompt + len(written)].tolist() == written


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_bidis_ranks_by_both_models_opinions(kind: str) -> None:
    model, reverse = pair(kind)
    given = {name: tensor[1:2] for name, tensor in inputs(model).items()}
    options: dict[str, Any] = {"num_beams": 5, "max_new_tokens": 6, "num_return_sequences": 5}
    options |= {"return_dict_in_generate": True, "early_stopping": True}

    plain = model.generate(**given, **options, custom_generate=BidiGenerate(strategy="vbs"))
    both = model.generate(**given, **options, custom_generate=BidiGenerate(reverse, "bidis", lambda_=0.7))

    prompt = 1 if model.config.is_encoder_decoder else 4
    special = {0, 1, 2}
    expected = []
    for row, score in zip(plain.sequences, plain.sequences_scores.tolist(), strict=True):
        ids = row[prompt:].tolist()
        is_finished = 2 in ids
        ids = ids[: ids.index(2) + 1] if is_finished else ids
        turned = reverse_labels([*ids, *(() if is_finished else (2,))], special)
        (opinion,) = HFScorer(reverse).log_probs(given["input_ids"], [[turned]])[0]
        expected.append((not is_finished, -(score + 0.7 * opinion / len(ids)), ids))
    expected.sort(key=lambda one: one[:2])
    for (_, cost, ids), row, score in zip(
        expected, both.sequences, both.sequences_scores.tolist(), strict=True
    ):
        assert row[prompt : prompt + len(ids)].tolist() == ids
        assert score == pytest.approx(-cost, abs=1e-4)


def test_a_shared_encoder_reads_the_sources_once() -> None:
    joint = BidirectionalSeq2Seq.from_encoder_decoder(model_of("bart", seed=3), special_ids=[0, 1, 2]).eval()
    for model in (joint.regular, joint.reverse):
        HFScorer(model)  # asks a model once how it makes its logits
    calls = []
    joint.regular.get_encoder().register_forward_hook(lambda *_: calls.append(1))

    found = joint.regular.generate(
        **inputs(joint.regular), custom_generate=BidiGenerate(joint), num_beams=4, max_new_tokens=5
    )

    assert len(found) == 3
    assert calls == [1]


def refusals() -> list[tuple[Any, str]]:
    def same_direction() -> None:
        model, _ = pair("bart")
        BidiGenerate(model_of("bart", seed=1))
        model.generate(
            **inputs(model),
            custom_generate=BidiGenerate(model_of("bart", seed=1)),
            num_beams=4,
            max_new_tokens=4,
        )

    def no_reverse() -> None:
        BidiGenerate(strategy="bidia")

    def sampling() -> None:
        model, reverse = pair("bart")
        model.generate(
            **inputs(model),
            custom_generate=BidiGenerate(reverse),
            num_beams=4,
            max_new_tokens=4,
            do_sample=True,
        )

    def one_beam() -> None:
        model, reverse = pair("bart")
        model.generate(**inputs(model), custom_generate=BidiGenerate(reverse), num_beams=1, max_new_tokens=4)

    def too_many() -> None:
        model, reverse = pair("bart")
        model.generate(
            **inputs(model),
            custom_generate=BidiGenerate(reverse),
            num_beams=4,
            num_return_sequences=4,
            max_new_tokens=4,
        )

    def training() -> None:
        model, reverse = pair("bart")
        reverse.train()
        model.generate(**inputs(model), custom_generate=BidiGenerate(reverse), num_beams=4, max_new_tokens=4)

    def reference() -> None:
        BidiGenerate(strategy="oracle")

    def words() -> None:
        model, reverse = pair("bart")
        model.generate(
            **inputs(model),
            custom_generate=BidiGenerate(reverse, similarity="wmd_t"),
            num_beams=4,
            max_new_tokens=4,
        )

    return [
        (same_direction, "direction"),
        (no_reverse, "needs a reverse model"),
        (sampling, "searched, not sampled"),
        (one_beam, "num_beams must be at least 2 for bidia"),
        (too_many, "num_return_sequences is 4, but bidia ranks only 2"),
        (training, "training mode"),
        (reference, "asks for the reference"),
        (words, "give vectors= and tokenizer="),
    ]


@pytest.mark.parametrize(("call", "message"), refusals(), ids=[call.__name__ for call, _ in refusals()])
def test_what_cannot_be_done_is_refused_with_the_reason(call: Any, message: str) -> None:
    with pytest.raises(BidibeamError, match=message):
        call()


def test_a_model_that_attends_in_its_own_way_is_refused() -> None:
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(
            "bloom", vocab_size=40, hidden_size=16, n_layer=1, n_head=2, eos_token_id=2, pad_token_id=1
        )
    ).eval()
    ids = torch.tensor([[5, 6, 7]])

    with pytest.raises(BidibeamError, match="does not attend through the attention interface"):
        model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            custom_generate=BidiGenerate(strategy="vbs"),
            num_beams=3,
            max_new_tokens=4,
        )


def test_the_users_model_attends_as_before_afterwards() -> None:
    model, reverse = pair("bart")
    before = model.config._attn_implementation

    model.generate(**inputs(model), custom_generate=BidiGenerate(reverse), num_beams=4, max_new_tokens=4)

    assert model.config._attn_implementation == before
    assert reverse.config._attn_implementation == before
