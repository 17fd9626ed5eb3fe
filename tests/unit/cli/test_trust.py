"""Code that a folder brings, pickles, adapters, and text that would command a terminal: none of it runs."""

from __future__ import annotations

import ast
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bidibeam.cli.main import load_command
from bidibeam.data.prepared import PreparedData
from bidibeam.hf import load_hf_decoder
from tests.unit.cli.calls import called, refused, write_lines
from tests.unit.models.huggingface.folders import write_joint, write_model
from tests.unit.models.huggingface.tiny import prepared, write_config

CODE = """
from pathlib import Path
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

(Path({folder!r}) / "ran").touch()

class Config(BartConfig):
    model_type = "evil"

class Model(BartForConditionalGeneration):
    config_class = Config

class Words(PreTrainedTokenizerFast):
    pass
"""
CLASSES = {"AutoConfig": "evil.Config"} | {
    f"AutoModelFor{kind}LM": "evil.Model" for kind in ("Causal", "Seq2Seq")
}
SAID = "which runs only where --trust-remote-code is given: read the code first"
YES = "yes\nred cat\n"
"""What transformers would take for consent, and a source."""
CALLS = {
    "decode": "decode {model} - --strategy vbs",
    "decode --regular": "decode --regular {model} --strategy vbs",
    "decode --reverse": "decode --reverse {model} --regular {model}",
    "chat": "chat {model} --strategy vbs",
    "tune": "tune {model} --data {data}",
    "score": "score {lists} --model {model} --direction regular",
    "export": "export {model} --to ctranslate2 --out {out}",
    "reproduce": "reproduce --model {model} --data {data} --out {out}",
    "train --base": "train {data} --base {model} --out {out}",
    "train --tokenizer": "train {data} --base {config} --tokenizer {model} --out {out}",
}


def change(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def with_code(folder: Path) -> Path:
    """The folder, with code that leaves a file there when it runs."""
    (folder / "evil.py").write_text(CODE.format(folder=str(folder)))
    return folder


def elsewhere(folder: Path) -> dict[str, str]:
    """The classes as another folder's, so that a part of a config finds them."""
    return {name: f"{folder}--{place}" for name, place in CLASSES.items()}


def write_own_config(folder: Path) -> Path:
    change(write_model(folder, "bart") / "config.json", auto_map=CLASSES, model_type="evil")
    return with_code(folder)


def write_own_network(folder: Path) -> Path:
    change(write_model(folder, "bart") / "config.json", auto_map=CLASSES, model_type="vit")
    return with_code(folder)


def write_own_tokenizer(folder: Path) -> Path:
    file = write_model(folder, "llama") / "tokenizer_config.json"
    change(file, tokenizer_class="Words", auto_map={"AutoTokenizer": ["evil.Words", None]})
    return with_code(folder)


def write_own_part(folder: Path) -> Path:
    file = write_joint(folder) / "config.json"
    base = json.loads(file.read_text())["base"]
    change(file, base={**base, "model_type": "bert", "auto_map": elsewhere(folder)})
    return with_code(folder)


def write_own_decoder(folder: Path) -> Path:
    config = {"model_type": "encoder-decoder", "is_encoder_decoder": True, "encoder": {"model_type": "bert"}}
    decoder = {"model_type": "vit", "auto_map": elsewhere(folder)}
    (write_model(folder, "bart") / "config.json").write_text(json.dumps({**config, "decoder": decoder}))
    return with_code(folder)


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where transformers copies code to."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepared(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def own_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_own_config(tmp_path_factory.mktemp("own") / "config")


@pytest.fixture(scope="module")
def own_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_own_tokenizer(tmp_path_factory.mktemp("own") / "tokenizer")


def words_of(call: str, model: Path, data: PreparedData, tmp_path: Path) -> list[str]:
    """A call of `CALLS` on a model."""
    lists = write_lines(tmp_path / "lists.jsonl", {"source": "red cat", "regular": [{"text": "red"}]})
    files = {"model": model, "data": data.path, "lists": lists, "out": tmp_path / "out"}
    if "{config}" in CALLS[call]:
        files["config"] = write_config(tmp_path / "base", "bart")
    return CALLS[call].format(**files).split()


@pytest.mark.parametrize(
    ("call", "what"),
    [*((call, "own_tokenizer") for call in CALLS), *((call, "own_config") for call in [*CALLS][:-1])],
)
def test_no_command_runs_code_or_asks(
    call: str, what: str, request: pytest.FixtureRequest, pairs: PreparedData, tmp_path: Path
) -> None:
    model: Path = request.getfixturevalue(what)

    sentence = refused(*words_of(call, model, pairs, tmp_path), typed=YES)

    assert SAID in sentence
    assert not (model / "ran").exists()
    assert not (tmp_path / "out" / "config.json").exists()


@pytest.mark.parametrize("call", ["decode --regular", "train --base"])
def test_nor_that_of_a_network(call: str, pairs: PreparedData, tmp_path: Path) -> None:
    model = write_own_network(tmp_path / "model")

    assert SAID in refused(*words_of(call, model, pairs, tmp_path), typed=YES)
    assert not (model / "ran").exists()


@pytest.mark.parametrize("write", [write_own_part, write_own_decoder])
@pytest.mark.parametrize("trust", [(), ("--trust-remote-code",)])
@pytest.mark.parametrize("call", ["decode --regular", "train --base"])
def test_nor_that_of_a_part_of_a_model(
    call: str, trust: tuple[str, ...], write: Any, pairs: PreparedData, tmp_path: Path
) -> None:
    model, is_joint = write(tmp_path / "model"), write is write_own_part
    direction = ("--direction", "both") if is_joint and "train" in call else ()

    sentence = refused(*words_of(call, model, pairs, tmp_path), *direction, *trust, typed=YES)

    assert "brings Python code, which transformers does not run even where --trust-remote-code" in sentence
    assert not (model / "ran").exists()


def test_the_first_source_is_answered_where_the_code_is_not_needed(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "bart")
    words = ("decode", model, "--strategy", "vbs", "--max-length", "4")
    expected = called(*words, typed=YES).replies
    change(with_code(model) / "config.json", auto_map=CLASSES)

    assert called(*words, "-", typed=YES).replies == expected
    assert len(expected) == 2
    assert not (model / "ran").exists()


def test_a_process_of_its_own_runs_no_code_whatever_is_typed(own_config: Path) -> None:
    words = [sys.executable, "-m", "bidibeam", "decode", "--regular", str(own_config), "--strategy", "vbs"]
    how: Any = {"input": YES, "capture_output": True, "text": True, "timeout": 300}

    done = subprocess.run(words, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"}, **how)

    assert (done.returncode, done.stdout, (own_config / "ran").exists()) == (1, "", False)
    assert SAID in done.stderr


def test_code_that_is_trusted_runs(pairs: PreparedData, tmp_path: Path) -> None:
    model = write_own_config(tmp_path / "model")

    for name in ("decode --regular", "score"):
        words = (*words_of(name, model, pairs, tmp_path), "--trust-remote-code")
        assert (called(*words, typed=YES).status, (model / "ran").exists()) == (0, True)
    assert load_hf_decoder(model, strategy="vbs", trust_remote_code=True)

    (model / "ran").unlink()
    told = "Direction both is made of transformers' own networks"
    words = (*words_of("train --base", model, pairs, tmp_path), "--trust-remote-code")
    assert told in refused(*words, "--direction", "both")
    call = called("train", pairs.path, "--out", tmp_path / "other", "--trust-remote-code")
    assert (call.status, "--trust-remote-code goes with --base" in call.told) == (2, True)


@pytest.mark.parametrize(
    ("call", "holds_code"), [*((call, True) for call in [*CALLS][:-1]), ("decode", False)]
)
def test_pickled_weights_are_not_read(
    call: str, holds_code: bool, pairs: PreparedData, tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model", "bart")
    weights: dict[str, Any] = load_file(model / "model.safetensors")
    if holds_code:
        weights["model.shared.weight"] = _Touch(model / "ran")
    (model / "model.safetensors").unlink()
    torch.save(weights, model / "pytorch_model.bin")

    told = refused(*words_of(call, model, pairs, tmp_path), typed=YES)

    assert "has no weights as safetensors, and pickles (pytorch_model.bin) are not read" in told
    assert not (model / "ran").exists()


@pytest.mark.parametrize("name", ["tf_model.h5", "flax_model.msgpack", "x.safetensors.bin"])
def test_a_base_whose_weights_are_not_read_is_not_taken_for_a_config_alone(
    name: str, pairs: PreparedData, tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model", "bart")
    (model / "model.safetensors").rename(model / name)

    told = refused(*words_of("train --base", model, pairs, tmp_path))

    assert "has no weights as safetensors" in told


@pytest.mark.parametrize("name", ["weights.bin", "../other/model.safetensors", "/model.safetensors", None])
def test_an_index_names_safetensors_of_its_own_folder(name: str | None, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "bart")
    weights = load_file(model / "model.safetensors")
    torch.save(weights, model / "weights.bin")
    (model / "model.safetensors").rename(model / "part.safetensors")

    def refer(to: str | None) -> None:
        index = {"metadata": {}, "weight_map": None if to is None else dict.fromkeys(weights, to)}
        (model / "model.safetensors.index.json").write_text(json.dumps(index))

    refer("part.safetensors")
    assert called("decode", model, "-", "--strategy", "vbs", typed=YES).status == 0
    refer(name)
    assert "are not read, since a pickle can run code" in refused("decode", model, "-", "--strategy", "vbs")


class _Touch:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("call", ["decode", "train --base", "info {model}"])
def test_an_adapter_never_fetches_its_base(
    call: str, is_whole: bool, pairs: PreparedData, tmp_path: Path
) -> None:
    base, folder = write_own_config(tmp_path / "base"), tmp_path / "adapter"
    folder.mkdir()
    if is_whole:
        write_model(folder, "bart")
    settings = {"peft_type": "LORA", "base_model_name_or_path": str(base)}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    words = words_of(call, folder, pairs, tmp_path) if call in CALLS else ["info", str(folder)]

    assert "holds an adapter of peft, and the base that it names is not fetched" in refused(*words, typed=YES)
    assert not (base / "ran").exists()


def test_transformers_loaders_are_called_in_one_place_and_always_told_whom_to_trust() -> None:
    root = Path(__file__).parents[3]
    calls = []
    for folder in ("src", "custom_generate", "benchmarks"):
        for file in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                name = getattr(getattr(node, "func", None), "attr", None)
                if isinstance(node, ast.Call) and name in ("from_pretrained", "from_config"):
                    calls.append((file.name, [keyword.arg for keyword in node.keywords]))

    assert {name for name, _ in calls} == {"opening.py", "joint.py"}
    assert all("trust_remote_code" in given for _, given in calls)


HOSTILE = "\x1b[31mred\x1b]0;title\x07 cat\x9b2J \u202ebackwards\x7f\u2067"
HARMLESS = "[31mred]0;title cat2J backwards"


def test_text_of_a_file_commands_no_terminal_and_reaches_pipes_unchanged(tmp_path: Path) -> None:
    lists = write_lines(tmp_path / "lists.jsonl", {"regular": [{"text": HOSTILE}]})
    words = [sys.executable, "-m", "bidibeam", "rerank", str(lists), "--strategy", "longest"]
    master, terminal = pty.openpty()
    subprocess.run(words, check=True, stdout=terminal, stderr=subprocess.DEVNULL, timeout=300)
    os.close(terminal)

    assert called(*words[3:]).out == f"{HOSTILE}\n"
    assert os.read(master, 10_000).decode() == f"{HARMLESS}\r\n"
    os.close(master)


def test_tables_and_messages_hold_no_control_characters(tmp_path: Path, toy_run: Path) -> None:
    model = write_model(tmp_path / "model", "bart")
    (model / "bidibeam.json").write_text(json.dumps({"base": HOSTILE}))
    lists = write_lines(tmp_path / "lists.jsonl", {"id": HOSTILE, "regular": [{"text": "a"}]})

    assert HARMLESS in called("info", model).told
    assert HARMLESS in refused("score", write_lines(tmp_path / f"{HOSTILE}.jsonl", "{"), "--model", toy_run)
    assert "\x1b" not in called("score", lists, "--model", toy_run).err


def test_help_says_where_a_similarity_is_imported_from() -> None:
    for name in ("decode", "rerank", "chat"):
        (option,) = (each for each in load_command(name).params if each.name == "similarity")
        assert "imported from the current folder" in getattr(option, "help", "")


@pytest.mark.parametrize("name", ["_attn_implementation", "attn_implementation"])
def test_kernels_of_the_hub_are_code_too(name: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", "bart")
    change(model / "config.json", **{name: "somebody/kernels@main"})

    assert SAID in refused("decode", model, "--strategy", "vbs", typed=YES)
