"""A job on Ray Data: one task a shard, for actors that load the model once."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from bidibeam.distributed.job import (
    BEGUN,
    MANIFEST,
    REJECTED,
    Job,
    Manifest,
    Outcome,
    find_shards,
    tell_apart,
)
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
    from bidibeam.distributed.shards import Answerer

LOCAL = "local"
"""What Ray calls a cluster of this machine alone, which ends with the job."""
WAIT_S = 30.0
"""How long a cluster may take to answer."""
ROUNDING = 1e-9
STORE_BYTES = 256 << 20
"""Memory for objects of a local cluster, where only names and counts travel."""
MOST_TRIES = 3
"""So many workers may die over a shard."""
PASSED_ON = ("MKL_CBWR", "GOMP_SPINCOUNT")
"""What `cli.main` lets libraries know is so in workers too: those of a running cluster do not inherit it."""
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
    def of(cls, cluster: Cluster, nodes: Sequence[Mapping[str, float]], shards: int) -> Share:
        """Share the resources of machines out; a SettingsError says that they have not so many GPUs."""
        there = sum(node.get("GPU", 0.0) for node in nodes)
        gpus = float(there > 0) if cluster.gpus is None else cluster.gpus
        most = _count_room(nodes, 0 if gpus else 1, gpus)
        wanted = cluster.processes or max(1, most)
        if gpus and wanted > most:
            raise SettingsError(
                f"`processes` {wanted} with `gpus` {gpus:g} each need {wanted * gpus:g} GPUs, and Ray has "
                f"{there:g}, which is room for {most}. Ask for fewer of either."
            )
        cores = int(max(node.get("CPU", 0.0) for node in nodes))
        sizes = [*map(float, range(cores, 0, -1)), *(1 / each for each in range(2, wanted + 2)), 0.0]
        cpus = next(each for each in sizes if _count_room(nodes, each, gpus) >= wanted)
        return cls(max(1, min(wanted, shards)), cpus, gpus)  # few shards get no more threads: they round

    def __str__(self) -> str:
        gpus = f", GPUs: {self.gpus:g}" if self.gpus else ""
        return f"Actors: {self.processes}; of each, cores: {self.cpus:g}{gpus}."

    @property
    def resources(self) -> dict[str, float]:
        """What Ray reserves for each actor."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus}


def _count_room(nodes: Sequence[Mapping[str, float]], cpus: float, gpus: float) -> int:
    """For how many actors there is room, each of which must fit into one machine."""
    needed = {name: size for name, size in (("CPU", cpus), ("GPU", gpus)) if size}
    if not needed:
        return sys.maxsize
    rooms = (
        min(int(node.get(name, 0.0) / size + ROUNDING) for name, size in needed.items()) for node in nodes
    )
    return sum(rooms)


class ShardWorker:
    """An actor that answers whole shards.

    What goes wrong comes back as a value: Ray would try again what cannot succeed.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._answerer: Answerer | None = None
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
        with self._begun(name):
            answerer = self._answerer = self._answerer or self._build()
            rejected = Rejected(name, job.max_rejected)
            sources = read_shard(self._source, name, answerer.begin_shard(), rejected)
            how: Any = {"format_name": job.format_name, "replies_only": job.replies_only}
            try:
                with self._out.write(output) as stream:
                    outcome.rows = write_answers(answerer.answers(sources), answerer, stream, **how)
                    outcome.rejected = self._set_aside(aside, rejected)
            except TooManyRejectedError:
                outcome.rejected = self._set_aside(aside, rejected)
                raise

    def _build(self) -> Answerer:
        """Load the model; refuse to answer in another way, or to another place, than other machines do."""
        job, answerer = self._job, self._job.task.build()
        how = str(answerer.signature), answerer.batch_size
        if job.how is not None and job.how != how:
            one, other = tell_apart(job.how, how)
            raise SettingsError(f"One machine answers with {one}, and another with {other}: let them agree.")
        if not self._out.has(MANIFEST):
            raise SettingsError(f"{job.out} is another folder on another machine: name one that all share.")
        return answerer

    @contextmanager
    def _begun(self, name: str) -> Iterator[None]:
        """Mark a shard as begun; marks that are there already are of workers that died over it."""
        marks = [f"{BEGUN}/{name}.{number}" for number in range(1, MOST_TRIES + 1)]
        died = [mark for mark in marks if self._out.has(mark)]
        if len(died) == MOST_TRIES:
            raise ShardError(
                f"{MOST_TRIES} workers died over {name}, perhaps for want of memory: make it smaller, or "
                "use a smaller batch."
            )
        with self._out.write(marks[len(died)]):
            pass
        try:
            yield
        finally:
            for mark in marks[: len(died) + 1]:
                self._out.remove(mark)

    def _set_aside(self, name: str, rejected: Rejected) -> int:
        """Write the rows that were rejected, in place of those of another time; how many."""
        if rejected.rows:
            with self._out.write(name) as stream:
                for row in rejected.rows:
                    stream.write(f"{json.dumps(row, default=str)}\n".encode())
        elif self._out.has(name):
            self._out.remove(name)
        return len(rejected.rows)


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
    _check_rejected(job, manifest.rejected)
    with _tidying(manifest), _connected(ray, cluster.address):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        share = Share.of(cluster, nodes, len(manifest.missing))
        job = replace(job, task=job.task.using(max(1, int(share.cpus)), has_gpu=share.gpus > 0))
        described = _describe(ray, job, share, tell)
        if described["told"]:
            tell(f"Strategy: {described['told']}")
        manifest.agree(*(how := (described["signature"], described["batch_size"])))
        job = replace(job, how=how)
        done = f", {already:,} of them done already" if already else ""
        tell(f"Shards: {len(shards):,}{done}. {share}")
        try:
            with _explaining(ray):
                for outcome in _answer_shards(job, manifest.missing, share) if manifest.missing else ():
                    manifest.add(outcome)
                    _check(job, manifest, outcome)
        finally:
            manifest.write()
    if failed := manifest.content.failed:
        name, reason = next(iter(failed.items()))
        others = f", the first of them {name}" if len(failed) > 1 else ""
        raise InputError(
            f"{len(failed):,} of {len(shards):,} shards could not be done{others}: {reason} Mend it, and the "
            "same command does what is missing."
        )
    return manifest


@contextmanager
def _tidying(manifest: Manifest) -> Iterator[None]:
    try:
        yield
    finally:
        manifest.tidy()


def _check(job: Job, manifest: Manifest, outcome: Outcome) -> None:
    """Stop the job where it cannot go on, or too many rows cannot be read."""
    _check_rejected(job, manifest.rejected + (0 if outcome.is_done else outcome.rejected), outcome.fatal)
    if outcome.is_bug:
        raise RuntimeError(outcome.fatal)
    if outcome.fatal:
        raise InputError(outcome.fatal)


def _check_rejected(job: Job, rejected: int, reason: str = "") -> None:
    if rejected > job.max_rejected:
        because = f" ({reason})" if reason else ""
        rows = "1 row" if rejected == 1 else f"{rejected:,} rows"
        raise InputError(
            f"{rows} cannot be read{because}; {job.out}/{REJECTED} has them, each with the reason. Mend "
            f"them, or allow more by max_rejected, which is {job.max_rejected}."
        )


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


def _describe(ray: Any, job: Job, share: Share, tell: Callable[[str], None]) -> dict[str, Any]:
    """How a worker will answer: it loads the model once, so that what is wrong is said before all do."""

    def describe() -> dict[str, Any]:
        try:
            answerer = job.task.build()
        except Exception as error:
            outcome = Outcome("")
            _take_fatal(outcome, error)
            return {"fatal": outcome.fatal, "is_bug": outcome.is_bug}
        return {
            "signature": str(answerer.signature),
            "batch_size": answerer.batch_size,
            "told": answerer.told,
        }

    with _explaining(ray):
        promised = ray.remote(**share.resources)(describe).remote()
        if not ray.wait([promised], timeout=WAIT_S)[0]:
            tell(f"Still waiting for the cluster to have room for an actor, or for a model to load. {share}")
        described: dict[str, Any] = ray.get(promised)
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
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    quiet = {"logging_level": "ERROR", "log_to_driver": False, "runtime_env": {"env_vars": env}}
    if address == LOCAL:
        quiet |= {"include_dashboard": False, "object_store_memory": STORE_BYTES}
    else:
        _check_answers(address)
    try:
        with _keeping_signals():
            ray.init(address, **quiet)
    except (RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        raise WorkerError(f"Ray cannot be started ({describe_error(error)}).") from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _keeping_signals() -> Iterator[None]:
    """Undo what Ray does to SIGTERM, which is to leave at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit:
        signal.signal(signal.SIGTERM, before)
        signal.raise_signal(signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_answers(address: str) -> None:
    """Connect in a process of its own first, for Ray itself waits for minutes."""
    told = f"There is no Ray cluster at {address}"
    way_out = "Start one by `ray start --head`, or leave the address out to use this machine alone."
    if address.startswith("ray://"):
        raise SettingsError(
            f"{address} is for Ray's client, which Ray Data does not serve: call this on a machine of the "
            "cluster, with the address auto."
        )
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
        raise SettingsError(
            f"{told} that this process may use ({said.rstrip('.')}). If it wants a token, as those of `ray "
            f"start` do, set RAY_AUTH_MODE=token here. {way_out}"
        ) from error


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
