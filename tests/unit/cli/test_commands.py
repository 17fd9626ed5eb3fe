"""Train and info, and what all commands that need a run have in common."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file

from bidibeam.cli.main import run
from bidibeam.data.prepared import PreparedData
from bidibeam.training import state
from tests.unit.cli.calls import called, refused
from tests.unit.models.huggingface.folders import write_joint, write_pair
from tests.unit.models.huggingface.tiny import write_config


def test_a_directory_around_a_run_points_at_the_run(
    toy_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["info", str(toy_run.parent)]) == 1

    assert f"Did you mean {toy_run}?" in capsys.readouterr().err.replace("\n", "")


@pytest.mark.parametrize("command", ["decode", "chat", "info", "tune"])
def test_a_directory_that_is_no_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run([command, str(tmp_path / "nowhere")]) == 1

    assert "is not a run directory: it has no config.json" in capsys.readouterr().err


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of a regular and of a reverse Hugging Face model."""
    return write_pair(tmp_path_factory.mktemp("models"), "bart")


@pytest.mark.parametrize("command", ["decode", "chat", "tune", "export"])
def test_a_hugging_face_model_is_no_run(command: str, models: tuple[Path, Path], tmp_path: Path) -> None:
    regular, reverse = models
    flags = ("--out", tmp_path / "out") if command == "export" else ()

    assert refused(command, regular, *flags) == (
        f"{regular} is a Hugging Face model, not one of bidibeam's own runs: `bidibeam decode --regular "
        f"{regular}`, and tune likewise (in Python: bidibeam.hf.load_hf_decoder). Chat and export take only "
        "runs."
    )
    assert f"`bidibeam decode --regular MODEL --reverse {reverse}`" in refused(command, reverse, *flags)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["decode", "chat", "info", "tune"])
def test_a_training_that_was_killed_is_to_be_resumed(command: str, tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "started.json").write_text("{}")

    assert refused(command, tmp_path) == (
        f"The training in {tmp_path} is unfinished: `bidibeam train DATA --out {tmp_path} --resume` goes on."
    )


def test_info_describes_a_hugging_face_model(models: tuple[Path, Path], tmp_path: Path) -> None:
    parameters = sum(tensor.numel() for tensor in load_file(models[1] / "model.safetensors").values())
    ours, bare = tmp_path / "ours", tmp_path / "bare"
    shutil.copytree(models[0], ours)
    facts = {"base": "some/bart", "steps": 6, "settings": {"epochs": 2}, "data": {"corpus": "tsv"}}
    (ours / "bidibeam.json").write_text(json.dumps(facts))
    write_config(bare, "gpt2")
    (bare / "bidibeam.json").write_text("[]")

    described = [json.loads(called("info", path, "--json").out) for path in (models[1], ours, bare)]

    plain = {"folder": str(models[1]), "kind": "bart", "direction": "reverse", "parameters": parameters}
    assert described[0] == {**plain, "vocabulary": 16}
    assert described[1] == {
        **plain,
        "folder": str(ours),
        "direction": "regular",
        "vocabulary": 16,
        "base": "some/bart",
        "progress": {"steps": 6},
        "data": {"corpus": "tsv"},
        "training": {"epochs": 2},
    }
    assert described[2] == {"folder": str(bare), "kind": "gpt2", "direction": "regular", "vocabulary": 40}
    told = called("info", ours).told
    for words in ("Hugging Face model", "some/bart", "epochs", "corpus"):
        assert words in told
    joint = write_joint(tmp_path / "joint")
    assert json.loads(called("info", joint, "--json").out)["direction"] == "both"


def test_info_tells_shape_data_and_progress(toy_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", str(toy_run)]) == 0

    told = capsys.readouterr().err
    for word in ("parameters", "regular validation perplexity", "decoder_size", "fingerprint", "batch_size"):
        assert word in told


def test_info_as_json_goes_to_stdout(toy_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["info", str(toy_run), "--json"]) == 0

    facts = json.loads(capsys.readouterr().out)
    assert facts["model"]["decoder_size"] == 32
    assert facts["vocabulary"] == 15
    assert facts["progress"]["steps"] > 0


def test_train_resumes_with_its_own_settings_and_starts_from_vectors(
    toy_data: PreparedData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors, out = tmp_path / "v.vec", tmp_path / "run"
    vectors.write_text("2 16\n" + "".join(f"{word} {' '.join(['0.5'] * 16)}\n" for word in ("red", "cat")))
    sizes = ["embedding_size=16", "encoder_size=8", "decoder_size=16", "attention_size=8", "readout_size=16"]
    flags = [word for size in sizes for word in ("--set", f"model.{size}")]
    flags += ["--set", "training.max_steps=3", "--set", "training.batch_size=16"]

    assert run(["train", str(toy_data.path), "--out", str(out), "--vectors", str(vectors), *flags]) == 0
    first = capsys.readouterr().err
    assert run(["train", str(toy_data.path), "--out", str(out), "--resume"]) == 0
    second = capsys.readouterr().err
    longer = ["--resume", "--set", "training.max_steps=5"]
    assert run(["train", str(toy_data.path), "--out", str(out), *longer]) == 0
    third = capsys.readouterr().err

    assert "Vectors for 2 of 15 tokens (13.3%)" in first.replace("\n", " ")
    assert "Stopped by max_steps after step 3" in first.replace("\n", " ")
    assert "from step 3" in second
    newest = state.newest(out)
    assert newest is not None
    assert newest.name == "step-00000005"
    assert "Stopped by max_steps after step 5" in third.replace("\n", " ")


def test_training_that_is_refused_is_one_line(
    toy_data: PreparedData, toy_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", str(toy_data.path), "--out", str(toy_run)]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: {toy_run}")


def test_train_names_data_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", str(tmp_path / "none"), "--out", str(tmp_path / "run")]) == 1

    assert "make it with `bidibeam prepare" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["prepare", "reproduce"])
def test_an_error_is_the_first_line(command: str, tmp_path: Path) -> None:
    name = ("jsonl",) if command == "prepare" else ("--corpus", "jsonl")

    call = called(command, *name, "--source", tmp_path / "none.jsonl", "--out", tmp_path / "out")

    assert call.status == 1
    *_, before, sentence = ["heading", *call.err.splitlines()]
    assert sentence.startswith("Error: ")
    assert before.strip()
