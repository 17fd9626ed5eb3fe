"""What all commands that take a MODEL have in common; info, train, and models that other packages add."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

import bidibeam
from bidibeam import registry
from bidibeam.api.export import export_converted
from bidibeam.data.prepared import PreparedData
from bidibeam.training import state
from tests.unit.cli.calls import called, refused
from tests.unit.models.huggingface.folders import write_joint
from tests.unit.models.huggingface.tiny import write_config


@pytest.mark.parametrize("command", ["decode", "chat", "info", "tune", "export"])
def test_what_is_no_model_is_named(
    command: str, toy_run: Path, toy_data: PreparedData, tmp_path: Path
) -> None:
    flags = ("--out", tmp_path / "out") if command == "export" else ()
    unfinished = tmp_path / "unfinished"
    (unfinished / "training").mkdir(parents=True)
    (unfinished / "training" / "started.json").write_text("{}")
    missing = "is neither the folder of a model" if command == "decode" else f"There is no {tmp_path}"
    (tmp_path / "empty").mkdir()

    for folder, message in (
        (tmp_path / "nowhere", missing),
        (tmp_path / "empty", "is not a run directory: it has no config.json. Give the directory"),
        (tmp_path / "empty", "a Hugging Face model or a CTranslate2 folder."),
        (toy_data.path, "These are prepared data: `bidibeam train` makes a run of them."),
        (toy_run.parent, f"Did you mean {toy_run}?"),
        (unfinished, f"is unfinished: `bidibeam train DATA --out {unfinished} --resume` goes on."),
    ):
        assert message in refused(command, folder, *flags)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["chat", "tune", "export"])
def test_the_regular_model_is_named_once(command: str, toy_run: Path, tmp_path: Path) -> None:
    flags = ("--out", tmp_path / "out") if command == "export" else ()

    call = called(command, toy_run, "--regular", toy_run, *flags)

    assert (call.status, call.out) == (2, "")
    assert f"--regular {toy_run} stands instead of MODEL, not beside {toy_run}." in call.told


def described(model: Path) -> dict[str, Any]:
    metadata: dict[str, Any] = json.loads(called("info", model, "--json").out)
    return metadata


def test_info_describes_a_run(toy_run: Path) -> None:
    call = called("info", toy_run)

    assert (call.status, call.out) == (0, "")
    for word in ("parameters", "regular validation perplexity", "decoder_size", "fingerprint", "batch_size"):
        assert word in call.told
    assert len(call.err.splitlines()) <= 35
    metadata = described(toy_run)
    assert metadata["model"]["decoder_size"] == 32
    assert metadata["vocabulary"] == 15
    assert metadata["progress"]["steps"] > 0
    bundled = called("info", "--json")
    assert json.loads(bundled.out)["data"]["corpus"] == "chitchat"
    assert bundled.told.startswith("No model was named")


def test_info_tells_what_was_recommended_and_by_what(toy_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(toy_run, tmp_path / "run")
    content = {
        "recommended": "bidis",
        "metric": "metric:ser|nrefs:1",
        "sources": 7,
        "search": {"beam_size": 5},
    }
    (run / "tuned.json").write_text(json.dumps({"format_version": 2, "options": {}, **content}))

    shown = " ".join(called("info", run).told.split())
    assert "recommended bidis metric ser beam size 5 validation sources 7" in shown
    (run / "tuned.json").write_text("{")
    assert "recommended" not in called("info", run).told


def test_info_describes_a_hugging_face_model(pair: tuple[Path, Path], tmp_path: Path) -> None:
    parameters = sum(tensor.numel() for tensor in load_file(pair[1] / "model.safetensors").values())
    ours, bare = shutil.copytree(pair[0], tmp_path / "ours"), write_config(tmp_path / "bare", "gpt2")
    metadata = {"base": "some/bart", "steps": 6, "settings": {"epochs": 2}, "data": {"corpus": "tsv"}}
    (ours / "bidibeam.json").write_text(json.dumps(metadata))
    (bare / "bidibeam.json").write_text("[]")

    plain = {"kind": "bart", "parameters": parameters, "vocabulary": 16}
    assert described(pair[1]) == {"folder": str(pair[1]), "direction": "reverse", **plain}
    known = {
        "base": "some/bart",
        "progress": {"steps": 6},
        "data": {"corpus": "tsv"},
        "training": {"epochs": 2},
    }
    assert described(ours) == {"folder": str(ours), "direction": "regular", **plain, **known}
    assert described(bare) == {"folder": str(bare), "kind": "gpt2", "direction": "regular", "vocabulary": 40}
    assert described(write_joint(tmp_path / "joint"))["direction"] == "both"
    told = called("info", ours).told
    for words in ("Hugging Face model", "some/bart", "epochs", "corpus"):
        assert words in told


def test_info_describes_a_ctranslate2_folder(pair: tuple[Path, Path], tmp_path: Path) -> None:
    export_converted(bidibeam.load(*pair), tmp_path / "fast", quantization="int8", overwrite=False)

    metadata = described(tmp_path / "fast")

    assert (metadata["folder"], metadata["quantization"]) == (str(tmp_path / "fast"), "int8")
    assert "CTranslate2 model" in called("info", tmp_path / "fast").told


def test_train_resumes_with_its_own_settings_and_starts_from_vectors(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    vectors, out = tmp_path / "v.vec", tmp_path / "run"
    vectors.write_text("2 16\n" + "".join(f"{word} {' '.join(['0.5'] * 16)}\n" for word in ("red", "cat")))
    sizes = ["embedding_size=16", "encoder_size=8", "decoder_size=16", "attention_size=8", "readout_size=16"]
    settings = [*(f"model.{size}" for size in sizes), "training.max_steps=3", "training.batch_size=16"]
    flags = [word for setting in settings for word in ("--set", setting)]
    command = ("train", toy_data.path, "--out", out)

    first = called(*command, "--vectors", vectors, *flags).told
    second = called(*command, "--resume").told
    third = called(*command, "--resume", "--set", "training.max_steps=5").told

    assert "vectors for 2 of 15 tokens (13.3%)" in first
    assert "Stopped by max_steps after step 3" in first
    assert first.endswith(f"Next: bidibeam chat {out}, or bidibeam tune {out}")
    assert "from step 3" in second
    assert "Stopped by max_steps after step 5" in third
    newest = state.newest(out)
    assert newest is not None
    assert newest.name == "step-00000005"


class Parrot:
    """A kind of model that another package brings."""

    @classmethod
    def recognises(cls, folder: Path) -> bool:
        return (folder / "parrot.txt").is_file()

    @classmethod
    def describe(cls, folder: Path) -> dict[str, Any]:
        return {"folder": str(folder), "says": (folder / "parrot.txt").read_text()}

    @classmethod
    def load(cls, name: str, reverse: str | None = None, **options: Any) -> Any:
        assert (reverse, options) == (None, {"device": None, "dtype": None, "trust_remote_code": False})
        return bidibeam.load(f"{name}/inner")


class Twin(bidibeam.BidirectionalModel):
    """A network that another package brings."""


def test_other_packages_add_kinds_of_models_and_networks(
    copied_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their entry points: every command then takes such a folder as its MODEL."""
    parrot, config = tmp_path / "parrot", copied_run / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "architecture": "twin"}))
    assert "Unknown architecture 'twin'" in refused("decode", copied_run, typed="red cat\n")
    parrot.mkdir()
    copied_run.rename(parrot / "inner")
    (parrot / "parrot.txt").write_text("hello")
    named = {"bidibeam.models": ("parrot", Parrot), "bidibeam.networks": ("twin", Twin)}
    points = [EntryPoint(name, f"{__name__}:{it.__name__}", group) for group, (name, it) in named.items()]
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [point for point in points if point.group == group]
    )

    assert described(parrot) == {"folder": str(parrot), "says": "hello"}
    assert called("decode", parrot, "--strategy", "vbs", typed="red cat\n").replies == ["red cat!"]
    told = f"{parrot} is a parrot, which computes on one device: leave out --device-map, and name a --device."
    assert told in refused("decode", parrot, "--device-map", "auto", typed="red cat\n")


@pytest.mark.parametrize("command", ["decode", "chat", "explain", "tune", "score", "serve"])
def test_a_device_map_reaches_the_model_from_every_command(
    toy_run: Path, toy_data: PreparedData, tmp_path: Path, command: str
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"source": "red", "regular": [{"text": "red !"}], "reverse": []}\n')
    arguments: dict[str, tuple[object, ...]] = {
        "explain": (toy_run, "red cat"),
        "tune": (toy_run, "--data", toy_data.path),
        "score": (lists, "--model", toy_run),
        "serve": (toy_run, "--port", 0),
    }

    given = (*arguments.get(command, (toy_run,)), "--device-map", "balanced")

    assert "computes on one device: leave out --device-map" in refused(command, *given, typed="red cat\n")
