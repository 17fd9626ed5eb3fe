"""A job on Ray Data: one task a shard, for actors that load the model once."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from bidibeam.distributed.job import BEGUN, Job, Manifest, Outcome, find_shards
from bidibeam.distributed.shards import (
    PARQUET,
    Rejected,
    ShardError,
    TooManyRejectedError,
    read_shard,
    write_answers,
)
from bidibeam.distributed.storage import Storage
from bidibeam.errors import (
    BidibeamError,
    InputError,
    RayMissingError,
    SettingsError,
    WorkerError,
    describe_error,
)

if TYPE_CHECKING:
    from bidibeam.distributed.shards import Answering

LOCAL = "local"
"""What Ray calls a cluster of this machine alone, which ends with the job."""
WAIT_S = 30.0
"""How long a cluster may take to answer."""
STORE_BYTES = 256 << 20
"""Memory for objects of a local cluster, where only names and counts travel."""
MOST_TRIES = 3
"""So many workers may die over a shard."""
CONNECT = "import sys, ray; ray.init(sys.argv[1], logging_level='ERROR', log_to_driver=False)"


@dataclass(frozen=True)
class Cluster:
    """Where a job runs, and on how much of it; None leaves a choice to what is there.

    Attributes:
        address: Of a running cluster, "auto" for one of this machine; by default `RAY_ADDRESS`, or else a
            cluster is started here.
        processes: Actors; by default one for each GPU, or where there is none for each core.
        gpus: GPUs of each actor; by default 1 where there are any.
    """

    address: str | None = None
    processes: int | None = None
    gpus: float | None = None


@dataclass(frozen=True)
class Share:
    """How many actors there are, and what each has of the cluster."""

    processes: int
    cpus: float
    gpus: float

    @classmethod
    def of(cls, cluster: Cluster, resources: Mapping[str, float], shards: int) -> Share:
        """Share a cluster's resources out; a SettingsError says that it has not so many GPUs."""
        cores, there = max(1.0, resources.get("CPU", 1.0)), resources.get("GPU", 0.0)
        gpus = float(there > 0) if cluster.gpus is None else cluster.gpus
        most = int(there // gpus) if gpus else int(cores)
        wanted = cluster.processes or max(1, most)
        if wanted * gpus > there:
            raise SettingsError(
                f"`processes` {wanted} with `gpus` {gpus:g} each need {wanted * gpus:g} GPUs, and Ray has "
                f"{there:g}. Ask for fewer of either."
            )
        processes = max(1, min(wanted, shards))
        cpus = cores / processes
        return cls(processes, float(int(cpus)) if cpus >= 1 else cpus, gpus)

    def __str__(self) -> str:
        gpus = f", GPUs: {self.gpus:g}" if self.gpus else ""
        return f"Actors: {self.processes}; of each, cores: {self.cpus:g}{gpus}."

    @property
    def resources(self) -> dict[str, float]:
        """What Ray reserves for each actor."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}


class ShardWorker:
    """An actor that answers whole shards.

    What goes wrong comes back as a value: Ray would try again what cannot succeed.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._answering: Answering | None = None
        self._source, self._out = Storage(job.source), Storage(job.out)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """What came of a batch of one shard."""
        (name,) = batch["shard"]
        began, outcome = time.perf_counter(), Outcome(str(name))
        try:
            self._perform(outcome)
        except ShardError as error:
            outcome.failed = str(error)
        except Exception as error:
            _take_fatal(outcome, error)
        outcome.seconds = round(time.perf_counter() - began, 3)
        return {"outcome": [json.dumps(asdict(outcome))]}

    def _perform(self, outcome: Outcome) -> None:
        name, job = outcome.shard, self._job
        output, aside = job.output_of(name), job.rejected_of(name)
        if self._out.has(output):  # the job was killed before it was noted
            outcome.rows = _count_rows(self._out, output)
            outcome.rejected = _count_rows(self._out, aside) if self._out.has(aside) else 0
            return
        marks = list(self._begin(name))
        answering = self._answering = self._answering or job.task.build()
        rejected = Rejected(name, job.max_rejected)
        sources = read_shard(self._source, name, answering.begin_shard(), rejected)
        try:
            with self._out.write(output) as stream:
                answers = answering.answers(sources)
                how: Any = {"format_name": job.format_name, "replies_only": job.replies_only}
                outcome.rows = write_answers(answers, answering, stream, **how)
                self._set_aside(aside, rejected)
        except TooManyRejectedError:
            self._set_aside(aside, rejected)
            raise
        finally:
            outcome.rejected = len(rejected.rows)
            for mark in marks:
                self._out.remove(mark)

    def _begin(self, name: str) -> Iterator[str]:
        """Mark a shard as begun once more; the marks. Refuse one over which several workers have died."""
        for number in count(1):
            mark = f"{BEGUN}/{name}.{number}"
            if number > MOST_TRIES:
                raise ShardError(
                    f"{MOST_TRIES} workers died over {name}, perhaps for want of memory: make it smaller, or "
                    "use a smaller batch."
                )
            yield mark
            if not self._out.has(mark):
                with self._out.write(mark):
                    return

    def _set_aside(self, name: str, rejected: Rejected) -> None:
        if rejected.rows:
            with self._out.write(name) as stream:
                for row in rejected.rows:
                    stream.write(
                        json.dumps(row, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"
                    )


def _take_fatal(outcome: Outcome, error: Exception) -> None:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        outcome.fatal = "There is not enough memory; a smaller batch, beam or vocabulary needs less."
    elif isinstance(error, BidibeamError):
        outcome.fatal = str(error)
    elif isinstance(error, OSError) and error.strerror:
        outcome.fatal = f"{error.filename}: {error.strerror}."
    else:
        outcome.fatal, outcome.is_bug = f"{type(error).__name__}: {describe_error(error)}", True


def _count_rows(storage: Storage, name: str) -> int:
    with storage.open(name) as file:
        if not name.endswith(PARQUET):
            return sum(1 for _ in file)
        from pyarrow import parquet

        return int(parquet.ParquetFile(file).metadata.num_rows)


def run_job(job: Job, cluster: Cluster, tell: Callable[[str], None] = lambda _: None) -> Manifest:
    """Do what is missing of a job; what it says of itself is told in sentences.

    Raises:
        RayMissingError: If Ray is not installed.
        SettingsError: If the folder holds another job, or there are fewer GPUs than asked for.
        InputError: If there are no shards, some cannot be read, or too many rows cannot.
        WorkerError: If Ray gives up.
    """
    ray = import_ray()
    shards = find_shards(job.source)
    manifest = Manifest(job, shards)
    already = len(shards) - len(manifest.missing)
    if already == len(shards) and manifest.content.is_done:
        tell(f"All {len(shards):,} shards were done already.")
        return manifest
    with _connected(ray, cluster.address):
        share = Share.of(cluster, ray.cluster_resources(), len(manifest.missing))
        job = replace(job, task=job.task.using(max(1, int(share.cpus)), has_gpu=share.gpus > 0))
        described = _describe(ray, job, share)
        if described["told"]:
            tell(f"Strategy: {described['told']}")
        manifest.agree(described["signature"], described["batch_size"])
        done = f", {already:,} of them done already" if already else ""
        tell(f"Shards: {len(shards):,}{done}. {share}")
        try:
            with _explaining(ray):
                for outcome in _answer_shards(job, manifest.missing, share):
                    manifest.add(outcome)
                    _check(job, manifest, outcome)
        finally:
            manifest.storage.remove_folder(BEGUN)
            manifest.write()
    if failed := manifest.content.failed:
        name, reason = next(iter(failed.items()))
        others = f", the first of them {name}" if len(failed) > 1 else ""
        raise InputError(
            f"{len(failed):,} of {len(shards):,} shards could not be done{others}: {reason} Mend it, and the "
            "same command does what is missing."
        )
    return manifest


def _check(job: Job, manifest: Manifest, outcome: Outcome) -> None:
    """Stop the job where it cannot go on, or too many rows cannot be read."""
    rejected = sum(done.rejected for done in manifest.content.shards.values())
    rejected += 0 if outcome.is_done else outcome.rejected
    if rejected > job.max_rejected:
        reason = f" ({outcome.fatal})" if outcome.fatal else ""
        raise InputError(
            f"{rejected:,} rows cannot be read{reason}: {job.out}/{job.rejected_of(outcome.shard)} has those "
            f"of {outcome.shard}. Mend them, or allow more by max_rejected, which is {job.max_rejected}."
        )
    if outcome.is_bug:
        raise RuntimeError(outcome.fatal)
    if outcome.fatal:
        raise InputError(outcome.fatal)


def _answer_shards(job: Job, names: list[str], share: Share) -> Iterator[Outcome]:
    """What comes of shards, as soon as it is known."""
    import ray.data as ray_data

    shards = ray_data.from_items([{"shard": name} for name in names], override_num_blocks=len(names))
    outcomes = shards.map_batches(
        ShardWorker,
        fn_constructor_kwargs={"job": job},
        batch_size=1,
        compute=ray_data.ActorPoolStrategy(size=share.processes),
        **share.resources,
    )
    for row in outcomes.iter_rows():
        yield Outcome(**json.loads(row["outcome"]))


def _describe(ray: Any, job: Job, share: Share) -> dict[str, Any]:
    """How a worker will answer: it loads the model once, so that what is wrong is said before all do."""

    def describe() -> dict[str, Any]:
        try:
            answering = job.task.build()
        except Exception as error:
            outcome = Outcome("")
            _take_fatal(outcome, error)
            return {"fatal": outcome.fatal, "is_bug": outcome.is_bug}
        return {
            "signature": str(answering.signature),
            "batch_size": answering.batch_size,
            "told": answering.told,
        }

    with _explaining(ray):
        described: dict[str, Any] = ray.get(ray.remote(**share.resources)(describe).remote())
    if "fatal" in described:
        raise (RuntimeError if described["is_bug"] else InputError)(described["fatal"])
    return described


def import_ray() -> Any:
    """Ray, or a RayMissingError that says how to install it."""
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as error:
        if error.name not in ("ray", "pyarrow", "pandas"):
            raise
        raise RayMissingError(
            "Work on many machines needs Ray, which is not installed: pip install 'bidibeam[ray]'"
        ) from error
    return ray


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Connect to a running cluster, or start one on this machine that ends with the block."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unasked
    address = address or os.environ.get("RAY_ADDRESS") or LOCAL
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if address == LOCAL:
        ray.init(LOCAL, include_dashboard=False, object_store_memory=STORE_BYTES, **quiet)
    else:
        _check_answers(address)
        ray.init(address, **quiet)
    try:
        yield
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Connect in a process of its own first, for Ray itself waits for minutes."""
    told = f"There is no Ray cluster at {address}"
    way_out = "Start one by `ray start --head`, or leave the address out to use this machine alone."
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdecimal() and "/" not in host:
            socket.create_connection((host.strip("[]"), int(port)), timeout=WAIT_S / 3).close()
    except (OSError, OverflowError) as error:
        raise SettingsError(f"{told} ({describe_error(error)}). {way_out}") from error
    try:
        command = [sys.executable, "-c", CONNECT, address]
        subprocess.run(command, timeout=WAIT_S, check=True, capture_output=True, text=True)
    except subprocess.TimeoutExpired as error:
        raise SettingsError(f"{told}: nothing answered within {WAIT_S:g} s. {way_out}") from error
    except subprocess.CalledProcessError as error:
        said = (str(error.stderr).strip().splitlines() or ["it ended without a word"])[-1]
        raise SettingsError(f"{told} that this process may use ({said.rstrip('.')}). {way_out}") from error


@contextmanager
def _explaining(ray: Any) -> Iterator[None]:
    """Turn what Ray raises over its own processes into a sentence, and leave its progress as the only log."""
    logger = logging.getLogger("ray.data")

    def is_calm(record: logging.LogRecord) -> bool:
        return record.levelno < logging.ERROR

    logger.addFilter(is_calm)
    try:
        yield
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())
        raise WorkerError(
            f"Ray gave up ({reason[:300]}). The same command goes on with what is missing."
        ) from error
    finally:
        logger.removeFilter(is_calm)
