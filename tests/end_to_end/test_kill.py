"""A real process, killed for real."""

from __future__ import annotations

import json
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
    "training.epochs=2",
    "training.batch_size=32",
    "training.save_every=7",
    "training.tensorboard=false",
]


def command(data: Path, run: Path, *flags: str) -> list[str]:
    overrides = [word for setting in SETTINGS for word in ("--set", setting)]
    called = [sys.executable, "-m", "bidibeam.cli.main"]
    return [*called, "train", str(data), "--out", str(run), *overrides, *flags]


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

    process = subprocess.Popen(command(toy_data.path, killed), env=environment(), stderr=subprocess.DEVNULL)
    kill_after(process, killed, 7)
    resumed = subprocess.run(
        command(toy_data.path, killed, "--resume"), check=True, env=environment(), capture_output=True
    )

    assert process.returncode == -signal.SIGKILL, "training was over before it could be killed"
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


SLOW = """
import pathlib, time

def same(judged, others):
    with pathlib.Path("calls.txt").open("a") as calls:
        calls.write(judged[0].text + "\\n")
    time.sleep(0.1)
    return [[float(one.text == other.text) for other in others] for one in judged]
"""
SOURCES = 10


def rerank(folder: Path, *flags: str) -> list[str]:
    name = ["rerank", "lists.jsonl", "--similarity", "slow:same", "--n-best", str(folder / "out.jsonl")]
    return [sys.executable, "-m", "bidibeam.cli.main", *name, *flags]


def compared(here: Path) -> list[str]:
    """The sources that the similarity was asked about since the last time."""
    calls = here / "calls.txt"
    lines = calls.read_text().splitlines()
    calls.unlink()
    return lines


def test_a_reranking_killed_with_sigkill_and_resumed_equals_one_that_was_left_alone(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    lists = [
        {"regular": [{"text": f"a{i}"}, {"text": f"b{i}"}], "reverse": [{"text": f"b{i}"}]}
        for i in range(SOURCES)
    ]
    (tmp_path / "lists.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lists))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    partial = killed / "out.jsonl.partial"
    undisturbed = subprocess.run(
        rerank(whole), cwd=tmp_path, env=environment(), capture_output=True, check=True
    )
    assert compared(tmp_path) == [f"a{i}" for i in range(SOURCES)]

    with subprocess.Popen(
        rerank(killed), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if partial.exists() and partial.read_bytes().count(b"\n") >= 3:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)
        printed, _ = process.communicate()
    done = partial.read_bytes().count(b"\n")
    compared(tmp_path)
    resumed = subprocess.run(
        rerank(killed, "--resume"), cwd=tmp_path, env=environment(), capture_output=True, check=True
    )

    assert process.returncode == -signal.SIGKILL, "reranking was over before it could be killed"
    assert 3 <= done < SOURCES
    assert printed.count(b"\n") >= done
    assert undisturbed.stdout.startswith(printed)
    assert compared(tmp_path) == [f"a{i}" for i in range(done, SOURCES)]
    assert resumed.stdout == undisturbed.stdout == b"".join(b"b%d\n" % i for i in range(SOURCES))
    assert (killed / "out.jsonl").read_bytes() == (whole / "out.jsonl").read_bytes()
    assert [path.name for path in killed.iterdir()] == ["out.jsonl"]
