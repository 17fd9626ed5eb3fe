"""A job on Ray Data: one task a shard, for actors that load the model once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bidibeam.distributed.cluster import WAIT_S, Cluster, Share, connected, explaining, import_ray
from bidibeam.distributed.job import REJECTED, Job, Manifest, Outcome, find_shards
from bidibeam.distributed.workers import ShardWorker, take_fatal
from bidibeam.errors import InputError
from bidibeam.files import alone_in


def run_job(job: Job, cluster: Cluster, tell: Callable[[str], None] = lambda _: None) -> Manifest:
    """Do what is missing of a job; what it says of itself is told in sentences.

    Raises:
        RayMissingError: If Ray is not installed.
        RunError: If another call is at work in the folder, where this machine can tell.
        SettingsError: If the folder holds another job, or there are fewer GPUs than asked for.
        InputError: If there are no shards, some cannot be read, or too many rows cannot.
        RayError: If Ray cannot be started, or gives up.
    """
    ray = import_ray()
    if "://" in job.out:
        return _run(ray, job, cluster, tell)
    with alone_in(Path(job.out), "answering shards in"):
        return _run(ray, job, cluster, tell)


def _run(ray: Any, job: Job, cluster: Cluster, tell: Callable[[str], None]) -> Manifest:
    shards = find_shards(job.source)
    manifest = Manifest(job, shards)
    already = len(shards) - len(manifest.missing)
    _check_rejected(job, manifest.rejected)
    with _tidying(manifest), connected(ray, cluster.address):
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
            with explaining(ray):
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
            take_fatal(outcome, error)
            return {"fatal": outcome.fatal, "is_bug": outcome.is_bug}
        return {
            "signature": str(answerer.signature),
            "batch_size": answerer.batch_size,
            "told": answerer.told,
        }

    with explaining(ray):
        promised = ray.remote(**share.resources)(describe).remote()
        if not ray.wait([promised], timeout=WAIT_S)[0]:
            tell(f"Still waiting for the cluster to have room for an actor, or for a model to load. {share}")
        described: dict[str, Any] = ray.get(promised)
    if "fatal" in described:
        raise (RuntimeError if described["is_bug"] else InputError)(described["fatal"])
    return described
