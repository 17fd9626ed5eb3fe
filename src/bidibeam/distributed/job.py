"""A job on shards: what goes where, what is done of it, and what must be the same to go on with it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from bidibeam._version import __version__
from bidibeam.distributed.shards import KINDS, PARQUET, kind_of, read_columns, stem_of
from bidibeam.distributed.storage import HIDDEN, PARTIAL, Storage
from bidibeam.errors import InputError, SettingsError
from bidibeam.fields import build_known
from bidibeam.files import parse_object

if TYPE_CHECKING:
    from bidibeam.distributed.tasks import DecodeTask, RankTask

MANIFEST = "_manifest.json"
"""Its name and those of folders begin as Ray, Spark and we ourselves pass files over that are no shards."""
REJECTED = "_rejected"
"""The folder of rows that could not be read."""
BEGUN = "_begun"
"""The folder of marks that say how often a shard was begun."""
FORMAT_VERSION = 1
WRITE_EVERY_S = 10.0
"""The manifest is written anew so often; what a killed job did since then is counted again."""
READERS = 16
"""Threads that look at columns."""


How = tuple[str, int | None]
"""A signature and a batch size: jobs that have the same have the same answers."""


@dataclass(frozen=True)
class Job:
    """What is done with the shards of a file or folder, and where the answers go."""

    command: str
    source: str
    out: str
    task: DecodeTask | RankTask
    format_name: str = "jsonl"
    replies_only: bool = False
    max_rejected: int = 0
    how: How | None = None  # what each worker must agree with

    def output_of(self, name: str) -> str:
        """What a shard's answers are called."""
        return f"{stem_of(name)}.{self.format_name}"

    def rejected_of(self, name: str) -> str:
        """What the shard of its rejected rows is called."""
        return f"{REJECTED}/{stem_of(name)}.jsonl"


def find_shards(source: str) -> dict[str, int]:
    """The shards in a file or folder by name, with their sizes.

    Raises:
        InputError: If there are none, they are of several kinds, or have different columns.
    """
    storage = Storage(source)
    files = storage.list()
    is_single = storage.is_file()
    names = [name for name in files if kind_of(name) and (is_single or not _is_hidden(name))]
    if not names:
        endings = ", ".join(ending for each in KINDS.values() for ending in each)
        what = "no shard" if is_single else "no folder with shards"
        raise InputError(
            f"{source} is {what if files else f'no file, and {what}'}: their names end in {endings}."
        )
    kinds = {kind_of(name): name for name in reversed(names)}
    if len(kinds) > 1:
        some = " and ".join(sorted(kinds.values()))
        raise InputError(
            f"{source} has shards of several kinds, such as {some}: let each have its own folder."
        )
    stems = {stem_of(name): name for name in reversed(names)}
    if twice := next((name for name in names if stems[stem_of(name)] != name), None):
        raise InputError(f"{stems[stem_of(twice)]} and {twice} differ by their endings alone: rename one.")
    if PARQUET in kinds:
        _check_columns(storage, names)
    return {name: files[name] for name in names}


def _is_hidden(name: str) -> bool:
    return any(part.startswith(HIDDEN) for part in name.split("/"))


def _check_columns(storage: Storage, names: list[str]) -> None:
    """Refuse Parquet shards with different columns; one that is damaged is told later."""

    def read(name: str) -> list[str] | None:
        try:
            return read_columns(storage, name)
        except InputError:
            return None

    with ThreadPoolExecutor(READERS) as pool:
        known = {name: columns for name, columns in zip(names, pool.map(read, names), strict=True) if columns}
    first = next(iter(known), None)
    for name, columns in known.items():
        if first is not None and columns != known[first]:
            raise InputError(
                f"Shards of {storage.place} have different columns: {first} has {', '.join(known[first])}, "
                f"and {name} has {', '.join(columns)}. Give all of them the same."
            )


@dataclass
class Outcome:
    """What came of a shard."""

    shard: str
    rows: int = 0
    rejected: int = 0
    seconds: float = 0.0
    failed: str = ""  # why the shard could not be done; others go on
    fatal: str = ""  # why the job cannot go on
    is_bug: bool = False  # whether that is not for the user to mend

    @property
    def is_done(self) -> bool:
        """Whether its answers are written."""
        return not (self.failed or self.fatal)


@dataclass
class Done:
    """What the manifest says of a shard that is done."""

    bytes: int  # of the shard when it was read
    rows: int
    rejected: int
    seconds: float


@dataclass
class Content:
    """What the manifest of a job says."""

    format_version: int
    command: str
    input: str
    format: str
    replies_only: bool
    bidibeam: str = __version__
    signature: str | None = None
    batch_size: int | None = None
    is_done: bool = False
    rows: int = 0
    rejected: int = 0
    seconds: float = 0.0  # of all workers together
    failed: dict[str, str] = field(default_factory=dict)  # why shards could not be done
    shards: dict[str, Done] = field(default_factory=dict)


def tell_apart(one: How, other: How) -> tuple[str, str]:
    """What each of two ways to answer has that the other has not."""
    first, second = ([*signature.split("|"), f"batch_size:{size}"] for signature, size in (one, other))
    return (
        ", ".join(fact for fact in first if fact not in second) or "nothing",
        ", ".join(fact for fact in second if fact not in first) or "nothing",
    )


class Manifest:
    """What is done of a job, kept in its folder.

    Raises:
        SettingsError: If the folder holds another job, or anything else.
    """

    def __init__(self, job: Job, shards: Mapping[str, int]) -> None:
        self.storage, self._job, self._sizes = Storage(job.out), job, shards
        self.content = Content(FORMAT_VERSION, job.command, job.source, job.format_name, job.replies_only)
        self._there = self.storage.list()
        self._written_at = time.monotonic()
        if MANIFEST in self._there:
            self._take_up()
        elif names := [name for name in self._there if not _is_hidden(name)]:
            raise SettingsError(
                f"{job.out} holds other things, such as {names[0]}. Name an empty or new folder in `out`."
            )
        self.tidy(self._there)

    def _take_up(self) -> None:
        place = f"{self._job.out}/{MANIFEST}"
        with self.storage.open(MANIFEST) as file:
            try:
                found = parse_object(file.read())
            except ValueError as error:
                raise SettingsError(f"{place} is damaged ({error}). Name another folder in `out`.") from error
        new = asdict(self.content)
        for key in ("format_version", "command", "input", "format", "replies_only"):
            if found.get(key) != new[key]:
                raise SettingsError(
                    f"{self._job.out} holds another job: its {key} is {found.get(key)!r}, and here it is "
                    f"{new[key]!r}. Name another folder in `out`."
                )
        try:
            shards = {name: build_known(Done, done) for name, done in found.pop("shards", {}).items()}
            self.content = build_known(Content, {**found, "shards": {}, "failed": {}})
            self.content.shards = {name: shards[name] for name in shards if self._is_there(name)}
        except (SettingsError, TypeError, AttributeError) as error:
            raise SettingsError(f"{place} is damaged ({error}). Name another folder in `out`.") from error
        for name, done in self.content.shards.items():
            if self._sizes.get(name, done.bytes) != done.bytes:
                raise SettingsError(
                    f"{name} had {done.bytes:,} bytes when it was read, and has {self._sizes[name]:,} now. "
                    f"Remove {self._job.out}/{self._job.output_of(name)} to do it again."
                )

    def _is_there(self, name: str) -> bool:
        return self._job.output_of(name) in self._there

    def tidy(self, there: Iterable[str] | None = None) -> None:
        """Remove what workers left that were killed."""
        for name in self.storage.list() if there is None else there:
            if name.endswith(PARTIAL):
                with suppress(FileNotFoundError):
                    self.storage.remove(name)
        self.storage.remove_folder(BEGUN)

    def agree(self, signature: str, batch_size: int | None) -> None:
        """Refuse to go on with a job whose answers came about in another way.

        Raises:
            SettingsError: If they did.
        """
        content = self.content
        has_answers = any(map(self._is_there, {*content.shards, *self._sizes}))  # noted or not
        if has_answers and (content.signature, content.batch_size) != (signature, batch_size):
            old, new = tell_apart((str(content.signature), content.batch_size), (signature, batch_size))
            raise SettingsError(
                f"{self._job.out} holds another job: it was written with {old}, where now there is {new}. "
                "Name another folder in `out`."
            )
        content.signature, content.batch_size, content.bidibeam = signature, batch_size, __version__
        self.write()

    @property
    def missing(self) -> list[str]:
        """The shards that are still to be done, or to be counted."""
        return [name for name in self._sizes if name not in self.content.shards]

    @property
    def rejected(self) -> int:
        """How many rows could not be read, of all shards that are done."""
        return sum(done.rejected for done in self.content.shards.values())

    def add(self, outcome: Outcome) -> None:
        """Take in what came of a shard."""
        if outcome.is_done:
            done = Done(self._sizes[outcome.shard], outcome.rows, outcome.rejected, outcome.seconds)
            self.content.shards[outcome.shard] = done
        elif outcome.failed:
            self.content.failed[outcome.shard] = outcome.failed
        if time.monotonic() - self._written_at > WRITE_EVERY_S:
            self.write()

    def write(self) -> None:
        """Write it."""
        content, done = self.content, self.content.shards.values()
        content.rows, content.rejected = sum(each.rows for each in done), self.rejected
        content.seconds = round(sum(each.seconds for each in done), 3)
        content.is_done = {*self._sizes} <= {*content.shards}
        content.shards = {name: content.shards[name] for name in sorted(content.shards)}
        with self.storage.write(MANIFEST) as stream:
            stream.write(f"{json.dumps(asdict(content), indent=2, ensure_ascii=False)}\n".encode())
        self._written_at = time.monotonic()
