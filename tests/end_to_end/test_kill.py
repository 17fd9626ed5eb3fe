"""Real processes: killed for real, and several that train together."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepared import PreparedData
from bidibeam.training import state
from bidibeam.training.logs import read_metrics
from tests.soak.bases import SMALL
from tests.soak.kills import BIDIBEAM, ENVIRONMENT, heed_signals

SETTINGS = ["epochs=2", "batch_size=32", "save_every=7", "tensorboard=false"]
FLAGS = " ".join([SMALL, *(f"--set training.{setting}" for setting in SETTINGS)]).split()


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(command, check=False, env=ENVIRONMENT, capture_output=True, **options)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done


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


ABORTING = """
import atexit, os
from bidibeam.__main__ import main

atexit.register(os.abort)
main()
"""
"""What PyTorch's threads do to some processes that train together, when Python ends."""


def test_two_processes_share_the_pairs_and_resume_together(
    toy_data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `accelerate launch` and torchrun start them."""
    monkeypatch.setitem(ENVIRONMENT, "ACCELERATE_USE_CPU", "true")
    (tmp_path / "aborting.py").write_text(ABORTING)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*launcher, str(tmp_path / "aborting.py"), "train", str(toy_data.path), *FLAGS]

    for out, steps, resume in ((whole, 30, []), (parts, 11, []), (parts, 30, ["--resume"])):
        settings = ["--set", f"training.max_steps={steps}", *resume]
        run([*command, "--out", str(out), *settings], timeout=120)

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


def has_imported_torch(process: int) -> bool:
    return "libtorch" in Path(f"/proc/{process}/maps").read_text()


def has_signals_wait(process: int) -> bool:
    """Whether they are blocked, as long as the command line is imported."""
    (blocked,) = re.findall(r"SigBlk:\t(\w+)", Path(f"/proc/{process}/status").read_text())
    return bool(int(blocked, 16) & 1 << signal.SIGINT - 1)


@pytest.mark.parametrize(("is_due", "before"), [(has_signals_wait, ""), (has_imported_torch, "\n")])
def test_who_is_interrupted_while_it_starts_says_so_too(
    is_due: Callable[[int], bool], before: str, tmp_path: Path
) -> None:
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": heed_signals}
    command = [sys.executable, "-m", "bidibeam", "tune", str(tmp_path)]
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as process:
        while process.poll() is None and not is_due(process.pid):
            time.sleep(0.0005)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()

    assert process.returncode == 130
    assert told.decode() == f"{before}Interrupted. The same command begins again.\n"
