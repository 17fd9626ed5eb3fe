"""What training may start from, and what it may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import BertConfig, PreTrainedTokenizerFast

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import InputError, SettingsError
from bidibeam.models.huggingface.bases import open_base, wrap_tokenizer
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq
from tests.unit.models.huggingface.tiny import FAMILIES, tiny_config, tiny_model, write_config


def opened(base: Path | str, data: PreparedData, direction: str = "regular", **options: Any) -> Any:
    return open_base(str(base), direction, **{"tokenizer": None, "data": data, "seed": 0, **options})


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_fresh_model_is_made_for_the_tokenizer_of_the_data(
    kind: str, copies: PreparedData, tmp_path: Path
) -> None:
    base = opened(write_config(tmp_path, kind, vocab_size=5), copies)

    config = base.model.config
    assert base.is_fresh
    assert config.vocab_size == copies.tokenizer.vocabulary_size == len(base.tokenizer)
    assert base.model.get_input_embeddings().weight.shape[0] == config.vocab_size
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (0, 2, 3)
    assert base.model.generation_config.eos_token_id == 3
    if config.is_encoder_decoder:
        assert base.model.generation_config.decoder_start_token_id == 2
        assert base.model.generation_config.forced_eos_token_id is None


def test_a_wrapped_tokenizer_gives_the_same_ids(copies: PreparedData) -> None:
    texts = ["red cat !", "Unknown, words?", "dog"]
    expected = copies.tokenizer.encode_batch(texts)

    assert wrap_tokenizer(copies.tokenizer, is_encoder_decoder=False)(texts).input_ids == expected
    assert wrap_tokenizer(copies.tokenizer, is_encoder_decoder=True)(texts).input_ids == [
        [*e, 3] for e in expected
    ]
    assert wrap_tokenizer(copies.tokenizer, is_encoder_decoder=True).decode(expected[0]) == "red cat !"


def test_the_tokenizer_of_the_base_or_another_may_be_used(copies: PreparedData, tmp_path: Path) -> None:
    base = write_config(tmp_path / "base", "bart")
    other = wrap_tokenizer(copies.tokenizer, is_encoder_decoder=True)
    other.add_tokens(["more", "tokens"])
    other.save_pretrained(tmp_path / "tokenizer")

    named = opened(base, copies, tokenizer=str(tmp_path / "tokenizer"))
    of_data = opened(base, copies, tokenizer=str(copies.path))
    other.save_pretrained(base)
    own = opened(base, copies)

    size = copies.tokenizer.vocabulary_size
    assert [each.model.config.vocab_size for each in (named, of_data, own)] == [size + 2, size, size + 2]
    assert isinstance(named.tokenizer, PreTrainedTokenizerFast)


def test_weights_are_loaded_and_joined(copies: PreparedData, tmp_path: Path) -> None:
    tiny_model("bart").save_pretrained(tmp_path)
    wrap_tokenizer(copies.tokenizer, is_encoder_decoder=True).save_pretrained(tmp_path)

    base, both = opened(tmp_path, copies, "reverse"), opened(tmp_path, copies, "both")

    assert not base.is_fresh
    assert base.model.config.bidibeam_direction == "reverse"
    assert isinstance(both.model, BidirectionalSeq2Seq)
    assert both.model.config.special_ids == [0, 2, 3]
    one, other = base.model.state_dict(), both.model.reverse.state_dict()
    assert all(one[name].equal(other[name]) for name in one)


def refused(error: type[Exception], message: str, *args: Any, **options: Any) -> None:
    with pytest.raises(error, match=message):
        opened(*args, **options)


def test_a_base_that_is_not_there_is_named(
    copies: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    message = (
        r"^The base 'no/such' is neither a folder, nor a config file, nor a model on the Hugging Face Hub"
    )
    refused(InputError, message, "no/such", copies)
    (tmp_path / "killed" / "training").mkdir(parents=True)
    (tmp_path / "killed" / "training" / "started.json").write_text("{}")
    refused(InputError, r"^The training in .*killed is unfinished: ", str(tmp_path / "killed"), copies)
    refused(
        InputError, r"has no config\.json: name a folder that has one, or a Hub model\.$", tmp_path, copies
    )


def test_a_hub_out_of_reach_is_said_at_once(
    copies: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("No route to host")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    for loader in ("AutoConfig", "AutoTokenizer"):
        monkeypatch.setattr(f"transformers.{loader}.from_pretrained", lambda name: pytest.fail(name))

    refused(InputError, r"^There is no folder nothere, .* a base of that name, cannot be", "nothere", copies)
    base = write_config(tmp_path, "bart")
    message = (
        r"^There is no folder nothere, .* a tokenizer of that name, cannot be reached \(No route to host"
    )
    refused(InputError, message, base, copies, tokenizer="nothere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"config\.json is no model's config: it must be a JSON object with a model_type, such as bart"),
        ("[]", r"config\.json is no model's config"),
        ("{}", r"config\.json is no model's config"),
        (
            '{"model_type": "nonsense"}',
            r"config\.json has the model_type 'nonsense', which transformers does not",
        ),
    ],
)
def test_a_config_that_is_none_is_named(
    text: str, message: str, copies: PreparedData, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(text)

    refused(InputError, message, tmp_path / "config.json", copies)
    refused(InputError, message, tmp_path, copies)


def test_a_model_that_writes_no_text_is_refused(copies: PreparedData, tmp_path: Path) -> None:
    config = json.loads(BertConfig().to_json_string())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "vit"}))

    refused(
        InputError, r"is a vit model, which is neither an encoder-decoder nor a decoder", tmp_path, copies
    )


def test_directions_that_do_not_go_with_the_base_are_refused(copies: PreparedData, tmp_path: Path) -> None:
    gpt2 = write_config(tmp_path / "gpt2", "gpt2")
    joint = BidirectionalSeq2Seq.from_encoder_decoder(tiny_config("bart"))
    joint.save_pretrained(tmp_path / "joint")

    refused(
        SettingsError,
        r"^Direction both shares an encoder, and .* is a gpt2 model, which",
        gpt2,
        copies,
        "both",
    )
    refused(SettingsError, r"holds both directions: train it with direction both", tmp_path / "joint", copies)


def test_tokenizers_that_do_not_fit_are_refused(copies: PreparedData, tmp_path: Path) -> None:
    tiny_model("bart", vocab_size=10, pad_token_id=0, eos_token_id=3).save_pretrained(tmp_path)

    refused(InputError, r"has weights but no tokenizer: name its tokenizer\.$", tmp_path, copies)
    refused(
        SettingsError,
        r"^The tokenizer has ids up to 14, and the weights of .* know only 10 tokens\. Name a tokenizer that",
        tmp_path,
        copies,
        tokenizer=str(copies.path),
    )
    (tmp_path / "none").mkdir()
    refused(
        InputError,
        r"^There is no tokenizer in .*none \(.+\): name one, a folder or a model",
        tmp_path,
        copies,
        tokenizer=str(tmp_path / "none"),
    )


def test_damaged_weights_are_named(copies: PreparedData, tmp_path: Path) -> None:
    tiny_model("bart").save_pretrained(tmp_path)
    wrap_tokenizer(copies.tokenizer, is_encoder_decoder=True).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"half of")

    refused(InputError, r"^The weights of .* cannot be loaded \(.+\)\.$", tmp_path, copies)
