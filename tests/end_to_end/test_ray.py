"""`--executor ray` with real processes: workers and drivers are killed, shards damaged, and rows compared."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import WORDS
from tests.end_to_end.rays import TOKEN, call, cluster, is_over, started, wait_for
from tests.end_to_end.rays import members as members_of
from tests.soak.kills import BIDIBEAM
from tests.unit.cli.calls import called, lines_of, write_lines

pytest.importorskip("ray")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds processes in /proc")

SHARDS, ROWS = 10, 50
SLOW = """
import time

def same(hypotheses, references):
    time.sleep(0.01)
    return [[float(one.text == other.text) for other in references] for one in hypotheses]
"""
SEARCH = ("--beam-size", "3", "--batch-size", "8", "--similarity", "slow:same")
ACTOR = "ray::MapWorker"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 500 sources in ten shards, and a similarity that takes its time."""
    folder = tmp_path_factory.mktemp("ray")
    (folder / "slow.py").write_text(SLOW)
    chooser = random.Random(0)
    for shard in range(SHARDS):
        path = folder / "in" / f"part-{shard % 2}" / f"{shard}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{' '.join(chooser.choices(WORDS, k=4))}\n" for _ in range(ROWS)))
    return folder


@pytest.fixture(scope="module")
def alone(here: Path, toy_run: Path) -> dict[str, bytes]:
    """The answers by shard, as one process writes them."""
    (here / "fast.py").write_text(SLOW.replace("0.01", "0"))
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setattr(sys, "path", [*sys.path])
        for path in sorted((here / "in").rglob("*.txt")):
            out = here / "alone.jsonl"
            search = (*SEARCH[:-1], "fast:same")
            assert called("decode", toy_run, path, *search, "--n-best", out).status == 0
            found[f"{path.parent.name}/{path.stem}.jsonl"] = out.read_bytes().replace(
                b"fast:same", b"slow:same"
            )
            out.unlink()
    return found


@pytest.fixture(scope="module")
def address(here: Path) -> Iterator[str]:
    with cluster(here) as found:
        yield found


def done_in(out: Path) -> dict[str, bytes]:
    """The shards of answers by name."""
    paths = [path for path in out.rglob("*.jsonl") if not path.relative_to(out).parts[0].startswith("_")]
    return {str(path.relative_to(out)): path.read_bytes() for path in paths if not path.name.startswith(".")}


def manifest_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "_manifest.json").read_text())
    return found


def leftovers(out: Path) -> list[Path]:
    return [path for path in out.rglob("*") if path.name.startswith(".") or "_begun" in path.parts]


def test_a_killed_worker_loses_nothing_and_rows_are_those_of_one_process(
    here: Path, alone: dict[str, bytes], toy_run: Path
) -> None:
    out = here / "worker"
    command = [
        *BIDIBEAM,
        "decode",
        toy_run,
        "in",
        *SEARCH,
        "--executor",
        "ray",
        "--out",
        out,
        "--processes",
        2,
    ]
    with started(command, here) as process:
        wait_for(lambda: done_in(out), "a shard")
        os.kill(members_of(process.pid, ACTOR)[0], signal.SIGKILL)
        assert len(done_in(out)) < SHARDS
        printed, told = process.communicate()
        assert process.returncode == 0, told
        wait_for(lambda: is_over(process), "the end of Ray")

    assert done_in(out) == alone
    assert leftovers(out) == []
    assert printed == ""
    assert "Shards: 10. Actors: 2; of each, cores: 1." in told
    assert "500 rows of 10 shards in" in told
    assert "Traceback" not in told
    manifest = manifest_of(out)
    assert (manifest["is_done"], manifest["rows"], manifest["rejected"]) == (True, SHARDS * ROWS, 0)


def test_a_killed_driver_and_a_damaged_shard_lose_nothing_and_repeat_nothing(
    here: Path, alone: dict[str, bytes], toy_run: Path, address: str
) -> None:
    """The same command goes on, on a cluster that goes on, too."""
    out = here / "driver"
    words = ["decode", toy_run, "in", *SEARCH, "--out", out, "--resume", "--processes", 2]
    environment = {**TOKEN, "RAY_ADDRESS": address}
    with started([*BIDIBEAM, *words, "--executor", "ray"], here, environment) as process:
        wait_for(lambda: done_in(out), "a shard")
        process.kill()
        process.communicate()
        wait_for(lambda: is_over(process), "the end of Ray")
    first = {name: (out / name).stat() for name in done_in(out)}
    assert 1 <= len(first) < SHARDS

    missing = next(name for name in alone if name not in done_in(out))
    shard = here / "in" / missing.replace(".jsonl", ".txt")
    whole = shard.read_bytes()
    shard.unlink()
    damaged = shard.with_suffix(".txt.gz")
    damaged.write_bytes(b"\x1f\x8b\x08\x00damaged")
    failed = call(*words, cwd=here, environment=environment)
    assert failed.returncode == 1
    name = missing.replace(".jsonl", ".txt.gz")
    sentence = failed.stderr.splitlines()[-1]
    assert sentence.startswith(
        f"Error: 1 of 10 shards could not be done: {name} cannot be read after line 0: "
    )
    assert sentence.endswith("Mend it, and the same command does what is missing.")
    assert done_in(out).keys() == alone.keys() - {missing}
    assert manifest_of(out)["failed"].keys() == {name}

    damaged.unlink()
    shard.write_bytes(whole)
    resumed = call(*words, "--ray-address", address, cwd=here, environment=TOKEN)

    assert resumed.returncode == 0, resumed.stderr
    assert "Shards: 10, 9 of them done already. Actors: 1; of each, cores: 1." in resumed.stderr
    assert done_in(out) == alone
    assert leftovers(out) == []
    for name, status in first.items():
        assert ((out / name).stat().st_ino, (out / name).stat().st_mtime_ns) == (
            status.st_ino,
            status.st_mtime_ns,
        )


def test_a_job_that_is_terminated_says_so_and_ends_its_cluster(here: Path, toy_run: Path) -> None:
    command = [*BIDIBEAM, "decode", toy_run, "in", *SEARCH, "--executor", "ray", "--out", "terminated"]
    with started(command, here) as process:
        wait_for(lambda: members_of(process.pid, "ray::"), "a worker")
        process.terminate()
        _, told = process.communicate()
        wait_for(lambda: is_over(process), "the end of Ray")

    assert process.returncode == 143, told
    assert told.splitlines()[-1] == "Interrupted. The same command goes on from what is done."


def test_lists_are_ranked_into_parquet_and_rows_that_cannot_be_read_put_aside(
    here: Path, alone: dict[str, bytes], address: str
) -> None:
    """What a job has written is another one's input."""
    lists, out = here / "lists", here / "ranked"
    (lists / "_rejected").mkdir(parents=True)
    (lists / "_manifest.json").write_text("{}")
    (lists / "_rejected" / "a.jsonl").write_text("{}")
    content = [*alone.values()]
    (lists / "a.jsonl").write_bytes(content[0])
    (lists / "b.jsonl").write_bytes(content[1] + b"{}\n")
    words = ["rerank", lists, "--out", out, "--to", "parquet", "--ray-address", address]

    stopped = call(*words, cwd=here, environment=TOKEN)
    assert stopped.returncode == 1
    sentence = stopped.stderr.splitlines()[-1]
    assert sentence.startswith("Error: 1 row cannot be read (b.jsonl, line 51: the fields ")
    assert sentence.endswith("Mend them, or allow more by --max-rejected, which is 0.")
    (rejected,) = lines_of(out / "_rejected" / "b.jsonl")
    assert (rejected["line"], rejected["row"]) == (51, "{}")

    allowed = call(*words, "--max-rejected", 1, cwd=here, environment=TOKEN)
    assert allowed.returncode == 0, allowed.stderr
    assert "100 rows of 2 shards in" in allowed.stderr
    assert "1 row rejected" in allowed.stderr
    assert called("rerank", lists / "a.jsonl", "--n-best", here / "a.jsonl").status == 0
    expected = lines_of(here / "a.jsonl")
    found = parquet.read_table(out / "a.parquet").to_pylist()
    assert [row["ranking"]["replies"] for row in found] == [row["ranking"]["replies"] for row in expected]
    assert [row["ranking"]["signature"] for row in found] == [row["ranking"]["signature"] for row in expected]


def test_what_a_cluster_cannot_do_is_told_in_a_sentence(here: Path, toy_run: Path, address: str) -> None:
    """Also where nothing is left to do."""
    (here / "few").mkdir()
    write_lines(here / "few" / "a.txt", "red")
    flags = ["few", "--ray-address", address, "--out"]
    assert call("decode", toy_run, *flags, here / "one", cwd=here, environment=TOKEN).returncode == 0
    cases: list[tuple[list[object], str]] = [
        (
            [toy_run, *flags, "gpus", "--gpus", 1],
            "GPUs asked for: 1, 1 for each of 1 --processes. GPUs of the cluster: 0",
        ),
        (["nowhere", *flags, "model"], "nowhere"),
        (
            [toy_run, *flags, "one", "--strategy", "longest"],
            "holds another job: it was written with strategy:",
        ),
    ]
    with ThreadPoolExecutor() as pool:
        done = pool.map(lambda case: call("decode", *case[0], cwd=here, environment=TOKEN), cases)
    for refused, (_, told) in zip(done, cases, strict=True):
        assert refused.returncode == 1
        assert refused.stderr.splitlines()[-1].startswith("Error: "), refused.stderr
        assert told in refused.stderr.splitlines()[-1]
        assert refused.stdout == ""
        assert "Traceback" not in refused.stderr


DATASET = """
import sys

import ray
from ray.data import ActorPoolStrategy, from_items

from bidibeam.distributed import BatchDecoder

ray.init(sys.argv[1], logging_level="ERROR", log_to_driver=False)
lines = enumerate(open(sys.argv[3]).read().splitlines(), start=1)
answered = from_items([{"id": str(place), "source": line} for place, line in lines]).map_batches(
    BatchDecoder,
    fn_constructor_kwargs={"model": sys.argv[2], "strategy": "vbs", "search": {"beam_size": 3}},
    batch_size=8,
    compute=ActorPoolStrategy(size=1),
)
answered.write_parquet("answered")
"""


def test_a_dataset_is_answered_by_a_pipeline_of_ones_own(here: Path, toy_run: Path, address: str) -> None:
    path = here / "in" / "part-0" / "0.txt"
    with started([sys.executable, "-c", DATASET, address, toy_run, path], here, TOKEN) as process:
        _, told = process.communicate()
    assert process.returncode == 0, told

    replies = called("decode", toy_run, path, "--strategy", "vbs", "--beam-size", "3").replies
    found = sorted(parquet.read_table(here / "answered").to_pylist(), key=lambda row: int(row["id"]))
    assert [row["reply"] for row in found] == replies
    assert found[0].keys() == {"id", "source", "reply", "score"}
