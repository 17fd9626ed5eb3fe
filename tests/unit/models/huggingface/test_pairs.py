from __future__ import annotations

from typing import Any

import pytest

from bidibeam.data.tokenization import Tokenizer
from bidibeam.errors import InputError, SettingsError
from bidibeam.models.huggingface.bases import wrap_tokenizer
from bidibeam.models.huggingface.pairs import encode_pairs, response_ids, set_prompt_end, source_ids
from tests.unit.models.huggingface.tiny import tiny_config

TEXT = "a a a a a b b b b c c c d d e"
"""Ids 4 to 8, the commonest first."""
SEQ2SEQ, CAUSAL = tiny_config("bart"), tiny_config("gpt2")


def reader(*, is_encoder_decoder: bool) -> Any:
    ours = Tokenizer.train([TEXT], kind="word", vocabulary_size=50)
    return wrap_tokenizer(ours, is_encoder_decoder=is_encoder_decoder)


def causal(separator: str) -> Any:
    config = tiny_config("gpt2")
    set_prompt_end(config, reader(is_encoder_decoder=False), separator)
    return config


def test_an_encoder_reads_the_source_and_its_end() -> None:
    tokenizer = reader(is_encoder_decoder=True)

    assert source_ids(["a b", "c"], tokenizer, SEQ2SEQ) == [[4, 5, 3], [6, 3]]
    assert response_ids(["a b", "c"], tokenizer, SEQ2SEQ) == [[4, 5, 3], [6, 3]]


def test_half_a_surrogate_pair_is_read_as_any_character_that_nobody_knows() -> None:
    tokenizer = reader(is_encoder_decoder=True)

    half, mark = source_ids(["a \ud800", "a ?"], tokenizer, SEQ2SEQ)
    assert half == mark


def test_a_prompt_has_no_end_but_a_separator() -> None:
    tokenizer = reader(is_encoder_decoder=False)

    assert source_ids(["a b"], tokenizer, causal("c")) == [[4, 5, 6]]
    assert source_ids(["a b"], tokenizer, causal("\n")) == [[4, 5, 2]]  # it has no such token: the start
    assert source_ids(["a b"], tokenizer, causal("")) == [[4, 5]]
    assert source_ids(["a b"], reader(is_encoder_decoder=True), CAUSAL) == [[4, 5]]
    assert response_ids(["a b"], tokenizer, CAUSAL) == [[4, 5, 3]]


def test_a_tokenizer_that_adds_no_end_gets_one() -> None:
    assert response_ids(["a"], reader(is_encoder_decoder=False), SEQ2SEQ) == [[4, 3]]


def test_of_a_long_source_the_last_tokens_are_read() -> None:
    tokenizer = reader(is_encoder_decoder=True)

    assert source_ids(["a b c d"], tokenizer, SEQ2SEQ, max_length=3) == [[6, 7, 3]]
    assert source_ids(["<s> a b c d"], tokenizer, SEQ2SEQ, max_length=3) == [[2, 7, 3]]
    assert source_ids(["a b"], tokenizer, SEQ2SEQ, max_length=3) == [[4, 5, 3]]
    assert source_ids(["<s> <s> <s>"], tokenizer, SEQ2SEQ, max_length=2) == [[2, 3]]


def test_pairs_that_are_empty_or_too_long_are_left_out() -> None:
    examples = [{"source": "a", "reference": text} for text in ("b c", "b c d", "")]
    limits = {"max_source_length": 5, "max_response_length": 3}
    tokenizer = reader(is_encoder_decoder=True)

    pairs = encode_pairs(examples, tokenizer, SEQ2SEQ, **limits)
    assert (pairs.sources.tolist(), pairs.responses.tolist(), len(pairs)) == ([4, 3], [5, 6, 3], 1)
    with pytest.raises(InputError, match=r"^None of 2 pairs has a response of 1 to 3 tokens: raise max_r"):
        encode_pairs(examples[1:], tokenizer, SEQ2SEQ, **limits)
    tokenizer.eos_token = None
    with pytest.raises(SettingsError, match=r"^The tokenizer has no end token, so a model cannot learn"):
        encode_pairs(examples, tokenizer, SEQ2SEQ, **limits)
