"""Training learns, stops when it should, and says what is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from accelerate import DistributedType

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError, TrainingError
from bidibeam.models.networks import create_network
from bidibeam.training import state
from bidibeam.training.logs import TrainingObserver, read_metrics
from bidibeam.training.settings import FineTuneSettings, TrainingSettings
from tests.conftest import TINY_MODEL
from tests.unit.training.runs import are_same_weights, losses_of, newest, train_toy, weights_of


def test_the_toy_run_has_learnt_its_rule_and_holds_what_it_promises(toy_run: Path) -> None:
    losses = losses_of(toy_run)
    assert losses[-1] < 0.1 < 1 < losses[0]

    files = "config.json model.safetensors tokenizer.json training metrics.jsonl tensorboard"
    assert {path.name for path in toy_run.iterdir()} == {*files.split()}
    checkpoint = "model.safetensors optimizer.safetensors random-0.safetensors state.json"
    assert {path.name for path in newest(toy_run).iterdir()} == {*checkpoint.split()}
    json.loads((newest(toy_run) / "state.json").read_text(), parse_constant=lambda name: pytest.fail(name))


class Spoiler(TrainingObserver):
    """Changes the network's output after a step, or after every evaluation, so that the first stays best."""

    def __init__(self, *, poison_at: int | None = None) -> None:
        self.network: Any = None
        self.poison_at = poison_at

    def train(self, data: PreparedData, run: Path, **settings: Any) -> state.Position:
        def create(*arguments: Any) -> Any:
            self.network = create_network(*arguments)
            return self.network

        with patch("bidibeam.training.train.create_network", create):
            return train_toy(data, run, observer=self, **settings)

    def on_step(self, *, step: int) -> None:
        if step == self.poison_at:
            self.network.b_output.data.fill_(torch.nan)

    def on_evaluation(self, **_: Any) -> None:
        self.network.b_output.data[:, 5] += 3


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    with pytest.raises(TrainingError, match=r"not finite by step 8 .*last good checkpoint is step-00000004"):
        Spoiler(poison_at=6).train(toy_data, tmp_path / "run")
    with pytest.raises(TrainingError, match=r"not finite .*lower learning_rate"):
        train_toy(toy_data, tmp_path / "far", learning_rate=1e30)

    for name in ("run", "far"):
        assert all(tensor.isfinite().all() for tensor in weights_of(newest(tmp_path / name)).values())


def train_spoiled(data: PreparedData, run: Path, **settings: Any) -> state.Position:
    """Hardly trains, and gets worse by every evaluation."""
    return Spoiler().train(data, run, learning_rate=1e-6, **settings)


def test_early_stopping_plateau_and_best_weights(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    position = train_spoiled(toy_data, run, evaluate_every=2, early_stopping=3)

    assert position.stopped_by == "early_stopping"
    assert position.stale_evaluations == 3
    assert position.learning_rate == pytest.approx(1e-6 / 2**3)
    assert not are_same_weights(run, newest(run))
    assert position.best_loss == min(losses_of(run)) == losses_of(run)[0]


def test_a_last_evaluation_that_no_schedule_asks_for_leaves_better_weights(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    train_spoiled(toy_data, tmp_path / "best", evaluate_every=4, max_steps=4)
    position = train_spoiled(toy_data, tmp_path / "further", evaluate_every=4, max_steps=6)

    first, last = losses_of(tmp_path / "further")
    assert position.best_loss == first < last
    assert are_same_weights(tmp_path / "best", tmp_path / "further")


def test_the_last_weights_are_kept_if_they_are_wanted(toy_data: PreparedData, tmp_path: Path) -> None:
    for keep in ("best", "last"):
        train_spoiled(toy_data, tmp_path / keep, keep=keep, evaluate_every=2, max_steps=4)

    best, last = (weights_of(tmp_path / keep)["b_output"][:, 5] for keep in ("best", "last"))
    assert (last - best).tolist() == pytest.approx([3.0] * len(best), abs=1e-3)  # spoiled once


@pytest.mark.parametrize(
    "changes", [{"directions": ("reverse",)}, {"shared_encoder": False}, {"tied_output": True}]
)
def test_one_direction_alone_and_two_networks_train_too(
    toy_data: PreparedData, tmp_path: Path, changes: dict[str, Any]
) -> None:
    train_toy(toy_data, tmp_path / "run", model=replace(TINY_MODEL, **changes), epochs=3)

    losses = losses_of(tmp_path / "run", "loss_reverse")
    assert losses[-1] < losses[0] - 0.1


def test_the_loss_weighs_the_directions_and_measures_all(toy_data: PreparedData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_toy(toy_data, run, epochs=4, regular_weight=1.0)

    assert all(record["loss_reverse"] > 1 for record in read_metrics(run))
    assert losses_of(run) == losses_of(run, "loss_regular")
    assert losses_of(run, "loss_regular")[-1] < losses_of(run, "loss_reverse")[-1] - 0.5


def test_runs_of_one_process_have_each_their_precision(toy_data: PreparedData, tmp_path: Path) -> None:
    """Rounding to bf16 shows in the loss, and no more than that."""
    for name, precision in (("before", "float32"), ("bf16", "bf16"), ("after", "float32")):
        train_toy(toy_data, tmp_path / name, max_steps=2, precision=precision)

    exact, rounded = (losses_of(tmp_path / name) for name in ("before", "bf16"))
    assert exact == losses_of(tmp_path / "after") != rounded
    assert rounded == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("content", [b"3\n", b"\xff\xfe\n", b'{"kind": 1}\n'])
def test_damaged_metrics_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(content)

    with pytest.raises(RunError, match=r"metrics\.jsonl, line 1 is damaged\. Remove that line"):
        read_metrics(tmp_path)


@pytest.mark.parametrize(
    ("kind", "processes", "message"),
    [
        (DistributedType.FSDP, 2, "Training under FSDP is not possible: no process has all the weights"),
        (DistributedType.DEEPSPEED, 2, "Training under DEEPSPEED is not possible"),
        (DistributedType.NO, 1, "2 processes were launched, but each would train by itself"),
    ],
)
def test_processes_that_would_not_train_one_whole_model_are_refused(
    kind: DistributedType, processes: int, message: str, toy_data: PreparedData, tmp_path: Path
) -> None:
    joined = SimpleNamespace(distributed_type=kind, num_processes=processes)

    with (
        patch.dict("os.environ", WORLD_SIZE="2"),
        patch("bidibeam.training.loop.Accelerator", return_value=joined),
        pytest.raises(TrainingError, match=message),
    ):
        train_toy(toy_data, tmp_path / "run")

    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("kind", "name", "value", "rule"),
    [
        (TrainingSettings, "seed", -1, "0 or more, and below 2^63"),
        (TrainingSettings, "seed", 2**63, "0 or more, and below 2^63"),
        (TrainingSettings, "keep", "first", "one of best, last"),
        (TrainingSettings, "epochs", 0, "at least 1"),
        (TrainingSettings, "learning_rate", 0.0, "a positive number"),
        (TrainingSettings, "regular_weight", 1.5, "between 0 and 1"),
        (TrainingSettings, "plateau_factor", 0.0, "above 0 and at most 1"),
        (TrainingSettings, "precision", "int4", "one of auto, float32, bf16"),
        (TrainingSettings, "save_every", -1, "0 or more"),
        (TrainingSettings, "batch_size", 10**20, "at most 1,000,000,000"),
        (FineTuneSettings, "max_steps", 10**20, "at most 1,000,000,000"),
        (FineTuneSettings, "learning_rate", float("nan"), "a positive number"),
        (FineTuneSettings, "label_smoothing", 1.0, "at least 0 and below 1"),
        (FineTuneSettings, "max_response_length", 1, "at least 2"),
        (FineTuneSettings, "seed", -1, "0 or more, and below 2^32"),
        (FineTuneSettings, "weight_decay", -1.0, "0 or more"),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind: Any, name: str, value: Any, rule: str) -> None:
    section = "training." if kind is TrainingSettings else ""
    message = re.escape(f"{section}{name} must be {rule}, not {value!r}.")
    with pytest.raises(SettingsError, match=f"^{message}$"):
        kind(**{name: value})
