"""`--processes` and `--devices`: the bytes of one process, whoever dies in between."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bidibeam.data.prepared import PreparedData
from tests.soak.kills import BIDIBEAM, ENVIRONMENT
from tests.unit.cli.calls import called, write_lines

SEARCH = ("--beam-size", "4", "--batch-size", "3", "--strategy", "bidia")


@pytest.fixture
def decoding(toy_run: Path, toy_data: PreparedData) -> tuple[object, ...]:
    return ("decode", toy_run, toy_data.path / "test.jsonl", *SEARCH)


@pytest.mark.parametrize("flags", [("--processes", "3"), ("--devices", "cpu,cpu")])
def test_decode_writes_the_bytes_of_one_process(
    decoding: tuple[object, ...], tmp_path: Path, flags: tuple[str, ...]
) -> None:
    one = called(*decoding, "--n-best", tmp_path / "one.jsonl")
    several = called(*decoding, "--n-best", tmp_path / "several.jsonl", *flags)

    assert several.out == one.out
    assert (tmp_path / "several.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert several.signature == one.signature
    count = one.told.partition("Work: ")[2].partition(" rows")[0]
    assert f"Work: {count} rows" in several.told  # of all processes together


def test_a_pair_of_hugging_face_models_writes_the_bytes_of_one_process(
    pair: tuple[Path, Path], hf_sources: Path, tmp_path: Path
) -> None:
    command = ("decode", pair[0], "--reverse", pair[1], hf_sources, "--batch-size", "2", "--max-length", "6")
    for name, flags in (("one", ()), ("two", ("--processes", "2"))):
        assert called(*command, *flags, "--n-best", tmp_path / name).status == 0

    assert (tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()


def test_score_and_rerank_write_the_bytes_of_one_process(
    decoding: tuple[object, ...], toy_run: Path, similarities: Callable[[str], str], tmp_path: Path
) -> None:
    beams = tmp_path / "beams.jsonl"
    assert called(*decoding, "--n-best", beams).status == 0
    scoring = ("score", beams, "--model", toy_run, "--overwrite", "--batch-size", "4")
    ranking = ("rerank", beams, "--similarity", similarities("same"))

    for command, flag in ((scoring, "-o"), (ranking, "--n-best")):
        one = called(*command, flag, tmp_path / "one")
        two = called(*command, flag, tmp_path / "two", "--processes", "2")
        assert (one.status, two.out) == (0, one.out)
        assert (tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()
        counted = re.search(r" s: (.+?, by .+?\.)", one.told)  # of score: which numbers it has added
        assert counted is None or counted[1] in two.told


OWN = """
from bidibeam import per_pair

@per_pair
def same_ending(one, other):
    return float(one[-3:] == other[-3:])
"""


def test_a_similarity_of_ones_own_that_cannot_be_sent_is_made_in_every_process(
    decoding: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beams = tmp_path / "beams.jsonl"
    assert called(*decoding, "--n-best", beams).status == 0
    (tmp_path / "last_letters.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    ranking = ("rerank", beams, "--similarity", "last_letters:same_ending")

    one, two = called(*ranking), called(*ranking, "--processes", "2")

    assert one.status == 0, one.err
    assert two.replies == one.replies


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only MKL lets us choose how it rounds")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core is shared out as one thread")
def test_several_processes_round_as_one_does_with_all_cores(tmp_path: Path) -> None:
    """The model in the box has matrices large enough for several threads, which would round otherwise."""
    sources = "".join(f"what do you think of the {word} weather today ?\n" for word in "abcdefghijklmnop")
    written = []
    for flags in ((), ("--processes", "2")):
        command = [*BIDIBEAM, "decode", "-", "--batch-size", "8", "--n-best", str(tmp_path / "out"), *flags]
        environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        subprocess.run(command, input=sources.encode(), env=environment, check=True, capture_output=True)
        written.append((tmp_path / "out").read_bytes())

    assert written[0] == written[1]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the workers in /proc")
def test_a_killed_worker_ends_the_call_in_a_sentence_and_resume_goes_on(
    decoding: tuple[object, ...], tmp_path: Path
) -> None:
    """With one process or another number of them."""
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    one = called(*decoding, "--n-best", whole)
    command = [*BIDIBEAM, *map(str, decoding), "--n-best", str(out)]
    with subprocess.Popen(
        [*command, "--processes", "2"], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        os.kill(_find_worker(process.pid), signal.SIGKILL)
        _, told = process.communicate()

    assert process.returncode == 1
    assert told.decode().count("Error:") == 1
    assert "ended before its work was done (by the signal SIGKILL)" in told.decode()
    assert not out.exists()
    resumed = called(*decoding, "--n-best", out, "--resume", "--processes", "3")
    assert resumed.out == one.out
    assert out.read_bytes() == whole.read_bytes()


def _find_worker(parent: int) -> int:
    """The spawned process that works, not the one that tracks resources."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for process in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            if b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes():
                return int(process)
        time.sleep(0.002)
    raise AssertionError("no worker was started")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--devices cuda:0,cuda:99", "--devices asks for cuda:"),
        ("--devices cpu,cpu --device cpu", "says where to compute: leave out --device."),
        ("--devices cpu,,cpu", "--devices must be names with commas between them, not 'cpu,,cpu'."),
        ("--devices cpu,cpu,cpu --processes 2", "give at least 3 processes."),
        ("--devices nowhere,cpu", "There is no device 'nowhere' here"),
        ("--devices cpu,nowhere", "There is no device 'nowhere' here"),
        ("--device-map auto --processes 2", "--device-map spreads one model out: leave out --processes"),
        ("--processes 0", "0 is not in the range 1<=x<="),
        ("--processes 2 --line-buffered", "leave out --processes."),
    ],
)
def test_what_cannot_be_shared_out_is_refused_in_a_sentence(
    decoding: tuple[object, ...], flags: str, told: str
) -> None:
    if "cuda" in flags and torch.cuda.device_count() > 99:
        pytest.skip("there are as many")
    refused = called(*decoding, *flags.split())

    assert refused.status in (1, 2)
    assert told in refused.told
    assert not refused.out


def test_an_error_in_another_process_is_the_sentence_of_one_process(
    similarities: Callable[[str], str], tmp_path: Path
) -> None:
    lists = write_lines(tmp_path / "lists.jsonl", {"regular": [{"text": "a"}], "reverse": [{"text": "b"}]})
    one, two = (
        called("rerank", lists, "--similarity", similarities("fails"), "--processes", number)
        for number in (1, 2)
    )

    assert two.status == one.status == 1
    assert "The similarity 'my_similarities:fails' failed with KeyError" in one.told
    assert two.told == one.told
