"""Processes that train together do what one does with the same batches, and may become more or fewer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import DistributedType
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser
from safetensors.torch import load_file

from bidibeam.data.batching import PairBatches
from bidibeam.data.prepared import PreparedData
from bidibeam.hypotheses import Direction
from bidibeam.models.checkpoint import WEIGHTS_FILE, read_config
from bidibeam.models.networks import create_network
from bidibeam.training import state
from bidibeam.training.logs import read_metrics
from tests.conftest import make_once
from tests.end_to_end.processes import COMMON, FROM_ONE, KINDS, train_and_kill, train_kind
from tests.snippets import ROOT, blocks_of
from tests.soak.bases import SMALL
from tests.soak.kills import ENVIRONMENT

LAUNCHER = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
LAUNCHER += ["--main_process_port", "0", "-m"]
PAGE = ROOT / "docs" / "training-on-several-gpus.md"
TOGETHER = {**ENVIRONMENT, "ACCELERATE_USE_CPU": "true"}


def launch(*words: object) -> subprocess.CompletedProcess[str]:
    options: Any = {"cwd": ROOT, "env": TOGETHER, "capture_output": True, "text": True, "timeout": 240}
    return subprocess.run([*LAUNCHER, *map(str, words)], check=False, **options)


@pytest.fixture(scope="session")
def runs(toy_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs by the processes that trained them, from first to last."""

    def make(folder: Path) -> None:
        for kind in KINDS:
            train_kind(kind, toy_data, folder / f"{kind}-one", accumulation=2)
            train_kind(kind, toy_data, folder / f"{kind}-three-batches", **FROM_ONE)
            train_and_kill(kind, toy_data, folder / f"{kind}-one-two", **FROM_ONE)
        done = launch("tests.end_to_end.processes", toy_data.path, folder)
        assert done.returncode == 0, done.stderr
        for kind in KINDS:
            train_kind(kind, toy_data, folder / f"{kind}-two-one", resume=True)

    return make_once(tmp_path_factory, "processes", make)


def test_the_toy_data_have_what_processes_can_get_wrong(toy_data: PreparedData) -> None:
    pairs, size = toy_data.split("train"), COMMON["batch_size"]
    plans = PairBatches(pairs, [Direction.REGULAR], batch_size=size).plan(seed=(0, 0))

    assert len(plans) % 2 == 1
    assert len({plan.tokens for plan in plans}) > 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shared", "alone"), [("two", "one"), ("two-one", "one"), ("one-two", "three-batches")]
)
def test_losses_equal_those_of_one_process(kind: str, shared: str, alone: str, runs: Path) -> None:
    expected, found = (read_metrics(runs / f"{kind}-{name}") for name in (alone, shared))

    assert len(expected) > 7
    for one, other in zip(expected, found, strict=True):
        assert (other["kind"], other["step"]) == (one["kind"], one["step"])
        numbers = [name for name in one if name.startswith("loss") or name == "learning_rate"]
        assert [other[name] for name in numbers] == pytest.approx([one[name] for name in numbers], rel=1e-4)


@pytest.mark.parametrize(
    ("shared", "alone"), [("two", "one"), ("two-one", "one"), ("one-two", "three-batches")]
)
def test_the_position_is_that_of_one_process(shared: str, alone: str, runs: Path) -> None:
    def position(name: str) -> dict[str, Any]:
        newest = state.newest(runs / f"gru-{name}")
        assert newest is not None
        content = json.loads((newest / state.STATE_FILE).read_text())
        return {name: content[name] for name in ("step", "epoch", "batch", "batches_per_step", "stopped_by")}

    assert position(shared) == position(alone)


def test_the_loss_of_an_epoch_counts_every_pair_once(runs: Path, toy_data: PreparedData) -> None:
    config = read_config(runs / "still")
    network = create_network("gru", config.model, config.vocabulary_size, None).eval()
    network.load_state_dict(load_file(runs / "still" / WEIGHTS_FILE))
    batches = PairBatches(toy_data.split("train"), network.directions, batch_size=64)
    with torch.no_grad():
        losses = [network(*batches.batch(plan)) for plan in batches.plan(seed=None)]
    means = sum(each.sums.double() for each in losses) / sum(int(each.tokens) for each in losses)

    (record,) = [each for each in read_metrics(runs / "still") if each["kind"] == "train"]
    found = [record[f"loss_{direction.value}"] for direction in network.directions]
    assert found == pytest.approx(means.tolist(), rel=1e-6)


@pytest.mark.parametrize("name", ["layerdrop", "idle"])
def test_no_process_waits_for_gradients_that_a_step_does_not_have(name: str, runs: Path) -> None:
    assert read_metrics(runs / name)[-1]["step"] == 4


def test_accelerate_knows_every_name_of_the_fsdp_configuration_that_the_page_shows(tmp_path: Path) -> None:
    (block,) = [each for each in blocks_of(PAGE) if each.what == "fsdp.yaml"]
    (tmp_path / "fsdp.yaml").write_text(block.code)

    config = load_config_from_file(str(tmp_path / "fsdp.yaml"))  # refuses names that it does not know

    assert config.distributed_type == DistributedType.FSDP
    assert set(config.fsdp_config) <= set(vars(launch_command_parser().parse_args(["large.py"])))


def test_accelerate_launches_the_command_which_speaks_once(toy_data: PreparedData, tmp_path: Path) -> None:
    out = tmp_path / "run"
    settings = f"{SMALL} --set training.max_steps=3 --set training.tensorboard=false --no-tune".split()

    done = launch("bidibeam", "train", toy_data.path, "--out", out, "--resume", *settings)
    again = launch("bidibeam", "train", toy_data.path, "--out", out, *settings)

    assert done.returncode == 0, done.stderr
    for told in ("There is no run in", "2 processes", "Stopped by max_steps", "Next: bidibeam chat"):
        assert done.stderr.count(told) == 1, done.stderr
    assert (again.returncode, again.stderr.count("already holds a run")) == (1, 1)
