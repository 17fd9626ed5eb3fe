from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from bidibeam.data.tokenization import Tokenizer
from bidibeam.errors import InputError, SettingsError
from bidibeam.hf import check_pair, check_same_tokens, direction_of, mark
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.bases import wrap_tokenizer
from bidibeam.models.huggingface.configs import HuggingFaceFolder, check_same_ids
from tests.unit.models.huggingface.tiny import tiny_config, tiny_model


def config_of(direction: Direction | None, name: str = "") -> Any:
    config = tiny_config("bart")
    config.name_or_path = name
    if direction is not None:
        mark(config, direction)
    return config


def tokenizer(*texts: str) -> Any:
    return wrap_tokenizer(Tokenizer.train(texts, kind="word", vocabulary_size=50), is_encoder_decoder=True)


@pytest.mark.parametrize("direction", Direction)
def test_the_mark_survives_saving_and_loading(direction: Direction, tmp_path: Path) -> None:
    model = tiny_model("bart")
    mark(model, direction)

    model.save_pretrained(tmp_path)

    assert direction_of(AutoModelForSeq2SeqLM.from_pretrained(tmp_path)) is direction
    assert direction_of(AutoConfig.from_pretrained(tmp_path)) is direction


def test_a_regular_and_a_reverse_model_are_a_pair() -> None:
    check_pair(config_of(None), config_of(Direction.REVERSE))
    check_same_ids(config_of(None), config_of(Direction.REVERSE))


@pytest.mark.parametrize(
    ("regular", "reverse", "message"),
    [
        ("reverse", None, r"^The models are swapped: a, given as the regular one, writes in reverse, and"),
        (None, "regular", r"^Both a and b are regular models, and a pair .* --direction reverse`;"),
        ("reverse", "reverse", r"^Both a and b are reverse models, and a pair .* --direction regular`;"),
        ("backwards", None, r"^The config of a has bidibeam_direction 'backwards'; it must be regular or"),
    ],
)
def test_other_models_are_none(regular: str | None, reverse: str | None, message: str) -> None:
    configs = config_of(None, "a"), config_of(None, "b")
    for config, direction in zip(configs, (regular, reverse), strict=True):
        config.bidibeam_direction = direction

    with pytest.raises(InputError, match=message):
        check_pair(*configs)


def test_one_of_several_end_tokens_is_enough() -> None:
    regular, reverse = tiny_model("bart", eos_token_id=2), tiny_model("bart", eos_token_id=2)
    regular.generation_config.eos_token_id = [9, 2]

    check_same_ids(regular, reverse)
    reverse.generation_config.eos_token_id = 3
    with pytest.raises(SettingsError, match=r"ids that generate is given: eos_token_id is 2 in the bart mod"):
        check_same_ids(regular, reverse)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("t5", {}, ": decoder_start_token_id is 2 in the bart model and 0 in the t5 model"),
        ("gpt2", {}, ": the bart model is an encoder-decoder and the gpt2 model a decoder alone"),
        ("bart", {"vocab_size": 41}, ": the bart model knows 40 tokens and the bart model 41"),
        ("bart", {"eos_token_id": 3}, ": eos_token_id is 2 in the bart model and 3 in the bart model"),
    ],
)
def test_models_of_other_ids_are_refused(kind: str, changes: dict[str, Any], message: str) -> None:
    other = tiny_config(kind, **{"eos_token_id": 2, **changes})

    with pytest.raises(SettingsError, match=message):
        check_same_ids(tiny_config("bart", eos_token_id=2, decoder_start_token_id=2), other)


def test_the_first_token_that_differs_is_named() -> None:
    check_same_tokens(tokenizer("a b"), tokenizer("b a"))
    with pytest.raises(SettingsError, match=r": the token 'c' has no id in one and id 6 in the other\."):
        check_same_tokens(tokenizer("a b"), tokenizer("a b c", "a b", "a"))
    other = tokenizer("a b")
    other.pad_token = "</s>"
    with pytest.raises(SettingsError, match=r"tokenizers: pad_token_id is 0 in one and 3 in the other\."):
        check_same_tokens(tokenizer("a b"), other)


def test_tokens_that_no_model_reads_and_special_ones_may_differ() -> None:
    one, other = (tokenizer("red blue cat dog") for _ in range(2))
    size = len(one)
    one.add_tokens(["<one>"])
    other.add_tokens(["<other>"])
    config, larger = (tiny_config("bart", vocab_size=size + more) for more in (0, 1))

    check_same_ids(config, config, (one, other))
    with pytest.raises(SettingsError, match=rf": {size} is '<one>' in the bart model and '<other>' in the "):
        check_same_ids(larger, larger, (one, other))
    one.add_special_tokens({"additional_special_tokens": ["<one>"]})
    check_same_ids(larger, larger, (one, other))


def test_notes_of_a_training_that_are_damaged_are_not_shown(tmp_path: Path) -> None:
    tiny_model("bart").save_pretrained(tmp_path)
    (tmp_path / "bidibeam.json").write_text('{"base": "b", "settings": 10, "data": [1], "steps": 3}')

    described = HuggingFaceFolder.describe(tmp_path)

    assert described["base"] == "b"
    assert not {"data", "training"} & described.keys()
