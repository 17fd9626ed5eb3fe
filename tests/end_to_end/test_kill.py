"""Real processes: killed for real, and several that train together."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bidibeam.data.prepared import PreparedData
from bidibeam.training import state
from bidibeam.training.logs import read_metrics
from tests.unit.cli.calls import called

SIZES = {"embedding": 16, "encoder": 16, "decoder": 32, "attention": 16, "readout": 24}
SETTINGS = [f"model.{name}_size={size}" for name, size in SIZES.items()]
SETTINGS += ["training.epochs=2", "training.batch_size=32", "training.save_every=7"]
SETTINGS += ["training.tensorboard=false"]
FLAGS = [word for setting in SETTINGS for word in ("--set", setting)]
BIDIBEAM = [sys.executable, "-m", "bidibeam.cli.main"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True, **options)


def run_and_kill(command: list[str], is_due: Callable[[], bool], **options: Any) -> bytes:
    """SIGKILL once it is due: at whatever it is doing just then; return what it printed."""
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes, **options) as process:
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if is_due():
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)
        printed, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, "it was over before it could be killed"
    return bytes(printed)


def test_a_run_killed_with_sigkill_and_resumed_equals_one_that_was_left_alone(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [*BIDIBEAM, "train", str(toy_data.path), *FLAGS, "--out"]

    def has_checkpoint() -> bool:
        newest = state.newest(killed)
        return newest is not None and int(newest.name.removeprefix("step-")) >= 7

    run([*command, str(whole)])
    run_and_kill([*command, str(killed)], has_checkpoint)
    resumed = run([*command, str(killed), "--resume"])

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


def test_two_processes_share_the_pairs_and_resume_together(
    toy_data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `accelerate launch` and torchrun start them."""
    monkeypatch.setitem(ENVIRONMENT, "ACCELERATE_USE_CPU", "true")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*launcher, *BIDIBEAM[1:], "train", str(toy_data.path), *FLAGS]

    for out, steps, resume in ((whole, 30, []), (parts, 11, []), (parts, 30, ["--resume"])):
        run([*command, "--out", str(out), "--set", f"training.max_steps={steps}", *resume], timeout=120)

    one, other = state.newest(whole), state.newest(parts)
    assert one is not None
    assert other is not None
    assert {path.name for path in one.iterdir()} >= {"random-0.safetensors", "random-1.safetensors"}
    for name in ("model.safetensors", "optimizer.safetensors", "random-1.safetensors"):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    evaluations = [record for record in read_metrics(whole) if record["kind"] == "validation"]
    assert evaluations[0]["step"] < 25  # an epoch of 40 batches of 32 is 20 steps for each of two
    assert evaluations[-1]["loss"] < evaluations[0]["loss"]


SLOW = """
import pathlib, time

def same(hypotheses, references):
    with pathlib.Path("calls.txt").open("a") as calls:
        calls.write(hypotheses[0].text + "\\n")
    time.sleep(0.1)
    return [[float(one.text == other.text) for other in references] for one in hypotheses]
"""
SOURCES = 10


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
    command = [*BIDIBEAM, "rerank", "lists.jsonl", "--similarity", "slow:same", "--n-best"]
    undisturbed = run([*command, str(whole / "out.jsonl")], cwd=tmp_path)
    assert compared(tmp_path) == [f"a{i}" for i in range(SOURCES)]

    def is_begun() -> bool:
        return partial.exists() and partial.read_bytes().count(b"\n") >= 3

    printed = run_and_kill([*command, str(killed / "out.jsonl")], is_begun, cwd=tmp_path)
    done = partial.read_bytes().count(b"\n")
    compared(tmp_path)
    resumed = run([*command, str(killed / "out.jsonl"), "--resume"], cwd=tmp_path)

    assert 3 <= done < SOURCES
    assert printed.count(b"\n") >= done
    assert undisturbed.stdout.startswith(printed)
    assert compared(tmp_path) == [f"a{i}" for i in range(done, SOURCES)]
    assert resumed.stdout == undisturbed.stdout == b"".join(b"b%d\n" % i for i in range(SOURCES))
    assert (killed / "out.jsonl").read_bytes() == (whole / "out.jsonl").read_bytes()
    assert [path.name for path in killed.iterdir()] == ["out.jsonl"]


CONFIG = {"model_type": "bart", "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
CONFIG |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
INTERRUPTED = {
    "decode": "The same command with --resume goes on from what is done.",
    "train": "The same command with --resume goes on from what is done.",
    "tune": "The same command begins again.",
}


def files_of(folder: Path) -> dict[str, bytes]:
    """What a folder holds, but for files that tell times or where it is."""
    uncompared = {"metrics.jsonl", "tuned.svg"}
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in uncompared]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("name", "by"), [("decode", signal.SIGTERM), ("train", signal.SIGINT), ("tune", signal.SIGTERM)]
)
def test_an_interrupted_command_says_how_to_go_on_and_then_ends_as_if_nothing_had_happened(
    name: str, by: signal.Signals, toy_run: Path, toy_data: PreparedData, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        shutil.copytree(toy_run, folder / "run", ignore=shutil.ignore_patterns("training", "tensorboard"))

    def words(folder: Path) -> list[str]:
        if name == "tune":
            return [name, str(folder / "run"), "--beam-size", "2", "--sources", "9"]
        if name == "decode":
            source, out = str(toy_data.path / "test.jsonl"), str(folder / "out.jsonl")
            return [name, str(toy_run), source, "--beam-size", "4", "--batch-size", "3", "--n-best", out]
        base = ["--base", str(tmp_path / "config.json"), "--direction", "both"]
        settings = ["max_steps=12", "save_every=3", "batch_size=32", "tensorboard=false"]
        flags = [word for setting in settings for word in ("--set", setting)]
        return [name, str(toy_data.path), *base, *flags, "--out", str(folder / "model")]

    def is_due(process: int) -> bool:
        if name == "decode":
            partial = killed / "out.jsonl.partial"
            return partial.exists() and partial.stat().st_size > 0
        if name == "train":
            return (killed / "model" / "training" / "step-00000003").exists()
        return "libtorch" in Path(f"/proc/{process}/maps").read_text()  # it is still starting

    undisturbed = called(*words(whole))
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*BIDIBEAM, *words(killed)], env=ENVIRONMENT, **pipes) as process:
        while process.poll() is None and not is_due(process.pid):
            time.sleep(0.002)
        process.send_signal(by)
        _, told = process.communicate()
    resumed = called(*words(killed), *(["--resume"] if "--resume" in INTERRUPTED[name] else []))

    assert (process.returncode, "Traceback" in told) == (128 + by, False)
    assert told.endswith(f"Interrupted. {INTERRUPTED[name]}\n")
    assert (resumed.status, resumed.out) == (0, undisturbed.out)
    assert files_of(killed) == files_of(whole)
