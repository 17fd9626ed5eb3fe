"""Several processes that train together, as `accelerate launch` and torchrun start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bidibeam.data.prepared import PreparedData
from bidibeam.training import state
from bidibeam.training.logs import read_metrics
from tests.end_to_end.test_kill import command


def launch(data: Path, run: Path, *flags: str) -> None:
    _, *module = command(data, run, *flags)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    subprocess.run([*launcher, *module], check=True, env=environment, capture_output=True, timeout=120)


def test_two_processes_share_the_pairs_and_resume_together(toy_data: PreparedData, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    launch(toy_data.path, whole, "--set", "training.max_steps=30")
    launch(toy_data.path, parts, "--set", "training.max_steps=11")
    launch(toy_data.path, parts, "--set", "training.max_steps=30", "--resume")

    one, other = state.newest(whole), state.newest(parts)
    assert one is not None
    assert other is not None
    assert {path.name for path in one.iterdir()} >= {"random-0.safetensors", "random-1.safetensors"}
    for name in ("model.safetensors", "optimizer.safetensors", "random-1.safetensors"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    evaluations = [record for record in read_metrics(whole) if record["kind"] == "validation"]
    assert evaluations[0]["step"] < 25  # an epoch of 40 batches of 32 is 20 steps for each of two
    assert evaluations[-1]["loss"] < evaluations[0]["loss"]
