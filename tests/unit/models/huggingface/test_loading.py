"""Models that cannot be loaded, or not together, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import HFValidationError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from bidibeam.api import load_decoder
from bidibeam.data.tokenization import Tokenizer
from bidibeam.errors import InputError, RunError, ScorerError, SettingsError
from bidibeam.hf import HFGenerator, load_hf_decoder, load_models, load_pair
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.huggingface.configs import METADATA_FILE
from bidibeam.search.settings import SearchSettings
from tests.conftest import WORDS
from tests.unit.models.huggingface.folders import tokenizer_of, write_model, write_pair


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_pair(tmp_path_factory.mktemp("gpt2"), "gpt2")


LACKS = "needs the reverse direction, and gpt2-regular has only: regular"
NO_PAIRS: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("0 0", {}, InputError, "^Both .*gpt2-regular and .*gpt2-regular are regular models"),
    ("1 0", {}, InputError, "^The models are swapped: .*gpt2-reverse, given as the regular"),
    ("1 -", {}, InputError, "^gpt2-reverse was given as the regular model, but it is a reverse model"),
    ("- 0", {}, InputError, "^gpt2-regular was given as the reverse model, but it is a reg"),
    ("- -", {}, SettingsError, r"^No model was named: give a regular model, a reverse model, or both\.$"),
    ("0 -", {"strategy": "bidia"}, RunError, f"^The strategy bidia {LACKS}"),
    ("0 -", {"strategy": "bidis"}, RunError, f"^The strategy bidis {LACKS}"),
    ("0 -", {"strategy": "reverse-vbs"}, RunError, f"^The strategy reverse-vbs {LACKS}"),
    ("- 1", {"strategy": "vbs"}, RunError, "^The strategy vbs needs the regular direction"),
    ("0 1", {"device": "abacus"}, SettingsError, "^There is no device 'abacus' here that can"),
    ("0 1", {"dtype": "int3"}, SettingsError, "^`dtype` is 'int3'; choose one of: float32, bfl"),
    (
        "0 1",
        {"settings": SearchSettings(beam_size=1)},
        SettingsError,
        "^beam_size must be at least 2 for bid",
    ),
    ("0 1", {"settings": SearchSettings(max_length=64)}, SettingsError, "^gpt2-regular has 64 positions,"),
    ("0 1", {"strategy": "bidia bleu_t tuned"}, SettingsError, "^The system 'bidia bleu_t tuned' must be"),
]
"""Which of the pair is given as the regular and as the reverse model, how, and what is said."""


@pytest.mark.parametrize(("given", "options", "error", "message"), NO_PAIRS)
def test_models_and_settings_that_do_not_serve_are_refused(
    gpt2: tuple[Path, Path], given: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    regular, reverse = (None if which == "-" else gpt2[int(which)] for which in given.split())

    with pytest.raises(error, match=message):
        load_hf_decoder(regular, reverse, **options)


def test_one_model_serves_where_one_is_enough(gpt2: tuple[Path, Path]) -> None:
    regular, reverse = gpt2

    assert len(load_hf_decoder(None, reverse, "reverse-vbs").decode(["red"])[0])
    with pytest.raises(RunError, match=r"^There is no reverse model beside gpt2-regular"):
        HFGenerator(load_models(regular), {Direction.REGULAR: SearchSettings()}, judged=True)


def test_different_tokenizers_compare_texts_but_not_tokens(tmp_path: Path) -> None:
    regular = write_model(tmp_path / "regular", "bart")
    other = tokenizer_of([*WORDS, "more"])
    reverse = write_model(tmp_path / "reverse", "t5", Direction.REVERSE, tokenizer=other)

    with pytest.raises(SettingsError, match=r"^The two models have different tokenizers: the token "):
        load_hf_decoder(regular, reverse, "bidis")
    decoder = load_hf_decoder(regular, reverse, "bidia", score_other=True)
    (answer,) = decoder.answers([Beams("1", "red cat")])

    assert answer.ranking.entries
    assert all(one.other_log_prob is None for one in answer.beams.regular)


NO_MODELS = {
    "no/such": r"^The model 'no/such' is neither a folder nor on the Hugging Face Hub \(",
    "file": "^file is a file: name a folder that `save_pretrained` wrote, or a Hub",
    "empty": r"^empty has no config\.json: name a folder that",
    "bart-config": "^bart-config has a config but no weights: train it first, by `bidibeam train DATA",
    "nonsense": r"nonsense' cannot be read \(",
    "killed": r"killed is unfinished: `bidibeam train DATA --out .*killed --resume` goes on\.$",
    "bare": "^There is no tokenizer in bare: save it beside the model, with tokenizer",
    "odd": r"^The tokenizer of odd cannot be loaded \(.*\): save it beside",
    "small": "^The tokenizer of small has ids up to 15, and its weights know only 6 tokens: they do not",
    "deep": r"^The weights of deep lack 'model\.decoder\.layers\.1\..*' and \d+ more: they are those of",
    "damaged": r"^The weights of damaged cannot be loaded \(",
    "unfilled": r"^The weights of unfilled lack '.*layernorm_embedding\.weight'",
    "typeless": r"typeless.* cannot be (used|read) \(",
    "endless": r"^The tokenizer of endless cannot be used \(",
    "tall": r"^tall has encoder_layers 10,000,000,000,000,000,000; no network has more than 10,000 layers\.$",
    "panicking": r"^The tokenizer of panicking cannot be used \(no entry found for key\)",
    "vit": "vit is a vit model, which is neither an encoder-d",
}


@pytest.mark.parametrize("name", NO_MODELS)
def test_what_is_no_model_is_named(unusable: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(unusable)

    with pytest.raises(InputError, match=NO_MODELS[name]):
        load_hf_decoder(name)


def test_a_run_is_no_hugging_face_model(toy_run: Path) -> None:
    with pytest.raises(
        InputError, match="is one of bidibeam's own runs, not a Hugging Face model: `bidibeam"
    ):
        load_hf_decoder(toy_run)


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
    with pytest.raises(InputError, match=message):
        load_hf_decoder("nothere")
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

    for name in ("known", "mistyped", "cached"):
        if name == "cached":
            cache = "bidibeam.models.huggingface.loading.try_to_load_from_cache"
            monkeypatch.setattr(cache, lambda name, file: f"{name}/{file}")
        with pytest.raises(InputError, match=f"^The model '{name}' is neither a folder nor on the Hugging"):
            load_hf_decoder(name)

    assert loaded == ["known", "mistyped", "cached"]
    assert len(answers) == 1


def test_a_model_that_fails_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no such tensor. Look elsewhere")

    folder = write_model(tmp_path / "bart", "bart")
    monkeypatch.setattr("transformers.BartForConditionalGeneration.forward", fail)

    message = r"^bart is a bart model, which cannot be searched here \(no such tensor\); write n-best lists"
    with pytest.raises(ScorerError, match=message):
        load_hf_decoder(folder, strategy="vbs")


def test_the_precision_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not every CPU computes in halves.
    monkeypatch.setattr("bidibeam.models.huggingface.loading.check_usable", lambda _: None)
    regular, reverse = write_pair(tmp_path, "bart")
    stored = write_model(tmp_path / "to_half_precision", "bart")
    load_models(stored)[Direction.REGULAR].model.half().save_pretrained(stored)

    asked = load_pair(regular, reverse, dtype="bfloat16")

    assert {loaded.model.dtype for loaded in asked.values()} == {torch.bfloat16}
    assert load_models(stored, device="cpu")[Direction.REGULAR].model.dtype == torch.float32


@pytest.mark.parametrize("rule", [{"min_length": 57}, {"min_new_tokens": 56}])
def test_a_reply_that_may_not_end_in_time_is_refused(tmp_path: Path, rule: dict[str, int]) -> None:
    folder = write_model(tmp_path / "bart", "bart", generation=rule)

    (name,) = rule
    message = f"^The generation config of bart asks by '{name}' for at least 56 tokens, and max_length is 20"
    with pytest.raises(SettingsError, match=message):
        load_hf_decoder(folder, strategy="vbs")
    assert load_hf_decoder(folder, strategy="vbs", settings=SearchSettings(max_length=57))


def test_replies_may_be_as_long_as_those_of_training_by_default(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "bart", "bart")
    (folder / METADATA_FILE).write_text('{"data": {"settings": {"max_response_length": 7}}}')

    signature = dict(load_hf_decoder(folder, strategy="vbs").signature.facts)

    assert signature == dict(load_decoder(folder, "vbs").signature.facts)
    assert signature["max_length"] == "8"  # and an end token


def test_embeddings_of_subwords_are_no_vectors_of_words(tmp_path: Path) -> None:
    pieces = Tokenizer.train([" ".join(WORDS)], kind="bpe", vocabulary_size=270)
    regular, reverse = write_pair(tmp_path, "bart", tokenizer=pieces)

    message = r"^The similarity compares words by their vectors, and bart-regular knows subwords: give a file"
    with pytest.raises(SettingsError, match=message):
        load_hf_decoder(regular, reverse, "bidia wmd_t")
    assert load_pair(regular, reverse)


def test_an_empty_prompt_needs_a_token(tmp_path: Path) -> None:
    loaded = load_models(write_model(tmp_path / "gpt2", "gpt2"))[Direction.REGULAR]
    loaded.tokenizer.bos_token = loaded.tokenizer.eos_token = None

    with pytest.raises(InputError, match=r"^The source '' has no token for gpt2, whose tokenizer has nei"):
        loaded.encode_sources(["red", ""], [None, None])


def test_a_name_on_the_hub_is_told_by_its_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    local = load_models(write_model(tmp_path / "gpt2", "gpt2"))[Direction.REGULAR]
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    local.model.config._commit_hash = "0123456789abcdef0123"
    told = {"missing_keys": set[str]()}
    monkeypatch.setattr("bidibeam.models.huggingface.opening.has_file", lambda *_: True)
    monkeypatch.setattr(AutoConfig, "from_pretrained", lambda _, **__: local.model.config)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda _, **__: local.tokenizer)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: (local.model, told))

    loaded = load_models("openai-community/gpt2")[Direction.REGULAR]

    assert loaded.label == "openai-community/gpt2@0123456789ab"


@pytest.mark.parametrize("load", [load_models, load_pair])
def test_a_misspelt_option_is_an_error(load: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="devcie"):
        load(tmp_path, devcie="cpu")
