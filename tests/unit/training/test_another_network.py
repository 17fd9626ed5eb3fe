"""A new network is a file and a registry line: it trains, resumes, decodes and is tuned by the commands."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepared import PreparedData
from tests.unit.cli.calls import called, refused

FLAGS = ["--architecture", "lstm", "--preset", "demo", "--epochs", "12", "--learning-rate", "0.01"]
FLAGS += ["--set", "model.size=48", "--set", "training.tensorboard=false"]


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Any:
    """What a line in another package's pyproject.toml would do."""
    point = EntryPoint("lstm", "tests.unit.training.lstm:LSTMNetwork", "bidibeam.networks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bidibeam.registry.entry_points", lambda group: [point] if group == point.group else [])
        yield


@pytest.fixture(scope="module")
def run(toy_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lstm") / "run"
    call = called("train", toy_data.path, "--out", folder, *FLAGS, "--set", "training.max_steps=30")
    assert call.status == 0, call.err
    call = called("train", toy_data.path, "--out", folder, "--resume", "--set", "training.max_steps=0")
    assert call.status == 0, call.err
    assert "from step 30." in call.told
    return folder


def test_it_trains_with_its_own_settings(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())

    assert config["architecture"] == "lstm"
    assert config["model"] == {"size": 48, "directions": ["regular", "reverse"]}


def test_it_answers(run: Path, toy_data: PreparedData) -> None:
    sources = [example["source"] for example in toy_data.examples("test")][:10]

    for strategy in ("vbs", "bidia", "bidis"):
        call = called("decode", run, "--strategy", strategy, typed="\n".join(sources) + "\n")
        assert call.status == 0, call.err
        replies = call.out.splitlines()
        assert len(replies) == len(sources)
        assert sum(reply == f"{source}!" for source, reply in zip(sources, replies, strict=True)) >= 5


def test_it_is_tuned(run: Path, toy_data: PreparedData) -> None:
    call = called("tune", run, "--data", toy_data.path, "--beam-size", "4", "--sources", "20")

    assert call.status == 0, call.err
    assert (run / "tuned.json").is_file()


def test_what_it_cannot_do_is_said(run: Path, toy_data: PreparedData, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "'lstn'. Did you mean 'lstm'?" in refused(
        "train", toy_data.path, "--out", out, "--architecture", "lstn"
    )
    said = refused("train", toy_data.path, "--out", out, *FLAGS, "--set", "model.decoder_size=8")
    assert said.startswith("Unknown setting model.decoder_size.")
    (tmp_path / "v.vec").write_text("1 2\nred 0 1\n")
    said = refused("train", toy_data.path, "--out", out, *FLAGS, "--vectors", tmp_path / "v.vec")
    assert "lstm starts from no vectors" in said
    said = refused("train", toy_data.path, "--out", run, "--resume", "--architecture", "gru")
    assert "began with architecture='lstm', not 'gru'" in said
