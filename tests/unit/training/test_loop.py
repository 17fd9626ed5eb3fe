"""Training learns, stops when it should, and says what is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError, TrainingError
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.training.logs import TrainingObserver, read_metrics
from bidibeam.training.loop import share_plans
from bidibeam.training.settings import TrainingSettings
from tests.conftest import TINY_MODEL
from tests.unit.training.runs import are_same_weights, losses_of, newest, train_toy, weights_of


def test_the_toy_run_has_learnt_its_rule_and_holds_what_it_promises(toy_run: Path) -> None:
    losses = losses_of(toy_run)
    assert losses[-1] < 0.1 < 1 < losses[0]

    files = "config.json model.safetensors tokenizer.json training metrics.jsonl tensorboard"
    assert {path.name for path in toy_run.iterdir()} == {*files.split()}
    state = "model.safetensors optimizer.safetensors random-0.safetensors state.json"
    assert {path.name for path in newest(toy_run).iterdir()} == {*state.split()}
    json.loads((newest(toy_run) / "state.json").read_text(), parse_constant=lambda name: pytest.fail(name))


class Spoiler(TrainingObserver):
    """Changes the network's output after a step, or after every evaluation, so that the first stays best."""

    def __init__(self, *, poison_at: int | None = None) -> None:
        self.network: Any = None
        self.poison_at = poison_at

    def grab(self, network: BidirectionalModel) -> None:
        self.network = network

    def on_step(self, *, step: int) -> None:
        if step == self.poison_at:
            self.network.b_output.data.fill_(torch.nan)

    def on_evaluation(self, **_: Any) -> None:
        self.network.b_output.data[:, 5] += 3


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    spoiler = Spoiler(poison_at=6)
    with pytest.raises(TrainingError, match=r"not finite by step 8 .*last good checkpoint is step-00000004"):
        train_toy(toy_data, tmp_path / "run", initialise=spoiler.grab, observer=spoiler)
    with pytest.raises(TrainingError, match=r"not finite .*lower learning_rate"):
        train_toy(toy_data, tmp_path / "far", learning_rate=1e30)

    for name in ("run", "far"):
        assert all(tensor.isfinite().all() for tensor in weights_of(newest(tmp_path / name)).values())


def test_early_stopping_plateau_and_best_weights(toy_data: PreparedData, tmp_path: Path) -> None:
    run, spoiler = tmp_path / "run", Spoiler()
    settings: dict[str, Any] = {"epochs": 50, "early_stopping": 3, "learning_rate": 1e-6}

    position = train_toy(toy_data, run, initialise=spoiler.grab, observer=spoiler, **settings)

    assert position.stopped_by == "early_stopping"
    assert position.stale_evaluations == 3
    assert position.learning_rate == pytest.approx(1e-6 / 2**3)
    assert not are_same_weights(run, newest(run))
    assert position.best_loss == min(losses_of(run)) == losses_of(run)[0]


def test_a_last_evaluation_that_no_schedule_asks_for_leaves_better_weights(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    steps = {"best": 4, "further": 6}  # evaluated at step 4, and at step 6 because it is the last
    for name, last in steps.items():
        spoiler = Spoiler()
        settings: dict[str, Any] = {"evaluate_every": 4, "max_steps": last, "learning_rate": 1e-6}
        position = train_toy(toy_data, tmp_path / name, initialise=spoiler.grab, observer=spoiler, **settings)

    losses = losses_of(tmp_path / "further")
    assert len(losses) == 2
    assert position.best_loss == losses[0] < losses[1]
    assert are_same_weights(tmp_path / "best", tmp_path / "further")


def test_the_last_weights_are_kept_if_they_are_wanted(toy_data: PreparedData, tmp_path: Path) -> None:
    """A learning rate at which the loss rises in the end: the best weights are not the last."""
    rising: dict[str, Any] = {"epochs": 6, "early_stopping": 0, "learning_rate": 0.3, "plateau_factor": 1.0}
    for keep in ("best", "last"):
        train_toy(toy_data, tmp_path / keep, keep=keep, **rising)

    losses = losses_of(tmp_path / "last")
    assert min(losses) < losses[-1]
    assert are_same_weights(tmp_path / "last", newest(tmp_path / "last"))
    assert not are_same_weights(tmp_path / "best", newest(tmp_path / "last"))


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


@pytest.mark.parametrize("count", [3, 8, 13])
def test_every_process_has_as_many_batches_even_if_they_are_few(count: int) -> None:
    plans: list[Any] = list(range(count))

    shared = [share_plans(plans, 8, rank) for rank in range(8)]

    assert len({len(part) for part in shared}) == 1
    assert set(chain.from_iterable(shared)) == set(plans)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"seed": -1}, "seed must be 0 or more, and below 2^63, not -1."),
        ({"seed": 2**63}, "seed must be 0 or more, and below 2^63, not 9223372036854775808."),
        ({"keep": "first"}, "keep must be one of best, last, not 'first'."),
        ({"epochs": 0}, "epochs must be at least 1, not 0."),
        ({"learning_rate": 0.0}, "learning_rate must be a positive number, not 0.0."),
        ({"regular_weight": 1.5}, "regular_weight must be between 0 and 1, not 1.5."),
        ({"plateau_factor": 0.0}, "plateau_factor must be above 0 and at most 1, not 0.0."),
        ({"precision": "int4"}, "precision must be one of auto, float32, bf16, not 'int4'."),
        ({"save_every": -1}, "save_every must be 0 or more, not -1."),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=rf"^training\.{re.escape(message)}$"):
        TrainingSettings(**setting)
