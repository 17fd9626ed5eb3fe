"""A real process, killed for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

from bidibeam.data.prepared import PreparedData
from bidibeam.training import state

SETTINGS = [
    "model.embedding_size=16",
    "model.encoder_size=16",
    "model.decoder_size=32",
    "model.attention_size=16",
    "model.readout_size=24",
    "training.epochs=4",
    "training.batch_size=32",
    "training.save_every=7",
    "training.tensorboard=false",
]


def command(data: Path, run: Path, *flags: str) -> list[str]:
    overrides = [word for setting in SETTINGS for word in ("--set", setting)]
    return [
        sys.executable,
        "-m",
        "bidibeam.cli.main",
        "train",
        str(data),
        "--out",
        str(run),
        *overrides,
        *flags,
    ]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def kill_after(process: subprocess.Popen[bytes], run: Path, step: int) -> None:
    """SIGKILL once a checkpoint of at least `step` stands: at whatever it is doing just then."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        newest = state.newest(run)
        if newest is not None and int(newest.name.removeprefix("step-")) >= step:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.002)
    process.wait()


def test_a_run_killed_with_sigkill_and_resumed_equals_one_that_was_left_alone(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(toy_data.path, whole), check=True, env=environment(), capture_output=True)

    kills = 0
    for step in (7, 60):
        flags = ["--resume"] if kills else []
        with subprocess.Popen(
            command(toy_data.path, killed, *flags), env=environment(), stderr=subprocess.DEVNULL
        ) as process:
            kill_after(process, killed, step)
        kills += process.returncode == -signal.SIGKILL
    resumed = subprocess.run(
        command(toy_data.path, killed, "--resume"), check=True, env=environment(), capture_output=True
    )

    assert kills == 2, "training was over before it could be killed"
    assert b"from step" in resumed.stderr
    one, other = state.newest(whole), state.newest(killed)
    assert one is not None
    assert other is not None
    assert one.name == other.name
    for name in ("model.safetensors", "optimizer.safetensors"):
        first, second = load_file(one / name), load_file(other / name)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[key], second[key]) for key in first)
    assert (whole / "model.safetensors").read_bytes() == (killed / "model.safetensors").read_bytes()
    assert not list(killed.rglob("*.partial"))
