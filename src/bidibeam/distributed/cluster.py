"""A Ray cluster: connecting to one or starting it, sharing it out, and what Ray raises as sentences."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bidibeam.errors import RayError, RayMissingError, SettingsError, describe_error

LOCAL = "local"
"""What Ray calls a cluster of this machine alone, which ends with the job."""
WAIT_S = 30.0
"""How long a cluster may take to answer."""
ROUNDING = 1e-9
STORE_BYTES = 256 << 20
"""Memory for objects of a local cluster, where only names and counts travel."""
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
                f"GPUs asked for: {wanted * gpus:g}, {gpus:g} for each of {wanted} `processes`. GPUs of the "
                f"cluster: {there:g}, room for {most}. Ask for fewer by `processes` or `gpus`."
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
def connected(ray: Any, address: str | None) -> Iterator[None]:
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
        raise RayError(f"Ray cannot be started ({describe_error(error)}).") from error
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
def explaining(ray: Any) -> Iterator[None]:
    """Turn what Ray raises over its own processes into a sentence, and leave its progress as the only log."""
    logger = logging.getLogger("ray.data")

    def is_calm(record: logging.LogRecord) -> bool:
        return record.levelno < logging.ERROR

    logger.addFilter(is_calm)
    try:
        yield
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())
        raise RayError(
            f"Ray gave up ({reason[:300]}). The same command goes on with what is missing."
        ) from error
    finally:
        logger.removeFilter(is_calm)
