"""What Ray's actors do: whole shards, one after another, with a model that is loaded once. No Ray in here."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bidibeam.distributed.job import BEGUN, MANIFEST, Job, Outcome, tell_apart
from bidibeam.distributed.shards import (
    PARQUET,
    Rejected,
    ShardError,
    TooManyRejectedError,
    read_shard,
    write_answers,
)
from bidibeam.distributed.storage import Storage
from bidibeam.errors import OUT_OF_MEMORY, BidibeamError, SettingsError, describe_error, is_out_of_memory

if TYPE_CHECKING:
    from bidibeam.distributed.shards import Answerer

MOST_TRIES = 3
"""So many workers may die over a shard."""


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
            take_fatal(outcome, error)
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
                with suppress(FileNotFoundError):
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


def take_fatal(outcome: Outcome, error: Exception) -> None:
    """Note why a job cannot go on."""
    if is_out_of_memory(error):
        outcome.fatal = OUT_OF_MEMORY
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
