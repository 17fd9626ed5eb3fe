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
from safetensors.torch import load_file

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError, TrainingError
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.training import state
from bidibeam.training.logs import Silence, read_metrics
from bidibeam.training.loop import share_plans
from bidibeam.training.networks import train
from bidibeam.training.settings import TrainingSettings
from tests.conftest import TINY_MODEL
from tests.unit.training.runs import QUICK, weights_of


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
    with pytest.raises(TrainingError, match=r"not finite .*lower learning_rate"):
        train(
            toy_data,
            tmp_path / "far",
            model_settings=TINY_MODEL,
            settings=replace(QUICK, learning_rate=1e30),
        )
    newest = state.newest(tmp_path / "far")
    assert newest is None or all(t.isfinite().all() for t in weights_of(tmp_path / "far").values())


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


def test_the_last_weights_are_kept_if_they_are_wanted(toy_data: PreparedData, tmp_path: Path) -> None:
    """A learning rate at which the loss rises in the end: the best weights are not the last."""
    rising = replace(QUICK, epochs=6, early_stopping=0, learning_rate=0.3, plateau_factor=1.0)
    kept = {}
    for keep in ("best", "last"):
        train(toy_data, tmp_path / keep, model_settings=TINY_MODEL, settings=replace(rising, keep=keep))
        kept[keep] = load_file(tmp_path / keep / "model.safetensors")
    losses = [record["loss"] for record in read_metrics(tmp_path / "last") if record["kind"] == "validation"]
    assert min(losses) < losses[-1]

    newest = state.newest(tmp_path / "last")
    assert newest is not None
    trained = load_file(newest / "model.safetensors")
    assert all(torch.equal(kept["last"][name], trained[name]) for name in kept["last"])
    assert not all(torch.equal(kept["best"][name], trained[name]) for name in kept["best"])


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


def test_the_loss_weighs_the_directions_and_measures_all(toy_data: PreparedData, tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=4, regular_weight=1.0)

    train(toy_data, tmp_path / "run", model_settings=TINY_MODEL, settings=settings)

    records = read_metrics(tmp_path / "run")
    assert all(record["loss_reverse"] > 1 for record in records)
    evaluations = [record for record in records if record["kind"] == "validation"]
    assert all(record["loss"] == record["loss_regular"] for record in evaluations)
    assert evaluations[-1]["loss_regular"] < evaluations[-1]["loss_reverse"] - 0.5


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
        ({"seed": -1}, "training.seed is -1; it must be 0 or more"),
        ({"keep": "first"}, "training.keep is 'first'; it must be one of best, last"),
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
