"""What an actor does with a shard, and how a cluster is shared out: all of it without Ray."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepared import PreparedData
from bidibeam.distributed import workers
from bidibeam.distributed.cluster import Cluster, Share
from bidibeam.distributed.job import BEGUN, MANIFEST, REJECTED, Job
from bidibeam.distributed.tasks import ListAnswerer, RankTask
from bidibeam.distributed.workers import MOST_TRIES, ShardWorker
from bidibeam.errors import SettingsError
from bidibeam.strategies.settings import StrategySettings
from tests.unit.cli.calls import called, write_lines

parquet = pytest.importorskip("pyarrow.parquet")

ROWS = [{"regular": [{"text": "b c"}], "reverse": [{"text": text}]} for text in ("b d", "c", "b c")]
NODE = {"CPU": 8.0, "memory": 1e9}


@dataclass(frozen=True)
class Failing(RankTask):
    """Ranks as it should until something goes wrong."""

    error: Callable[[], BaseException] = MemoryError

    def build(self) -> ListAnswerer:
        raise self.error()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Two good shards of lists, and one with a bad row."""
    (tmp_path / "in").mkdir()
    write_lines(tmp_path / "in" / "a.jsonl", *ROWS)
    write_lines(tmp_path / "in" / "b.jsonl", ROWS[0], "{}", ROWS[1], "{}")
    write_lines(tmp_path / "in" / "c.jsonl", *ROWS)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MANIFEST).touch()
    task = RankTask(StrategySettings.named("bidia"))
    return Job("rerank", str(tmp_path / "in"), str(tmp_path / "out"), task, max_rejected=2)


def work(worker: ShardWorker, name: str) -> dict[str, Any]:
    (told,) = worker({"shard": [name]})["outcome"]
    found: dict[str, Any] = json.loads(told)
    assert found.pop("shard") == name
    assert found.pop("seconds") >= 0
    return {key: value for key, value in found.items() if value}


def tree(job: Job) -> list[str]:
    out = Path(job.out)
    return sorted(
        str(path.relative_to(out)) for path in out.rglob("*") if path.is_file() and path.name != MANIFEST
    )


@pytest.mark.parametrize("format_name", ["jsonl", "parquet"])
def test_a_shard_is_answered_as_rerank_answers_it_and_counted_where_it_is_there(
    job: Job, format_name: str
) -> None:
    job = replace(job, format_name=format_name)
    output = f"a.{format_name}"
    assert work(ShardWorker(job), "a.jsonl") == {"rows": 3}
    first = Path(job.out, output).stat().st_mtime_ns

    assert work(ShardWorker(job), "a.jsonl") == {"rows": 3}
    assert Path(job.out, output).stat().st_mtime_ns == first
    assert tree(job) == [output]
    if format_name == "jsonl":
        alone = Path(job.out, "alone")
        assert called("rerank", f"{job.source}/a.jsonl", "--strategy", "bidia", "--n-best", alone).status == 0
        assert alone.read_bytes() == Path(job.out, output).read_bytes()


def test_the_shard_of_sources_has_the_bytes_of_decode(
    toy_run: Path, toy_data: PreparedData, tmp_path: Path
) -> None:
    from bidibeam.api.recipes import DecoderRecipe, ModelRecipe
    from bidibeam.distributed.tasks import DecodeTask

    search = {"beam_size": 4}
    recipe = DecoderRecipe(ModelRecipe(str(toy_run)), "bidia", search, {"batch_size": 7, "score_other": True})
    job = Job(
        "decode", str(toy_data.path / "test.jsonl"), str(tmp_path), DecodeTask(recipe).using(1, has_gpu=False)
    )
    (tmp_path / MANIFEST).touch()

    told = work(ShardWorker(job), "test.jsonl")

    flags = ("--beam-size", "4", "--batch-size", "7", "--strategy", "bidia", "--n-best", tmp_path / "alone")
    assert called("decode", toy_run, job.source, *flags).status == 0
    assert (tmp_path / "test.jsonl").read_bytes() == (tmp_path / "alone").read_bytes()
    assert told == {"rows": len((tmp_path / "alone").read_bytes().splitlines())}


def test_rejected_rows_go_to_a_shard_of_their_own_and_are_counted_again(job: Job) -> None:
    for _ in range(2):
        assert work(ShardWorker(job), "b.jsonl") == {"rows": 2, "rejected": 2}

    assert tree(job) == [f"{REJECTED}/b.jsonl", "b.jsonl"]
    rows = [json.loads(line) for line in Path(job.out, REJECTED, "b.jsonl").read_text().splitlines()]
    assert [(row["shard"], row["line"], row["row"]) for row in rows] == [
        ("b.jsonl", 2, "{}"),
        ("b.jsonl", 4, "{}"),
    ]
    assert '"regular" and "reverse" are both missing' in rows[0]["reason"]


def test_too_many_rejected_rows_leave_no_answers_but_say_which(job: Job) -> None:
    told = work(ShardWorker(replace(job, max_rejected=1)), "b.jsonl")

    assert told.pop("fatal").startswith("b.jsonl, line 4: ")
    assert told == {"rejected": 2}
    assert tree(job) == [f"{REJECTED}/b.jsonl"]


def test_rows_that_were_mended_are_rejected_no_more(job: Job) -> None:
    work(ShardWorker(replace(job, max_rejected=1)), "b.jsonl")
    write_lines(Path(job.source, "b.jsonl"), *ROWS)

    assert work(ShardWorker(job), "b.jsonl") == {"rows": 3}
    assert tree(job) == ["b.jsonl"]


def test_a_damaged_shard_leaves_nothing_and_the_worker_goes_on(job: Job) -> None:
    Path(job.source, "d.jsonl.gz").write_bytes(b"\x1f\x8bdamaged")
    worker = ShardWorker(job)

    told = work(worker, "d.jsonl.gz")

    assert told.keys() == {"failed"}
    assert told["failed"].startswith("d.jsonl.gz cannot be read after line 0: ")
    assert work(worker, "gone.jsonl") == {"failed": "gone.jsonl cannot be opened: No such file or directory."}
    assert work(worker, "a.jsonl") == {"rows": 3}
    assert tree(job) == ["a.jsonl"]


def test_a_shard_over_which_workers_died_is_given_up_in_the_end(job: Job) -> None:
    """A worker that is killed leaves its mark."""
    marks = Path(job.out, BEGUN, "a.jsonl.{}")
    marks.parent.mkdir()
    for number in range(1, MOST_TRIES):
        Path(str(marks).format(number)).touch()
    assert work(ShardWorker(job), "a.jsonl") == {"rows": 3}
    assert tree(job) == ["a.jsonl"]

    Path(job.out, "a.jsonl").unlink()
    for number in range(1, MOST_TRIES + 1):
        Path(str(marks).format(number)).touch()
    told = work(ShardWorker(job), "a.jsonl")
    assert told["failed"].startswith(
        "3 workers died over a.jsonl, perhaps for want of memory: make it smaller"
    )


class OutOfMemoryError(Exception):
    """As PyTorch calls what a GPU raises."""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            MemoryError,
            {"fatal": "There is not enough memory; a smaller batch, beam or vocabulary needs less."},
        ),
        (
            OutOfMemoryError,
            {"fatal": "There is not enough memory; a smaller batch, beam or vocabulary needs less."},
        ),
        (lambda: SettingsError("No."), {"fatal": "No."}),
        (lambda: KeyError("x"), {"fatal": "KeyError: it has no 'x'", "is_bug": True}),
    ],
)
def test_what_goes_wrong_comes_back_as_a_value(
    job: Job, error: Callable[[], BaseException], told: dict[str, Any]
) -> None:
    failing = replace(job, task=Failing(StrategySettings.named("bidia"), error=error))

    assert work(ShardWorker(failing), "a.jsonl") == told
    assert tree(job) == []


def test_a_full_disk_is_told_with_the_file(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(answers: Iterator[object], *_: object, **__: object) -> int:
        next(iter(answers))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(workers, "write_answers", full)

    assert work(ShardWorker(job), "a.jsonl") == {"fatal": f"{job.out}/a.jsonl: No space left on device."}
    assert tree(job) == []


def test_a_machine_that_answers_otherwise_or_elsewhere_is_refused(job: Job) -> None:
    answerer = job.task.build()
    how = (str(answerer.signature), None)
    assert work(ShardWorker(replace(job, how=how)), "a.jsonl") == {"rows": 3}

    told = work(ShardWorker(replace(job, how=(f"{how[0]}|x:1", 8))), "b.jsonl")
    one, other = "x:1, batch_size:8", "batch_size:None"
    assert told == {"fatal": f"One machine answers with {one}, and another with {other}: let them agree."}
    Path(job.out, MANIFEST).unlink()
    told = work(ShardWorker(job), "b.jsonl")
    assert told == {"fatal": f"{job.out} is another folder on another machine: name one that all share."}


@pytest.mark.parametrize(
    ("nodes", "asked", "shards", "share"),
    [
        ([NODE], {}, 99, (8, 1, 0)),
        ([NODE], {}, 3, (3, 1, 0)),  # as many threads as with many shards: a resumed job rounds alike
        ([NODE], {"processes": 2}, 99, (2, 4, 0)),
        ([NODE], {"processes": 3}, 99, (3, 2, 0)),
        ([NODE], {"processes": 16}, 99, (16, 1 / 2, 0)),
        ([NODE], {"processes": 2}, 0, (1, 4, 0)),
        ([{"CPU": 2.0}] * 3, {"processes": 2}, 99, (2, 2, 0)),  # each must fit into one machine
        ([{"CPU": 4.0}] * 3, {"processes": 4}, 99, (4, 2, 0)),
        ([{"CPU": 4.0}, {"CPU": 12.0}], {"processes": 2}, 99, (2, 6, 0)),
        ([{}, NODE], {}, 99, (8, 1, 0)),  # a head that does no work
        ([{}], {"processes": 2}, 99, (2, 0, 0)),
        ([{**NODE, "GPU": 2.0}], {}, 99, (2, 4, 1)),
        ([{**NODE, "GPU": 2.0}] * 2, {}, 99, (4, 4, 1)),
        ([{**NODE, "GPU": 2.0}], {"processes": 1}, 99, (1, 8, 1)),
        ([{**NODE, "GPU": 2.0}, NODE], {"gpus": 0.5}, 99, (4, 2, 0.5)),
        ([{**NODE, "GPU": 1.0}], {"gpus": 0.1}, 99, (10, 1 / 2, 0.1)),
        ([{**NODE, "GPU": 2.0}], {"gpus": 0.0}, 99, (8, 1, 0)),
        ([{"GPU": 2.0}], {}, 99, (2, 0, 1)),
    ],
)
def test_a_cluster_is_shared_out(
    nodes: list[dict[str, float]], asked: dict[str, Any], shards: int, share: tuple[int, float, float]
) -> None:
    found = Share.of(Cluster(**asked), nodes, shards)

    assert (found.processes, found.cpus, found.gpus) == share
    assert found.resources == {"num_cpus": share[1], "num_gpus": share[2]}


@pytest.mark.parametrize(
    ("nodes", "asked", "told"),
    [
        (
            [NODE],
            {"gpus": 1.0},
            "GPUs asked for: 1, 1 for each of 1 `processes`. GPUs of the cluster: 0, room for 0.",
        ),
        (
            [{**NODE, "GPU": 2.0}],
            {"processes": 3},
            "GPUs asked for: 3, 1 for each of 3 `processes`. GPUs of the cluster: 2, room for 2.",
        ),
        (
            [{**NODE, "GPU": 1.0}] * 2,
            {"gpus": 2.0},
            "GPUs of the cluster: 2, room for 0. Ask for fewer",
        ),
    ],
)
def test_more_gpus_than_there_are_are_refused(
    nodes: list[dict[str, float]], asked: dict[str, Any], told: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        Share.of(Cluster(**asked), nodes, 99)
    assert told in str(raised.value)
