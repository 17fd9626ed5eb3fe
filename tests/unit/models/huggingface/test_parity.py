"""The search finds what Hugging Face's own beam search finds, token for token: 400 random cases and more.

320 of them are over BART, T5, Marian and GPT-2.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.scoring import HFScorer
from bidibeam.models.huggingface.sides import Side, prepared, task_of
from bidibeam.search.backpointers import ScoredSequence
from tests.unit.models.huggingface.tiny import tiny_model

KINDS = ("bart", "t5", "marian", "gpt2", "llama")
SCORE_TOLERANCE = 1e-4
CASES, PARTS = 80, 8
"""Cases for each kind of model, in so many tests."""
VOCABULARY = 40
SCALES = {
    "t5": {"initializer_factor": 2.0},
    "gpt2": {"initializer_range": 0.3},
    "llama": {"initializer_range": 0.3},
}


def model_of(kind: str, seed: int, vocabulary: int = VOCABULARY) -> Any:
    """One whose opinions are strong enough that rounding does not decide."""
    ids: dict[str, Any] = {
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "forced_eos_token_id": None,
    }
    if kind in ("bart", "marian"):
        ids |= {"decoder_start_token_id": 2, "init_std": 0.3}
    if kind == "llama":
        ids |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    return tiny_model(kind, seed=seed, vocab_size=vocabulary, **ids, **SCALES.get(kind, {}))


def random_inputs(model: Any, chance: Random) -> dict[str, torch.Tensor]:
    """Sources of different lengths, padded where the model wants it."""
    lengths = [chance.randint(1, 9) for _ in range(chance.choice((1, 2, 5)))]
    longest = max(lengths) + chance.choice((0, 0, 3))
    ids = torch.full((len(lengths), longest), 1)
    for row, length in zip(ids, lengths, strict=True):
        words = torch.tensor([chance.randrange(3, VOCABULARY) for _ in range(length)])
        if model.config.is_encoder_decoder:
            row[:length] = words
        else:
            row[longest - length :] = words
    return {"input_ids": ids, "attention_mask": (ids != 1).long()}


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
        model = model_of(kind, seed=number % 4)
        found.append((model, random_inputs(model, chance), random_options(chance)))
    return found


def theirs(model: Any, inputs: dict[str, torch.Tensor], options: dict[str, Any]) -> Any:
    return model.generate(
        **inputs,
        **options,
        num_return_sequences=options["num_beams"],
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
    )


def is_written(one: ScoredSequence, row: list[int]) -> bool:
    """Whether a row says what we found: the same tokens, the end if it ended, and then only padding."""
    if not one.finished:
        return row == list(one.tokens)
    whole = [*one.tokens, one.end]
    return row[: len(whole)] == whole and set(row[len(whole) :]) <= {1}


def check(model: Any, inputs: dict[str, torch.Tensor], options: dict[str, Any], stopping: str) -> None:
    """Ours and theirs, hypothesis by hypothesis."""
    expected = theirs(model, inputs, options)

    task = model.generate(**inputs, **options, custom_generate=task_of)
    settings = task.rules.settings(task.config, options["num_beams"])
    found = Side.of(model, Direction.REGULAR).sequences(task, settings)

    assert settings.stopping == stopping
    prompt = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
    ours = [one for line in found for one in line]
    assert len(ours) == len(expected.sequences)
    scores = expected.sequences_scores.tolist()
    assert [one.score for one in ours] == pytest.approx(scores, abs=SCORE_TOLERANCE)
    for one, other in zip(ours, expected.sequences, strict=True):
        assert is_written(one, other[prompt:].tolist())


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_the_constant_rule_returns_the_n_best_of_generate(kind: str, part: int) -> None:
    for model, inputs, options in cases(kind, part):
        check(model, inputs, options, "constant")


@pytest.mark.parametrize("num_beams", [10, 17, 25])
@pytest.mark.parametrize("kind", KINDS)
def test_wide_beams_over_large_vocabularies_do_so_too(kind: str, num_beams: int) -> None:
    model, chance = model_of(kind, 0, vocabulary=4200), Random(f"{kind} {num_beams}")
    options = {"num_beams": num_beams, "max_new_tokens": 6, "length_penalty": 0.6, "early_stopping": True}

    check(model, random_inputs(model, chance), options, "constant")


@pytest.mark.parametrize("early_stopping", [False, "never"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_other_rules_do_so_too(kind: str, early_stopping: bool | str) -> None:
    stopping = "optimal" if early_stopping else "heuristic"
    for model, inputs, options in cases(kind, 3):
        check(model, inputs, {**options, "early_stopping": early_stopping}, stopping)


class Raised(LogitsProcessor):  # type: ignore[misc]
    """Makes some tokens more likely than certain."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = scores.clone()
        scores[:, input_ids.shape[1] % 7 + 5 :: 7] += 2.5
        return scores


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("kind", KINDS)
def test_processors_may_raise_scores_above_0(kind: str, early_stopping: bool | str) -> None:
    names: dict[bool | str, str] = {True: "constant", False: "heuristic", "never": "optimal"}
    raised: list[dict[str, Any]] = [
        {"sequence_bias": [[[5], 2.0], [[6], 4.0], [[2], 1.5]]},
        {"logits_processor": LogitsProcessorList([Raised()])},
    ]
    for number in range(8):
        chance, model = Random(number), model_of(kind, seed=number % 4)
        options = {
            "num_beams": chance.choice((2, 3, 5)),
            "max_new_tokens": chance.choice((2, 5, 12)),
            "length_penalty": chance.choice((0.0, 0.6, 1.0)),
            "early_stopping": early_stopping,
            **raised[number % 2],
        }
        check(model, random_inputs(model, chance), options, names[early_stopping])


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_search_says_is_what_teacher_forcing_says(kind: str) -> None:
    for model, inputs, _ in cases(kind, 0):
        side = Side.of(model, Direction.REGULAR)
        task = prepared(model, inputs["input_ids"], inputs["attention_mask"], max_new_tokens=9)
        lines = side.search(task, task.rules.settings(task.config, 6))
        sequences = [
            [[*one.tokens, *([2] if one.finished else [])] for one in line.sequences] for line in lines
        ]

        forced = HFScorer(model).log_probs(inputs["input_ids"], sequences)

        for line, values in zip(lines, forced, strict=True):
            assert [one.log_prob for one in line.sequences] == pytest.approx(values, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_forced_pass_gives_the_losses_of_the_model_itself(kind: str) -> None:
    model = model_of(kind, seed=1)
    source, target = [5, 6, 7, 8], [9, 10, 11, 2]
    (value,) = HFScorer(model).log_probs(torch.tensor([source]), [[target]])[0]

    if model.config.is_encoder_decoder:
        logits = model(
            input_ids=torch.tensor([source]),
            decoder_input_ids=torch.tensor([[model.config.decoder_start_token_id, *target[:-1]]]),
        ).logits[0]
    else:
        logits = model(input_ids=torch.tensor([source + target[:-1]])).logits[0, len(source) - 1 :]

    expected = logits.log_softmax(-1).gather(1, torch.tensor(target)[:, None]).sum().item()
    assert value == pytest.approx(expected, abs=1e-4)
