"""`BidiGenerate` sees that two models of one size have other tokens, where tokenizers lie beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from bidibeam.errors import SettingsError
from bidibeam.hf import BidiGenerate
from bidibeam.hf.generate import tokenizer_beside
from bidibeam.hypotheses import Direction
from tests.unit.hf.folders import tokenizer_of, write_model

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


@pytest.mark.parametrize("is_told", [False, True])
@pytest.mark.parametrize("strategy", ["bidia", "bidis"])
@pytest.mark.parametrize("kind", LOADERS)
def test_ids_of_other_words_are_not_shared(tmp_path: Path, kind: str, strategy: str, is_told: bool) -> None:
    with pytest.raises(
        SettingsError, match=r"^The two models cannot share the ids .* is '\w+' in .* and '\w+'"
    ):
        answered(tmp_path, kind, OTHERS, strategy, is_told=is_told)


@pytest.mark.parametrize("kind", LOADERS)
def test_ids_of_the_same_words_are(tmp_path: Path, kind: str) -> None:
    assert len(answered(tmp_path, kind, WORDS, "bidia")) == 1


def test_a_tokenizer_that_has_changed_is_read_again(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot share the ids"):
        answered(tmp_path, "bart", OTHERS, "bidia")

    assert len(answered(tmp_path, "bart", WORDS, "bidia")) == 1


def test_where_nothing_lies_beside_a_model_nothing_is_known(tmp_path: Path) -> None:
    assert tokenizer_beside("") is None
    assert tokenizer_beside(str(tmp_path)) is None
    (tmp_path / "tokenizer.json").write_text("{")
    assert tokenizer_beside(str(tmp_path / ".")) is None
