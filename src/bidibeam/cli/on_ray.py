"""`--executor ray`: what is left of decode and rerank where Ray does the work."""

from __future__ import annotations

import sys
import time
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.cli.console import format_count, format_duration, note, tell
from bidibeam.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bidibeam.distributed.tasks import DecodeTask, RankTask
    from bidibeam.strategies.settings import StrategySettings

FLAGS = {
    "out_folder": "--out",
    "to": "--to",
    "replies_only": "--replies-only",
    "max_rejected": "--max-rejected",
    "ray_address": "--ray-address",
    "gpus": "--gpus",
}
"""What is said of a job on Ray alone, by its parameter."""

LOOKED_AT = 100
"""Lists that decide who ranks all of them, where nobody says."""


def take_executor(flags: dict[str, Any]) -> dict[str, Any] | None:
    """Take what is said of Ray out of a command's parameters; None where the work is done here."""
    is_ray = flags.pop("executor") == "ray"
    given = {name: flags.pop(name) for name in FLAGS}
    for name, value in given.items():
        if not is_ray and value not in (None, False):
            raise SettingsError(f"{FLAGS[name]} is for --executor ray: add that, or leave it out.")
    if not is_ray:
        return None
    if given["out_folder"] is None:
        raise SettingsError(
            "--executor ray needs --out FOLDER: the answers go there, a shard for each shard."
        )
    return given


def check_unused(values: Mapping[str, Any]) -> None:
    """Refuse flags that a job on Ray does not take, by their values."""
    for flag, value in values.items():
        if value not in (None, False, ()):
            raise SettingsError(f"{flag} is not for --executor ray: leave it out.")


def run_on_ray(
    command: str,
    source: str | None,
    task: DecodeTask | RankTask,
    wanted: Mapping[str, Any],
    processes: int | None,
) -> None:
    """Run a job, and say what came of it."""
    if source is None or source == "-":
        raise SettingsError("--executor ray reads a folder of shards, or one of them, not stdin: name it.")
    from bidibeam.distributed.cluster import Cluster
    from bidibeam.distributed.driver import run_job
    from bidibeam.distributed.job import Job

    source, out = _locate(source), _locate(wanted["out_folder"])
    if f"{out}/".startswith(f"{source}/"):
        raise SettingsError(f"--out {wanted['out_folder']} lies in what is read: name another folder.")
    job = Job(
        command,
        source,
        out,
        task,
        format_name=wanted["to"] or "jsonl",
        replies_only=wanted["replies_only"],
        max_rejected=wanted["max_rejected"] or 0,
    )
    began = time.perf_counter()
    with redirect_stdout(sys.stderr):  # where Ray would say which of its processes died
        manifest = run_job(job, Cluster(wanted["ray_address"], processes, wanted["gpus"]), tell)
    content = manifest.content
    took = format_duration(time.perf_counter() - began)
    told = f"{format_count(content.rows, 'row')} of {format_count(len(content.shards), 'shard')} in {out}"
    tell(f"{told}, {format_count(content.rejected, 'row')} rejected; this call took {took}.")
    if content.rejected:
        note(f"{out}/_rejected has the rows that could not be read, each with the reason.")
    tell(f"Signature: {content.signature}")


def _locate(place: str) -> str:
    """A path that workers know, too: absolute, or an address."""
    path = place.removeprefix("file://")
    return path.rstrip("/") if "://" in path else str(Path(path).resolve())


def locate_model(name: str | None) -> str | None:
    """A model's folder as workers find it; a name on the Hub stays as it is."""
    return str(Path(name).absolute()) if name is not None and Path(name).exists() else name


def locate_vectors(settings: StrategySettings | None) -> StrategySettings | None:
    """Settings whose word vectors workers find."""
    if settings is None or settings.vectors is None:
        return settings
    return replace(settings, vectors=settings.vectors.absolute())


def find_default(source: str) -> str:
    """Who ranks the lists of shards where nobody says, by the first lists of the first shard that has any."""
    from bidibeam.distributed.cluster import import_ray
    from bidibeam.distributed.job import find_shards
    from bidibeam.distributed.shards import Rejected, ShardError, read_shard
    from bidibeam.distributed.storage import Storage
    from bidibeam.interchange.nbest import parse_beams
    from bidibeam.strategies.settings import default_for_lists

    import_ray()
    for name in find_shards(source := _locate(source)):
        rows = read_shard(Storage(source), name, parse_beams, Rejected(name, LOOKED_AT))
        with suppress(ShardError):  # which the job tells, when all others are done
            if lists := [*islice(rows, LOOKED_AT)]:
                return default_for_lists(lists)
    return default_for_lists(())
