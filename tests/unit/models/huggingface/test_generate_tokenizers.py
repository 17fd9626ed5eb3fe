"""`BidiGenerate` sees that two models of one size have other tokens, where tokenizers lie beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from bidibeam.errors import SettingsError
from bidibeam.hf import BidiGenerate
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.bases import wrapped
from bidibeam.models.huggingface.directions import check_same_ids
from bidibeam.models.huggingface.generate import tokenizer_beside
from tests.unit.models.huggingface.folders import tokenizer_of, write_model
from tests.unit.models.huggingface.tiny import tiny_config

WORDS, OTHERS = ["red", "blue", "cat", "dog"], ["red", "green", "cat", "dog"]
LOADERS: dict[str, Any] = {"bart": AutoModelForSeq2SeqLM, "gpt2": AutoModelForCausalLM}


def answered(folder: Path, kind: str, words: list[str], strategy: str, *, is_told: bool = False) -> Any:
    regular = write_model(folder / "regular", kind, tokenizer=tokenizer_of(WORDS))
    reverse = write_model(folder / "reverse", kind, Direction.REVERSE, tokenizer=tokenizer_of(words))
    model, other = (LOADERS[kind].from_pretrained(path) for path in (regular, reverse))
    tokenizer = AutoTokenizer.from_pretrained(regular)
    inputs = tokenizer(["red cat"], return_tensors="pt", return_token_type_ids=False)
    both = BidiGenerate(other, strategy=strategy, tokenizer=tokenizer if is_told else None)
    return model.generate(**inputs, custom_generate=both, num_beams=4, max_new_tokens=3)


@pytest.mark.parametrize("strategy", ["bidia", "bidis"])
@pytest.mark.parametrize("kind", LOADERS)
def test_ids_of_other_words_are_not_shared(tmp_path: Path, kind: str, strategy: str) -> None:
    with pytest.raises(
        SettingsError, match=r"^The two models cannot share the ids .* is '\w+' in .* and '\w+'"
    ):
        answered(tmp_path, kind, OTHERS, strategy)


@pytest.mark.parametrize("kind", LOADERS)
def test_ids_of_the_same_words_are(tmp_path: Path, kind: str) -> None:
    assert len(answered(tmp_path, kind, WORDS, "bidia")) == 1


def test_whoever_names_the_tokenizer_knows_it(tmp_path: Path) -> None:
    assert len(answered(tmp_path, "bart", OTHERS, "bidia", is_told=True)) == 1


def test_tokens_that_no_model_reads_and_special_ones_may_differ() -> None:
    one, other = (wrapped(tokenizer_of(WORDS), is_encoder_decoder=True) for _ in range(2))
    size = len(one)
    one.add_tokens(["<one>"])
    other.add_tokens(["<other>"])
    config, larger = (tiny_config("bart", vocab_size=size + more) for more in (0, 1))

    check_same_ids(config, config, (one, other))
    with pytest.raises(SettingsError, match=rf": {size} is '<one>' in the bart model and '<other>' in the "):
        check_same_ids(larger, larger, (one, other))
    one.add_special_tokens({"additional_special_tokens": ["<one>"]})
    check_same_ids(larger, larger, (one, other))


def test_where_nothing_lies_beside_a_model_nothing_is_known(tmp_path: Path) -> None:
    assert tokenizer_beside("") is None
    assert tokenizer_beside(str(tmp_path)) is None
    (tmp_path / "tokenizer.json").write_text("{")
    assert tokenizer_beside(str(tmp_path / ".")) is None
