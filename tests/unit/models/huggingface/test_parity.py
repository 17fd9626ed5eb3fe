"""The search finds what Hugging Face's own beam search finds, for every model type that it runs."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from bidibeam.hypotheses import Direction, Hypothesis
from bidibeam.models.huggingface.directional import DirectionalModel, read_task
from bidibeam.models.huggingface.scorer import MODEL_TYPES, ROPE_TYPES
from tests.unit.models.huggingface.tiny import FAMILIES, model_of, random_inputs

SCORE_TOLERANCE = 1e-4
"""Relative to a score where that is beyond 1: float32 has seven digits, however large logits are."""
CASES, PARTS = 24, 4
"""Cases for each kind of model, in so many tests."""

made_once = cache(model_of)
"""For tests that leave a model as it is."""


def random_options(chance: Random) -> dict[str, Any]:
    options: dict[str, Any] = {
        "num_beams": chance.choice((2, 3, 5, 8)),
        "max_new_tokens": chance.choice((2, 5, 12, 24)),
        "length_penalty": chance.choice((0.0, 0.6, 1.0, 2.0, -0.2)),
        "early_stopping": True,
    }
    more = chance.choice(
        (
            {},
            {},
            {"min_new_tokens": 2},
            {"suppress_tokens": [5, 6, 7, 30]},
            {"begin_suppress_tokens": [2, 9, 11]},
            {"forced_bos_token_id": 7},
            {"forced_eos_token_id": 2},
            {"no_repeat_ngram_size": 2},
            {"repetition_penalty": 1.3},
            {"bad_words_ids": [[8], [9, 10]]},
            {"eos_token_id": [2, 12, 13]},
        )
    )
    return options | more


def cases(kind: str, part: int) -> list[tuple[Any, dict[str, torch.Tensor], dict[str, Any]]]:
    found = []
    for number in range(part, CASES, PARTS):
        chance = Random(f"{kind} {number}")
        model = made_once(kind, number % 4)
        found.append((model, random_inputs(model, chance), random_options(chance)))
    return found


def is_written(one: Hypothesis, row: list[int]) -> bool:
    """Whether a row says what we found: the same tokens, the end if it ended, and then only padding."""
    return row[: len(one.ids)] == [*one.ids] and set(row[len(one.ids) :]) <= ({1} if one.finished else set())


def check(model: Any, inputs: dict[str, torch.Tensor], options: dict[str, Any]) -> None:
    """Ours and theirs, hypothesis by hypothesis."""
    beams = options["num_beams"]
    expected = model.generate(
        **inputs,
        **options,
        num_return_sequences=beams,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
    )

    task = model.generate(**inputs, **options, custom_generate=read_task)
    settings = task.constraints.search_settings(task.config, beams)
    found = DirectionalModel(model, None, Direction.REGULAR).search(task, settings)

    prompt = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
    ours = [one for line in found for one in line]
    assert len(ours) == len(expected.sequences)
    scores = expected.sequences_scores.tolist()
    assert [one.score for one in ours] == pytest.approx(scores, rel=SCORE_TOLERANCE, abs=SCORE_TOLERANCE)
    for one, other in zip(ours, expected.sequences, strict=True):
        assert is_written(one, other[prompt:].tolist())


@pytest.mark.parametrize("kind", MODEL_TYPES)
def test_every_listed_model_type_finds_the_n_best_of_generate(kind: str) -> None:
    for seed in range(2):
        model, chance = made_once(kind, seed), Random(seed)
        options = {"num_beams": 5, "max_new_tokens": 12, "early_stopping": bool(seed)}
        check(model, random_inputs(model, chance), options)


@pytest.mark.parametrize("rope_type", ROPE_TYPES)
def test_every_listed_rope_type_does_so(rope_type: str) -> None:
    rope = {"rope_type": rope_type, "rope_theta": 10_000.0, "factor": 2.0}
    rope |= {"original_max_position_embeddings": 8} if rope_type in ("yarn", "llama3") else {}
    rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0} if rope_type == "llama3" else {}
    model = model_of("llama", 0, rope_parameters=rope)

    check(model, random_inputs(model, Random(1)), {"num_beams": 4, "max_new_tokens": 24})


def test_a_window_shorter_than_the_text_and_eager_attention_do_so() -> None:
    eager = model_of("bart", 0)
    eager.set_attn_implementation("eager")

    for model in (model_of("mistral", 0, sliding_window=4), eager):
        check(model, random_inputs(model, Random(1)), {"num_beams": 4, "max_new_tokens": 12})

    assert eager.config._attn_implementation == "eager"


def test_large_logits_and_scaled_ones_do_so() -> None:
    changes: list[dict[str, Any]] = [{"initializer_factor": 20.0}, {"scale_decoder_outputs": True}]
    for change in changes:
        model = model_of("t5", 0, tie_word_embeddings=False, **change)
        check(model, random_inputs(model, Random(2)), {"num_beams": 4, "max_new_tokens": 12})


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", FAMILIES)
def test_options_of_generate_mean_the_same(kind: str, part: int) -> None:
    for model, inputs, options in cases(kind, part):
        check(model, inputs, options)


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_wide_beams_over_large_vocabularies_do_so_too(kind: str) -> None:
    model, chance = model_of(kind, 0, vocabulary=4200), Random(f"{kind} 25")
    options = {"num_beams": 25, "max_new_tokens": 6, "length_penalty": 0.6, "early_stopping": True}

    check(model, random_inputs(model, chance), options)


@pytest.mark.parametrize("early_stopping", [False, "never"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_the_other_stopping_rules_do_so_too(kind: str, early_stopping: bool | str) -> None:
    for model, inputs, options in cases(kind, 3):
        check(model, inputs, {**options, "early_stopping": early_stopping})


class Raised(LogitsProcessor):  # type: ignore[misc]
    """Makes some tokens more likely than certain."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        scores[:, input_ids.shape[1] % 7 + 5 :: 7] += 2.5
        return scores


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("kind", ["t5", "gpt2"])
def test_processors_may_raise_scores_above_0(kind: str, early_stopping: bool | str) -> None:
    raised: list[dict[str, Any]] = [
        {"sequence_bias": [[[5], 2.0], [[6], 4.0], [[2], 1.5]]},
        {"logits_processor": LogitsProcessorList([Raised()])},
    ]
    for number in range(4):
        chance, model = Random(number), made_once(kind, number % 4)
        options = {
            "num_beams": chance.choice((2, 3, 5)),
            "max_new_tokens": chance.choice((2, 5, 12)),
            "length_penalty": chance.choice((0.0, 1.0, -0.2)),
            "early_stopping": early_stopping,
            **raised[number % 2],
        }
        check(model, random_inputs(model, chance), options)
