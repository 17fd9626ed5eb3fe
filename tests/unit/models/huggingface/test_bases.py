"""What training may start from, and what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import InputError, SettingsError
from bidibeam.models.huggingface.bases import open_base, wrap_tokenizer
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq
from tests.unit.models.huggingface.tiny import FAMILIES, tiny_model, write_config


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


def test_weights_that_a_base_lacks_are_not_made_up(copies: PreparedData, tmp_path: Path) -> None:
    tiny_model("bart").save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.decoder.layers.0.fc1.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})

    with pytest.raises(InputError, match=r"lack 'model\.decoder\.layers\.0\.fc1\.weight': save the model"):
        opened(tmp_path, copies, tokenizer=str(copies.path))


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


NO_CONFIG = r"config\.json is no model's config: it must be a JSON object with a model_type, such as bart"
NO_BASES: list[tuple[str, dict[str, str], type[Exception], str]] = [
    ("no/such", {}, InputError, "^The base 'no/such' is neither a folder, nor a config file, nor a model on"),
    ("killed", {}, InputError, "^The training in killed is unfinished: "),
    ("empty", {}, InputError, r"has no config\.json: name a folder that has one, or a Hub model\.$"),
    ("half", {}, InputError, NO_CONFIG),
    ("half/config.json", {}, InputError, NO_CONFIG),
    ("list", {}, InputError, NO_CONFIG),
    ("untyped", {}, InputError, NO_CONFIG),
    ("nonsense", {}, InputError, r"config\.json has the model_type 'nonsense', which transformers does not"),
    ("vit", {}, InputError, "is a vit model, which is neither an encoder-decoder nor a decoder"),
    ("gpt2-config", {"direction": "both"}, SettingsError, "^Direction both shares .* is a gpt2 model, which"),
    ("joint", {}, SettingsError, "holds both directions: train it with direction both"),
    ("bare", {}, InputError, r"has weights but no tokenizer: name its tokenizer\.$"),
    ("bare", {"tokenizer": "small"}, SettingsError, "to 15, and the weights of bare know only 10 tokens"),
    (
        "bare",
        {"tokenizer": "empty"},
        InputError,
        r"^There is no tokenizer in empty \(.+\): name one, a folder",
    ),
    ("typeless", {}, InputError, r"typeless.* cannot be (used|read) \("),
    ("unfilled", {"direction": "both"}, InputError, "^The weights of unfilled lack "),
    ("damaged", {}, InputError, r"^The weights of damaged cannot be loaded \(.+\)\.$"),
]


@pytest.mark.parametrize(("base", "options", "error", "message"), NO_BASES)
def test_what_is_no_base_is_named(
    unusable: Path,
    copies: PreparedData,
    monkeypatch: pytest.MonkeyPatch,
    base: str,
    options: dict[str, str],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(unusable)

    with pytest.raises(error, match=message):
        opened(base, copies, **options)


def test_a_hub_out_of_reach_is_said_at_once(
    copies: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("No route to host")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    for loader in ("AutoConfig", "AutoTokenizer"):
        monkeypatch.setattr(f"transformers.{loader}.from_pretrained", lambda name: pytest.fail(name))
    base = write_config(tmp_path, "bart")

    with pytest.raises(InputError, match=r"^There is no folder nothere, .* a base of that name, cannot be"):
        opened("nothere", copies)
    with pytest.raises(InputError, match=r"a tokenizer of that name, cannot be reached \(No route to host"):
        opened(base, copies, tokenizer="nothere")
