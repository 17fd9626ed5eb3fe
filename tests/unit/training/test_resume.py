"""A run goes on where it stopped, bit for bit, or says why it cannot; nothing is overwritten unasked."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError, TrainingError
from bidibeam.files import alone_in
from bidibeam.models import checkpoint
from bidibeam.models.networks import create_network
from bidibeam.training import state
from bidibeam.training.logs import read_metrics
from bidibeam.training.optimization import PlateauSchedule
from tests.conftest import TINY_MODEL
from tests.unit.training.runs import (
    QUICK,
    Diary,
    KilledError,
    are_same_weights,
    losses_of,
    newest,
    train_toy,
)


def train_and_kill(data: PreparedData, run: Path, step: int, **options: Any) -> None:
    with pytest.raises(KilledError):
        train_toy(data, run, observer=Diary(dies_at=step), **options)


@pytest.fixture(scope="module")
def whole(toy_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that never stopped."""
    run = tmp_path_factory.mktemp("whole") / "run"
    train_toy(toy_data, run)
    return run


@pytest.mark.parametrize(
    ("is_killed", "step"), [(False, 1), (False, 4), (False, 19), (True, 1), (True, 11), (True, 20)]
)
def test_a_run_that_was_stopped_or_killed_and_resumed_equals_one_that_never_was(
    toy_data: PreparedData, whole: Path, tmp_path: Path, is_killed: bool, step: int
) -> None:
    parts = tmp_path / "parts"
    if is_killed:  # between checkpoints
        train_and_kill(toy_data, parts, step)
    else:
        train_toy(toy_data, parts, max_steps=step)
    torch.manual_seed(12345)  # whatever happens in between
    train_toy(toy_data, parts, resume=True)

    assert are_same_weights(newest(whole), newest(parts))
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()
    if is_killed:
        one, other = (
            [{name: each[name] for name in each if name != "tokens_per_s"} for each in read_metrics(run)]
            for run in (whole, parts)
        )
        assert one == other


def test_what_is_not_this_run_is_refused(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_toy(toy_data, run, max_steps=2)

    with pytest.raises(RunError, match=r"already holds a run\. Go on with it by `resume`, or"):
        train_toy(toy_data, run)
    with pytest.raises(SettingsError, match=r"began with batch_size=64, not 32\. Resume with the same"):
        train_toy(toy_data, run, batch_size=32, resume=True)
    with pytest.raises(SettingsError, match="began with decoder_size=32, not 8"):
        train_toy(toy_data, run, model=replace(TINY_MODEL, decoder_size=8), resume=True)
    config = json.loads((run / "config.json").read_text())
    config["data"]["fingerprint"] = "other"
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match="was trained on other data"):
        train_toy(toy_data, run, resume=True)


def test_a_run_that_ended_before_it_was_evaluated_is_evaluated_on_resume(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    run = tmp_path / "run"

    train_and_kill(toy_data, run, 5, max_steps=5)
    assert not (run / "model.safetensors").exists()
    train_toy(toy_data, run, max_steps=4, resume=True)

    assert (run / "model.safetensors").exists()
    assert losses_of(run, "step") == [4]


def test_weights_and_best_loss_agree_after_a_run_is_prolonged(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = train_toy(toy_data, run, learning_rate=0.5, max_steps=1)
    best = (run / "model.safetensors").read_bytes()

    second = train_toy(toy_data, run, learning_rate=0.5, max_steps=9, resume=True)

    losses = losses_of(run)
    assert first.best_loss == losses[0]
    assert second.best_loss == min(losses)
    assert ((run / "model.safetensors").read_bytes() == best) == (losses[1] > losses[0])


class DiesEvaluated(Diary):
    """Dies between an evaluation and the checkpoint that tells of it."""

    def on_evaluation(self, *, step: int, record: dict[str, Any]) -> None:  # noqa: ARG002
        raise KilledError


@pytest.mark.parametrize("steps", [3, 4])
def test_a_run_killed_in_its_last_evaluation_and_prolonged_equals_one_that_was_not_killed(
    toy_data: PreparedData, tmp_path: Path, steps: int
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options: dict[str, Any] = {"learning_rate": 0.5, "evaluate_every": 5}  # so high that losses rise
    train_toy(toy_data, whole, max_steps=steps, **options)
    with pytest.raises(KilledError):
        train_toy(toy_data, killed, max_steps=steps, observer=DiesEvaluated(), **options)

    for run in (whole, killed):
        train_toy(toy_data, run, max_steps=12, resume=True, **options)

    assert losses_of(killed) == losses_of(whole)
    assert losses_of(killed, "step") == [steps, 5, 10, 12]
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert [path.name for path in (killed / "training").iterdir()] == ["step-00000012"]


def test_what_the_network_started_from_survives_a_kill_before_the_first_step(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    whole, killed, vectors = tmp_path / "whole", tmp_path / "killed", tmp_path / "v.vec"
    vectors.write_text(f"2 16\nred {'1 ' * 15}1\ncat {'2 ' * 15}2\n")
    begin: dict[str, Any] = {"max_steps": 3, "vectors": vectors}

    train_toy(toy_data, whole, **begin)
    train_and_kill(toy_data, killed, 1, **begin)
    train_toy(toy_data, killed, max_steps=3, resume=True)
    train_toy(toy_data, tmp_path / "without", max_steps=3)

    assert are_same_weights(newest(whole), newest(killed))
    assert not are_same_weights(newest(whole), newest(tmp_path / "without"))
    assert json.loads((killed / "config.json").read_text())["vectors"] == "v.vec"


def test_what_a_run_left_that_never_got_its_config_is_not_mixed_in(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    run, clean = tmp_path / "run", tmp_path / "clean"
    train_and_kill(toy_data, run, 1, max_steps=3, seed=9)
    for name in ("config.json", "metrics.jsonl"):
        (run / name).unlink()

    train_and_kill(toy_data, run, 1, max_steps=3)
    train_toy(toy_data, run, max_steps=3, resume=True)
    train_toy(toy_data, clean, max_steps=3)

    assert are_same_weights(newest(run), newest(clean))


@pytest.mark.parametrize("written", ["tokenizer.json", "config.json"])
def test_a_run_killed_while_its_first_files_were_written_begins_again(
    toy_data: PreparedData, whole: Path, tmp_path: Path, written: str
) -> None:
    run = tmp_path / "run"
    train_and_kill(toy_data, run, 1)
    for name in ("config.json", "metrics.jsonl", *([written] if written == "tokenizer.json" else [])):
        (run / name).unlink()
    (run / f".{written}.77.partial").write_text("{", encoding="utf-8")  # what `replacing` leaves if killed

    train_toy(toy_data, run, resume=True)

    assert are_same_weights(newest(whole), newest(run))
    assert {path.name for path in run.iterdir()} == {path.name for path in whole.iterdir()}


def test_a_directory_with_other_things_is_left_alone(toy_data: PreparedData, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("my notes")

    for folder in (tmp_path, toy_data.path):
        with pytest.raises(RunError, match="holds other things"):
            train_toy(toy_data, folder)

    assert (tmp_path / "metrics.jsonl").read_text() == "my notes"
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_checkpoint_that_is_damaged_or_of_another_version_is_named(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train_toy(toy_data, run, max_steps=2)
    content = json.loads((newest(run) / "state.json").read_text())
    (newest(run) / "state.json").write_text(json.dumps({**content, "format_version": 99}))
    with pytest.raises(RunError, match="format version 99, but this bidibeam reads version 1"):
        train_toy(toy_data, run, resume=True)
    (newest(run) / "state.json").write_text(json.dumps(content))
    optimizer = newest(run) / "optimizer.safetensors"
    tensors = load_file(optimizer)
    save_file({name: value for name, value in tensors.items() if name != min(tensors)}, optimizer)
    with pytest.raises(RunError, match=r"cannot be read \(optimizer.safetensors lacks some of its tensors\)"):
        train_toy(toy_data, run, resume=True)
    save_file({f"x{name}": value for name, value in tensors.items()}, optimizer)
    with pytest.raises(RunError, match=r"cannot be read \(optimizer.safetensors does not fit the model: x"):
        train_toy(toy_data, run, resume=True)
    optimizer.write_bytes(b"nonsense")

    with pytest.raises(RunError, match=r"step-00000002 cannot be read .*remove that folder"):
        train_toy(toy_data, run, resume=True)


@pytest.mark.parametrize(("processes", "batch", "per_step"), [(1, 5, 1), (2, 10, 2)])
def test_a_checkpoint_that_counted_the_batches_of_each_process_goes_on(
    toy_data: PreparedData, tmp_path: Path, processes: int, batch: int, per_step: int
) -> None:
    """As checkpoints once were: what a step has was not in them."""
    run = tmp_path / "run"
    train_toy(toy_data, run, max_steps=4)
    file = newest(run) / "state.json"
    content = json.loads(file.read_text())
    assert content.pop("batches_per_step") == 1
    file.write_text(json.dumps(content))
    for index in range(1, processes):
        shutil.copy(newest(run) / "random-0.safetensors", newest(run) / f"random-{index}.safetensors")

    position = train_toy(toy_data, run, max_steps=5, resume=True)

    assert (position.batch, position.batches_per_step) == (batch, per_step)


def test_a_process_that_is_new_has_a_random_state_of_its_own(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_toy(toy_data, run, max_steps=2)
    network = create_network("gru", TINY_MODEL, toy_data.tokenizer.vocabulary_size, None)
    optimizer = PlateauSchedule(network, QUICK).optimizer

    def draw(process: int, *seeds: int) -> float:
        which = {"process_index": process, "is_main_process": process == 0, "device": torch.device("cpu")}
        state.load(newest(run), network, optimizer, cast("Any", SimpleNamespace(**which)), seeds=seeds)
        return float(torch.rand(()))

    assert draw(0, 1, 2) == draw(0, 3, 4)  # it goes on
    assert draw(1, 1, 2) == draw(1, 1, 2)
    assert len({draw(0, 1, 2), draw(1, 1, 2), draw(2, 1, 2), draw(1, 1, 3), draw(1, 2, 2)}) == 5


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batches_per_step", -1, r"batches_per_step must be a count, not -1"),
        ("step", "x", r"The setting step is .x.; it must be a whole number"),
        ("epoch", -1, r"epoch must be a count, not -1"),
        ("scheduler", {"best": []}, "best must be a number"),
        ("unheard_of", 1, "Unknown setting unheard_of"),
    ],
)
def test_a_position_of_other_types_is_damage(
    whole: Path, toy_data: PreparedData, tmp_path: Path, name: str, value: Any, message: str
) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    file = newest(run) / "state.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))

    with pytest.raises(RunError, match=rf"cannot be read \({message}.*\)\. Restore it from a copy"):
        train_toy(toy_data, run, resume=True)


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors"])
def test_a_checkpoint_with_numbers_that_are_not_finite_is_refused_before_anything_is_changed(
    whole: Path, toy_data: PreparedData, tmp_path: Path, file: str
) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    path = newest(run) / file
    tensors = load_file(path)
    next(each for each in tensors.values() if each.ndim > 1)[0, 0] = float("nan")
    save_file(tensors, path)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    with pytest.raises(
        RunError, match=r"cannot be read \(numbers of '.*' are not finite\)\. Restore it from"
    ):
        train_toy(toy_data, run, resume=True, epochs=3)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize("content", ['{"kind": "train"}\n', '{"step": "x", "kind": ""}\n', "\ufeff{}\n"])
def test_damaged_metrics_are_named_before_anything_is_changed(
    whole: Path, toy_data: PreparedData, tmp_path: Path, content: str
) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    (run / "metrics.jsonl").write_text(content)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    with pytest.raises(RunError, match=r"metrics\.jsonl, line 1 is damaged"):
        train_toy(toy_data, run, resume=True, epochs=3)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize("is_loop", [False, True])
def test_metrics_that_are_no_file_are_named_before_anything_is_changed(
    whole: Path, toy_data: PreparedData, tmp_path: Path, is_loop: bool
) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    metrics = run / "metrics.jsonl"
    metrics.unlink()
    metrics.symlink_to(metrics.name) if is_loop else metrics.mkdir()
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    with pytest.raises(RunError, match=r"metrics\.jsonl cannot be read \(.*\)\. Restore it from a copy"):
        train_toy(toy_data, run, resume=True, epochs=3)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_that_another_process_trains_is_left_to_it(
    toy_data: PreparedData, tmp_path: Path, resume: bool
) -> None:
    run = tmp_path / "run"

    with alone_in(run, "training in"):
        with pytest.raises(RunError, match=rf"^Another process is training in {run}\. Wait until"):
            train_toy(toy_data, run, max_steps=1, resume=resume)
        assert not any(run.iterdir())
    train_toy(toy_data, run, max_steps=1, resume=resume)


@pytest.mark.parametrize("writes", [1, 5])
def test_a_full_disk_is_said_and_the_run_goes_on_once_there_is_room(
    whole: Path, toy_data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    run, counter = tmp_path / "run", count(1)

    def save(tensors: Any, path: Path) -> None:
        if next(counter) >= writes:
            path.write_bytes(b"half of")
            raise SafetensorError("Error while serializing: I/O error: No space left (os error 28)")
        save_file(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", save)
    with pytest.raises(TrainingError, match=rf"^{run} cannot be written: No space left.*`resume` goes on"):
        train_toy(toy_data, run)
    assert not [path for path in run.rglob("*") if "partial" in path.name]
    monkeypatch.undo()
    train_toy(toy_data, run, resume=True)

    assert are_same_weights(newest(whole), newest(run))


def test_a_line_cut_off_in_the_metrics_is_dropped_on_resume(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_toy(toy_data, run, max_steps=4)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 5, "loss')

    train_toy(toy_data, run, resume=True)

    steps = [record["step"] for record in read_metrics(run)]
    assert steps == sorted(steps)
    assert steps[-1] > 30
