"""A run goes on where it stopped, bit for bit, or says why it cannot; nothing is overwritten unasked."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.training import state
from bidibeam.training.logs import read_metrics
from bidibeam.training.networks import train
from tests.conftest import TINY_MODEL
from tests.unit.training.runs import QUICK, KilledError, Killer, assert_same_weights


@pytest.fixture(scope="module")
def whole(toy_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that never stopped."""
    run = tmp_path_factory.mktemp("whole") / "run"
    train(toy_data, run, model_settings=TINY_MODEL, settings=QUICK)
    return run


@pytest.mark.parametrize("stop_at", [1, 4, 19])
def test_a_resumed_run_equals_one_that_never_stopped(
    toy_data: PreparedData, whole: Path, tmp_path: Path, stop_at: int
) -> None:
    parts = tmp_path / "parts"

    train(toy_data, parts, model_settings=TINY_MODEL, settings=replace(QUICK, max_steps=stop_at))
    torch.manual_seed(12345)  # whatever happens in between
    train(toy_data, parts, model_settings=TINY_MODEL, settings=QUICK, resume=True)

    assert_same_weights(whole, parts)
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()


@pytest.mark.parametrize("kill_at", [1, 11, 20])
def test_a_run_killed_between_checkpoints_is_resumed_bit_for_bit(
    toy_data: PreparedData, whole: Path, tmp_path: Path, kill_at: int
) -> None:
    killed = tmp_path / "killed"

    with pytest.raises(KilledError):
        train(toy_data, killed, model_settings=TINY_MODEL, settings=QUICK, observer=Killer(kill_at))
    train(toy_data, killed, model_settings=TINY_MODEL, settings=QUICK, resume=True)

    assert_same_weights(whole, killed)
    assert (whole / "model.safetensors").read_bytes() == (killed / "model.safetensors").read_bytes()
    without_speed = [
        [
            {key: value for key, value in record.items() if key != "tokens_per_s"}
            for record in read_metrics(run)
        ]
        for run in (whole, killed)
    ]
    assert without_speed[0] == without_speed[1]


def test_a_run_is_never_overwritten_unasked(toy_data: PreparedData, toy_run: Path) -> None:
    with pytest.raises(RunError, match=re.escape("already holds a run. Pass resume")):
        train(toy_data, toy_run, model_settings=TINY_MODEL, settings=QUICK)


def test_resuming_with_other_settings_or_data_is_refused(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(toy_data, run, model_settings=TINY_MODEL, settings=replace(QUICK, max_steps=2))

    with pytest.raises(SettingsError, match=r"began with batch_size=64, not 32\. Resume with the same"):
        train(toy_data, run, model_settings=TINY_MODEL, settings=replace(QUICK, batch_size=32), resume=True)
    with pytest.raises(SettingsError, match="began with decoder_size=32, not 8"):
        train(toy_data, run, model_settings=replace(TINY_MODEL, decoder_size=8), settings=QUICK, resume=True)
    config = json.loads((run / "config.json").read_text())
    config["data"]["fingerprint"] = "other"
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match="was trained on other data"):
        train(toy_data, run, model_settings=TINY_MODEL, settings=QUICK, resume=True)


def test_a_run_that_ended_before_it_was_evaluated_is_evaluated_on_resume(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    run, settings = tmp_path / "run", replace(QUICK, max_steps=4)

    with pytest.raises(KilledError):
        train(
            toy_data,
            run,
            model_settings=TINY_MODEL,
            settings=replace(settings, max_steps=5),
            observer=Killer(5),
        )
    assert not (run / "model.safetensors").exists()
    train(toy_data, run, model_settings=TINY_MODEL, settings=settings, resume=True)

    assert (run / "model.safetensors").exists()
    assert [record["step"] for record in read_metrics(run) if record["kind"] == "validation"] == [4]


def test_weights_and_best_loss_agree_after_a_run_is_prolonged(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    spoiling = replace(QUICK, learning_rate=0.5)
    first = train(toy_data, run, model_settings=TINY_MODEL, settings=replace(spoiling, max_steps=1))
    best = load_file(run / "model.safetensors")

    second = train(
        toy_data, run, model_settings=TINY_MODEL, settings=replace(spoiling, max_steps=9), resume=True
    )

    losses = [record["loss"] for record in read_metrics(run) if record["kind"] == "validation"]
    assert first.best_loss == losses[0]
    assert second.best_loss == min(losses)
    unchanged = torch.equal(load_file(run / "model.safetensors")["b_output"], best["b_output"])
    assert unchanged == (losses[1] > losses[0])


def test_what_the_network_started_from_survives_a_kill_before_the_first_step(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    def start(model: BidirectionalModel) -> None:
        with torch.no_grad():
            model.embedding(0).weight[5] = 1.0

    quick = replace(QUICK, max_steps=3)
    train(
        toy_data, whole, model_settings=TINY_MODEL, settings=quick, initialise=start, facts={"vectors": "v"}
    )
    with pytest.raises(KilledError):
        train(
            toy_data,
            killed,
            model_settings=TINY_MODEL,
            settings=quick,
            initialise=start,
            observer=Killer(1),
            facts={"vectors": "v"},
        )
    train(toy_data, killed, model_settings=TINY_MODEL, settings=quick, resume=True)

    assert_same_weights(whole, killed)
    assert json.loads((killed / "config.json").read_text())["vectors"] == "v"


def test_what_a_run_left_that_never_got_its_config_is_not_mixed_in(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    run, clean = tmp_path / "run", tmp_path / "clean"
    quick = replace(QUICK, max_steps=3)
    with pytest.raises(KilledError):
        train(toy_data, run, model_settings=TINY_MODEL, settings=replace(quick, seed=9), observer=Killer(1))
    for name in ("config.json", "metrics.jsonl"):
        (run / name).unlink()

    with pytest.raises(KilledError):
        train(toy_data, run, model_settings=TINY_MODEL, settings=quick, observer=Killer(1))
    train(toy_data, run, model_settings=TINY_MODEL, settings=quick, resume=True)
    train(toy_data, clean, model_settings=TINY_MODEL, settings=quick)

    assert_same_weights(run, clean)


@pytest.mark.parametrize("written", ["tokenizer.json", "config.json"])
def test_a_run_killed_while_its_first_files_were_written_begins_again(
    toy_data: PreparedData, whole: Path, tmp_path: Path, written: str
) -> None:
    run = tmp_path / "run"
    with pytest.raises(KilledError):
        train(toy_data, run, model_settings=TINY_MODEL, settings=QUICK, observer=Killer(1))
    for name in ("config.json", "metrics.jsonl", *([written] if written == "tokenizer.json" else [])):
        (run / name).unlink()
    (run / f".{written}.77.partial").write_text("{", encoding="utf-8")  # what `replacing` leaves if killed

    train(toy_data, run, model_settings=TINY_MODEL, settings=QUICK, resume=True)

    assert_same_weights(whole, run)
    assert {path.name for path in run.iterdir()} == {path.name for path in whole.iterdir()}


def test_a_directory_with_other_things_is_left_alone(toy_data: PreparedData, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("my notes")

    with pytest.raises(RunError, match="holds other things"):
        train(toy_data, tmp_path, model_settings=TINY_MODEL, settings=QUICK)
    with pytest.raises(RunError, match="holds other things"):
        train(toy_data, toy_data.path, model_settings=TINY_MODEL, settings=QUICK)

    assert (tmp_path / "metrics.jsonl").read_text() == "my notes"
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_checkpoint_that_is_damaged_or_of_another_version_is_named(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(toy_data, run, model_settings=TINY_MODEL, settings=replace(QUICK, max_steps=2))
    newest = state.newest(run)
    assert newest is not None
    content = json.loads((newest / "state.json").read_text())
    (newest / "state.json").write_text(json.dumps({**content, "format_version": 99}))
    with pytest.raises(RunError, match="format version 99, but this bidibeam reads version 1"):
        train(toy_data, run, model_settings=TINY_MODEL, settings=QUICK, resume=True)
    (newest / "optimizer.safetensors").write_bytes(b"nonsense")

    with pytest.raises(RunError, match=r"step-00000002 cannot be read .*remove that folder"):
        train(toy_data, run, model_settings=TINY_MODEL, settings=QUICK, resume=True)


def test_a_line_cut_off_in_the_metrics_is_dropped_on_resume(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(toy_data, run, model_settings=TINY_MODEL, settings=replace(QUICK, max_steps=4))
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 5, "loss')

    train(toy_data, run, model_settings=TINY_MODEL, settings=QUICK, resume=True)

    steps = [record["step"] for record in read_metrics(run)]
    assert steps == sorted(steps)
    assert steps[-1] > 30
