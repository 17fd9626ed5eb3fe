"""Models that cannot be loaded, or not together, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import HFValidationError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, ViTConfig, ViTModel

from bidibeam.data.tokenization import Tokenizer
from bidibeam.errors import BidibeamError, InputError, RunError, ScorerError, SettingsError
from bidibeam.hf import HFGenerator, load_hf_decoder, load_models, load_pair
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.huggingface.bases import wrap_tokenizer
from bidibeam.search.settings import SearchSettings
from tests.conftest import WORDS
from tests.unit.models.huggingface.folders import tokenizer_of, write_model, write_pair
from tests.unit.models.huggingface.tiny import tiny_model, write_config


def refused(error: type[Exception], message: str, *args: Any, **options: Any) -> None:
    with pytest.raises(error, match=message):
        load_hf_decoder(*args, **options)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_pair(tmp_path_factory.mktemp("gpt2"), "gpt2")


def test_models_and_settings_that_do_not_serve_are_refused(gpt2: tuple[Path, Path]) -> None:
    regular, reverse = gpt2
    needs = "needs the reverse direction, and gpt2-regular has only: regular"

    refused(InputError, r"^Both .*gpt2-regular and .*gpt2-regular are regular models", regular, regular)
    refused(InputError, r"^The models are swapped: .*gpt2-reverse, given as the regular", reverse, regular)
    refused(InputError, r"^gpt2-reverse was given as the regular model, but it is a reverse model", reverse)
    refused(InputError, r"^gpt2-regular was given as the reverse model, but it is a reg", None, regular)
    for strategy in ("bidia", "bidis", "reverse-vbs"):
        refused(RunError, rf"^The strategy {strategy} {needs}", regular, strategy=strategy)
    refused(RunError, r"^The strategy vbs needs the regular direction", None, reverse, "vbs")
    refused(SettingsError, r"^No model was named: give a regular model, a reverse model, or both\.$")
    refused(SettingsError, r"^There is no device 'abacus' here that can", *gpt2, device="abacus")
    refused(SettingsError, r"^`dtype` is 'int3'; choose one of: float32, bfl", *gpt2, dtype="int3")
    how = SearchSettings(beam_size=1)
    refused(SettingsError, r"^beam_size must be at least 2 for bidia, .* not 1\.$", *gpt2, settings=how)
    long = SearchSettings(max_length=64)
    refused(SettingsError, r"^gpt2-regular has 64 positions, too few for a reply of 64", *gpt2, settings=long)
    refused(SettingsError, r"^The system 'bidia bleu_t tuned' must be tuned", *gpt2, "bidia bleu_t tuned")
    assert len(load_hf_decoder(None, reverse, "reverse-vbs").decode(["red"])[0])
    with pytest.raises(RunError, match=r"^There is no reverse model beside gpt2-regular"):
        HFGenerator(load_models(regular), {Direction.REGULAR: SearchSettings()}, judged=True)


def test_different_tokenizers_compare_texts_but_not_tokens(tmp_path: Path) -> None:
    regular = write_model(tmp_path / "regular", "bart")
    other = tokenizer_of([*WORDS, "more"])
    reverse = write_model(tmp_path / "reverse", "t5", Direction.REVERSE, tokenizer=other)

    refused(
        SettingsError, r"^The two models have different tokenizers: the token ", regular, reverse, "bidis"
    )
    decoder = load_hf_decoder(regular, reverse, "bidia", score_other=True)
    (answer,) = decoder.answers([Beams("1", "red cat")])

    assert answer.ranking.entries
    assert all(one.other_log_prob is None for one in answer.beams.regular)


def test_what_is_no_model_is_named(tmp_path: Path, toy_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for file in ("file", "empty/.x", "broken/model.safetensors", "killed/training/started.json"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "broken" / "config.json").write_text('{"model_type": "nonsense"}')
    (tmp_path / "killed" / "training" / "started.json").write_text("{}")
    write_config(tmp_path / "config", "bart")

    message = r"^The model 'no/such' is neither a folder nor on the Hugging Face Hub \("
    refused(InputError, message, "no/such")
    for name, fragment in {
        "file": "file is a file: name a folder that `save_pretrained` wrote, or a Hub",
        "empty": r"empty has no config\.json: name a folder that",
        "config": "config has a config but no weights: train it first, by `bidibeam train DATA",
        "broken": r"broken' cannot be read \(",
        "killed": r"killed is unfinished: `bidibeam train DATA --out .*killed --resume` goes on\.$",
    }.items():
        refused(InputError, fragment, tmp_path / name)
    refused(InputError, r"is one of bidibeam's own runs, not a Hugging Face model: `bidibeam", toy_run)


def test_a_hub_out_of_reach_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def unreachable(_: object, name: str, **__: object) -> None:
        asked.append(name)
        raise ConnectionError("No route to host")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    monkeypatch.setattr(
        "transformers.AutoConfig.from_pretrained", lambda name, **_: pytest.fail(f"{name} is loaded")
    )

    message = (
        r"^There is no folder nothere, and the Hugging Face Hub, where there may be a model of that name, "
        r"cannot be reached \(No route to host\)\.$"
    )
    refused(InputError, message, "nothere")
    assert asked == ["nothere"]


def test_a_name_that_the_hub_knows_or_the_cache_has_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Exception | None] = [None, HFValidationError("a/b/c"), ConnectionError("No route")]
    loaded: list[str] = []

    def answer(*_: object, **__: object) -> None:
        given = answers.pop(0)
        if given is not None:
            raise given

    def load(name: str, **_: object) -> None:
        loaded.append(name)
        raise OSError("enough")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", answer)
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", load)

    for name in ("known", "mistyped"):
        refused(InputError, rf"^The model '{name}' is neither a folder nor on the Hugging Face Hub", name)
    monkeypatch.setattr(
        "bidibeam.models.huggingface.loading.try_to_load_from_cache", lambda name, file: f"{name}/{file}"
    )
    refused(InputError, r"^The model 'cached' is neither", "cached")

    assert loaded == ["known", "mistyped", "cached"]
    assert len(answers) == 1


def test_weights_that_are_damaged_or_of_another_model_are_refused(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "bart", "bart")
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, "decoder_layers": 2}))
    message = r"^The weights of .*bart lack 'model\.decoder\.layers\.1\..*' and \d+ more: they are those of"
    refused(InputError, message, folder)

    (folder / "model.safetensors").write_bytes(b"nothing")
    refused(InputError, r"^The weights of .*bart cannot be loaded \(", folder)


def test_a_tokenizer_must_be_there_and_fit(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    tiny_model("gpt2").save_pretrained(bare)
    refused(InputError, r"^There is no tokenizer in .*bare: save it beside the model, with tokenizer", bare)
    (bare / "tokenizer.json").write_text("{")
    refused(InputError, r"^The tokenizer of .*bare cannot be loaded \(.*\): save it beside", bare)

    small = write_model(tmp_path / "small", "gpt2", vocab_size=6)
    message = r"^The tokenizer of small has ids up to 15, and its weights know only 6 tokens: they do not"
    refused(InputError, message, small)


def saved(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    wrap_tokenizer(tokenizer_of(), is_encoder_decoder=False).save_pretrained(folder)
    return folder


def test_a_model_that_writes_no_text_is_refused(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    vit = ViTModel(ViTConfig(**sizes, image_size=8, patch_size=4))

    refused(InputError, r"vit is a vit model, which is neither an encoder-d", saved(vit, tmp_path / "vit"))


def test_a_model_that_fails_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no such tensor. Look elsewhere")

    folder = write_model(tmp_path / "bart", "bart")
    monkeypatch.setattr("transformers.BartForConditionalGeneration.forward", fail)

    message = r"^bart is a bart model, which cannot be searched here \(no such tensor\); write n-best lists"
    refused(ScorerError, message, folder, strategy="vbs")


CODE = """
from transformers import GPT2Config, GPT2LMHeadModel

class OwnConfig(GPT2Config):
    model_type = "own-gpt2"

class OwnModel(GPT2LMHeadModel):
    config_class = OwnConfig
"""


def test_code_that_a_model_brings_along_runs_only_where_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = write_model(tmp_path / "own", "gpt2")
    (folder / "own.py").write_text(CODE)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own-gpt2", "architectures": ["OwnModel"]}
    config["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps(config))

    with pytest.raises(BidibeamError, match=r"^The model '.*own' cannot be read \("):
        load_models(folder)
    (loaded,) = load_models(folder, trust_remote_code=True).values()
    assert type(loaded.model).__name__ == "OwnModel"


def test_the_precision_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "bidibeam.models.huggingface.loading.check_usable", lambda _: None
    )  # not every CPU computes in halves
    regular, reverse = write_pair(tmp_path, "bart")
    stored = write_model(tmp_path / "to_half_precision", "bart")
    load_models(stored)[Direction.REGULAR].model.half().save_pretrained(stored)

    asked = load_pair(regular, reverse, dtype="bfloat16")

    assert {loaded.model.dtype for loaded in asked.values()} == {torch.bfloat16}
    assert load_models(stored, device="cpu")[Direction.REGULAR].model.dtype == torch.float32


@pytest.mark.parametrize("rule", [{"min_length": 57}, {"min_new_tokens": 56}])
def test_a_reply_that_may_not_end_in_time_is_refused(tmp_path: Path, rule: dict[str, int]) -> None:
    folder = write_model(tmp_path / "bart", "bart", generation=rule)

    message = r"^The generation config of bart asks for at least 56 tokens, and max_length is 20: raise max_"
    refused(SettingsError, message, folder, strategy="vbs")
    assert load_hf_decoder(folder, strategy="vbs", settings=SearchSettings(max_length=57))


def test_embeddings_of_subwords_are_no_vectors_of_words(tmp_path: Path) -> None:
    pieces = Tokenizer.train([" ".join(WORDS)], kind="bpe", vocabulary_size=270)
    regular, reverse = write_pair(tmp_path, "bart", tokenizer=pieces)

    message = r"^The similarity compares words by their vectors, and bart-regular knows subwords: give a file"
    refused(SettingsError, message, regular, reverse, "bidia wmd_t")
    assert load_pair(regular, reverse)


def test_an_empty_prompt_needs_a_token(tmp_path: Path) -> None:
    loaded = load_models(write_model(tmp_path / "gpt2", "gpt2"))[Direction.REGULAR]
    loaded.tokenizer.bos_token = loaded.tokenizer.eos_token = None

    with pytest.raises(
        InputError, match=r"^The source '' has no token for gpt2, whose tokenizer has neither"
    ):
        loaded.pad_sources(["red", ""], [None, None])


def test_a_name_on_the_hub_is_told_by_its_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    local = load_models(write_model(tmp_path / "gpt2", "gpt2"))[Direction.REGULAR]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    local.model.config._commit_hash = "0123456789abcdef0123"
    told = {"missing_keys": set[str]()}
    monkeypatch.setattr(AutoConfig, "from_pretrained", lambda _, **__: local.model.config)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda _, **__: local.tokenizer)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: (local.model, told))

    loaded = load_models("openai-community/gpt2")[Direction.REGULAR]

    assert loaded.label == "openai-community/gpt2@0123456789ab"
