"""Training learns, stops when it should, says what is wrong; a resumed run equals one that never stopped."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError, TrainingError
from bidibeam.models.gru import BidirectionalModel
from bidibeam.training import state
from bidibeam.training.logs import Silence, read_metrics
from bidibeam.training.loop import Trainer, train
from bidibeam.training.settings import TrainingSettings
from tests.conftest import TINY_MODEL

QUICK = TrainingSettings(
    epochs=2, batch_size=64, learning_rate=0.01, save_every=4, log_every=3, tensorboard=False
)


def weights_of(run: Path) -> dict[str, torch.Tensor]:
    folder = state.newest(run)
    assert folder is not None
    weights: dict[str, torch.Tensor] = load_file(folder / "model.safetensors")
    return weights


def assert_same_weights(one: Path, other: Path) -> None:
    first, second = weights_of(one), weights_of(other)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def test_the_toy_run_has_learnt_its_rule(toy_run: Path) -> None:
    losses = [record["loss"] for record in read_metrics(toy_run) if record["kind"] == "validation"]

    assert losses[-1] < 0.1 < 1 < losses[0]


def test_a_run_directory_holds_what_it_promises(toy_run: Path) -> None:
    names = {path.name for path in toy_run.iterdir()}

    assert names == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "training",
        "metrics.jsonl",
        "tensorboard",
    }
    newest = state.newest(toy_run)
    assert newest is not None
    assert {path.name for path in newest.iterdir()} == {
        "model.safetensors",
        "optimizer.safetensors",
        "random-0.safetensors",
        "state.json",
    }
    json.loads((newest / "state.json").read_text(), parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize("stop_at", [1, 4, 7, 18, 19])
def test_a_resumed_run_equals_one_that_never_stopped(
    toy_data: PreparedData, tmp_path: Path, stop_at: int
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(toy_data, whole, model_settings=TINY_MODEL, settings=QUICK)

    train(toy_data, parts, model_settings=TINY_MODEL, settings=replace(QUICK, max_steps=stop_at))
    torch.manual_seed(12345)  # whatever happens in between
    train(toy_data, parts, model_settings=TINY_MODEL, settings=QUICK, resume=True)

    assert_same_weights(whole, parts)
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()


class KilledError(Exception):
    """Stands for a kill: nothing after it runs."""


class Killer(Silence):
    """Kills training at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def stepped(self, *, step: int) -> None:
        if step == self.step:
            raise KilledError


@pytest.mark.parametrize("kill_at", [1, 5, 11, 20])
def test_a_run_killed_between_checkpoints_is_resumed_bit_for_bit(
    toy_data: PreparedData, tmp_path: Path, kill_at: int
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(toy_data, whole, model_settings=TINY_MODEL, settings=QUICK)

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
    with pytest.raises(RunError, match=re.escape("already holds a run. Add --resume")):
        train(toy_data, toy_run, model_settings=TINY_MODEL, settings=QUICK)


def test_resuming_with_other_settings_is_refused(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(toy_data, run, model_settings=TINY_MODEL, settings=replace(QUICK, max_steps=2))

    with pytest.raises(SettingsError, match=r"began with batch_size=64, not 32\. Resume with the same"):
        train(toy_data, run, model_settings=TINY_MODEL, settings=replace(QUICK, batch_size=32), resume=True)
    with pytest.raises(SettingsError, match="began with decoder_size=32, not 8"):
        train(toy_data, run, model_settings=replace(TINY_MODEL, decoder_size=8), settings=QUICK, resume=True)


def test_resuming_on_other_data_is_refused(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(toy_data, run, model_settings=TINY_MODEL, settings=replace(QUICK, max_steps=2))
    config = json.loads((run / "config.json").read_text())
    config["data"]["fingerprint"] = "other"
    (run / "config.json").write_text(json.dumps(config))

    with pytest.raises(RunError, match="was trained on other data"):
        train(toy_data, run, model_settings=TINY_MODEL, settings=QUICK, resume=True)


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    run = tmp_path / "run"

    class Poison(Silence):
        def stepped(self, *, step: int) -> None:
            if step == 6:
                broken.b_output.data.fill_(torch.nan)

    broken: Any = None

    def grab(model: BidirectionalModel) -> None:
        nonlocal broken
        broken = model

    with pytest.raises(TrainingError, match=r"not finite by step 8 .*last good checkpoint is step-00000004"):
        train(toy_data, run, model_settings=TINY_MODEL, settings=QUICK, initialise=grab, observer=Poison())

    assert all(tensor.isfinite().all() for tensor in weights_of(run).values())


def test_weights_that_are_not_finite_are_never_saved(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"

    with pytest.raises(TrainingError, match=r"not finite .*lower training\.learning_rate"):
        train(toy_data, run, model_settings=TINY_MODEL, settings=replace(QUICK, learning_rate=1e30))

    newest = state.newest(run)
    assert newest is None or all(tensor.isfinite().all() for tensor in weights_of(run).values())


class Worsening(Silence):
    """Spoils the weights more after every evaluation, so that the first stays the best."""

    def __init__(self) -> None:
        self.model: BidirectionalModel | None = None

    def evaluated(self, **_: Any) -> None:
        assert self.model is not None
        self.model.b_output.data[:, 5] += 3


def test_early_stopping_plateau_and_best_weights(toy_data: PreparedData, tmp_path: Path) -> None:
    run, spoiler = tmp_path / "run", Worsening()

    def grab(model: BidirectionalModel) -> None:
        spoiler.model = model

    settings = replace(QUICK, epochs=50, early_stopping=3, learning_rate=1e-6)
    position = train(
        toy_data, run, model_settings=TINY_MODEL, settings=settings, initialise=grab, observer=spoiler
    )

    assert position.stopped_by == "early_stopping"
    assert position.stale_evaluations == 3
    assert position.learning_rate == pytest.approx(1e-6 / 2**3)
    best, last = load_file(run / "model.safetensors"), weights_of(run)
    assert not torch.equal(best["b_output"], last["b_output"])
    losses = [record["loss"] for record in read_metrics(run) if record["kind"] == "validation"]
    assert position.best_loss == min(losses) == losses[0]


def test_one_direction_alone_and_two_networks_train_too(toy_data: PreparedData, tmp_path: Path) -> None:
    for name, model in {
        "alone": replace(TINY_MODEL, directions=("reverse",)),
        "apart": replace(TINY_MODEL, shared_encoder=False),
        "tied": replace(TINY_MODEL, tied_output=True),
    }.items():
        settings = replace(QUICK, epochs=3)
        train(toy_data, tmp_path / name, model_settings=model, settings=settings)

        losses = [
            record["loss_reverse"]
            for record in read_metrics(tmp_path / name)
            if record["kind"] == "validation"
        ]
        assert losses[-1] < losses[0] - 0.1, name


def test_a_direction_without_weight_is_still_measured(toy_data: PreparedData, tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=1, regular_weight=1.0)

    train(toy_data, tmp_path / "run", model_settings=TINY_MODEL, settings=settings)

    records = read_metrics(tmp_path / "run")
    assert all(record["loss_reverse"] > 1 for record in records)
    judged = [record for record in records if record["kind"] == "validation"]
    assert all(record["loss"] == record["loss_regular"] for record in judged)


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


def test_a_directory_with_other_things_is_left_alone(toy_data: PreparedData, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("my notes")

    with pytest.raises(RunError, match="holds other things"):
        train(toy_data, tmp_path, model_settings=TINY_MODEL, settings=QUICK)
    with pytest.raises(RunError, match="holds other things"):
        train(toy_data, toy_data.path, model_settings=TINY_MODEL, settings=QUICK)

    assert (tmp_path / "metrics.jsonl").read_text() == "my notes"
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


@pytest.mark.parametrize("content", [b"3\n", b"\xff\xfe\n", b'{"kind": 1}\n'])
def test_damaged_metrics_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(content)

    with pytest.raises(RunError, match=r"metrics\.jsonl, line 1 is damaged\. Remove that line"):
        read_metrics(tmp_path)


def test_every_process_has_as_many_batches_even_if_they_are_few(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    settings = replace(QUICK, batch_size=5000)
    trainer = Trainer(toy_data, tmp_path, TINY_MODEL, settings, Silence())
    batches = len(trainer.plans)

    counts = set()
    for rank in range(8):
        trainer.accelerator = SimpleNamespace(num_processes=8, process_index=rank)
        counts.add(len(trainer._epoch_plans(0)))

    assert batches < 8
    assert counts == {1}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"seed": -1}, "training.seed is -1; it must be 0 or more"),
        ({"seed": 2**63}, "training.seed is 9223372036854775808; it must be"),
        ({"epochs": 0}, "training.epochs is 0; it must be at least 1"),
        ({"learning_rate": 0.0}, "training.learning_rate is 0.0; it must be a positive number"),
        ({"regular_weight": 1.5}, "training.regular_weight is 1.5; it must be between 0 and 1"),
        ({"plateau_factor": 0.0}, "training.plateau_factor is 0.0; it must be above 0"),
        ({"precision": "int4"}, "training.precision is 'int4'; it must be one of auto, float32, bf16"),
        ({"save_every": -1}, "training.save_every is -1; it must be 0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        TrainingSettings(**setting)


def test_the_loss_weighs_the_directions(toy_data: PreparedData, tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=4, regular_weight=1.0)

    train(toy_data, tmp_path / "run", model_settings=TINY_MODEL, settings=settings)

    last = [record for record in read_metrics(tmp_path / "run") if record["kind"] == "validation"][-1]
    assert last["loss_regular"] < last["loss_reverse"] - 0.5


def test_a_damaged_checkpoint_is_named(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(toy_data, run, model_settings=TINY_MODEL, settings=replace(QUICK, max_steps=2))
    newest = state.newest(run)
    assert newest is not None
    (newest / "optimizer.safetensors").write_bytes(b"nonsense")

    with pytest.raises(RunError, match=r"step-00000002 cannot be read .*remove that folder"):
        train(toy_data, run, model_settings=TINY_MODEL, settings=QUICK, resume=True)


def test_a_checkpoint_of_another_version_is_named(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(toy_data, run, model_settings=TINY_MODEL, settings=replace(QUICK, max_steps=2))
    newest = state.newest(run)
    assert newest is not None
    content = json.loads((newest / "state.json").read_text())
    (newest / "state.json").write_text(json.dumps({**content, "format_version": 99}))

    with pytest.raises(RunError, match="format version 99, but this bidibeam reads version 1"):
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
