"""One shard: its rows in, those that cannot be read aside, and rows of answers out."""

from __future__ import annotations

import posixpath
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Protocol

from bidibeam.decoding.decoder import split_batches
from bidibeam.errors import InputError, describe_error
from bidibeam.files import UNPACKING_ERRORS, unpack
from bidibeam.hypotheses import Direction
from bidibeam.interchange.formats import not_finite
from bidibeam.interchange.nbest import to_object
from bidibeam.interchange.on_disk import IdsOnDisk
from bidibeam.interchange.text_lines import JsonObject, has_ending, to_line

if TYPE_CHECKING:
    from bidibeam.decoding.decoder import Answer
    from bidibeam.distributed.storage import Storage
    from bidibeam.hypotheses import Beams
    from bidibeam.scores import Signature

KINDS = {"jsonl": (".jsonl", ".json"), "tsv": (".tsv",), "text": (".txt",), "parquet": (".parquet",)}
"""How names of shards end; those of all but Parquet may be packed, .gz or .xz."""
PARQUET = "parquet"
COLUMNS = ("id", "source", "reference", "references", "response", "regular", "reverse")
"""What is read of Parquet shards, where it is there."""
ROW_GROUP = 1000
"""Rows of a Parquet shard that are read or written at once."""


class Answerer(Protocol):
    """What a worker does with the rows of shards."""

    @property
    def signature(self) -> Signature:
        """How the answers come about."""
        ...

    @property
    def batch_size(self) -> int | None:
        """Sources that are searched at once, where numbers depend on that by rounding."""
        ...

    @property
    def told(self) -> str:
        """What a user may want to know of it."""
        ...

    def begin_shard(self) -> Callable[[JsonObject], Beams]:
        """What makes sources of the rows of the next shard, or says by an InputError why it cannot."""
        ...

    def answers(self, sources: Iterable[Beams]) -> Iterable[Answer]:
        """The answers, in order."""
        ...


@dataclass
class Rejected:
    """Rows that could not be read, each with the reason."""

    shard: str
    most: int
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, number: int, reason: str, row: bytes | dict[str, Any]) -> None:
        """Keep a row, unless there are too many."""
        shown = row.decode(errors="backslashreplace") if isinstance(row, bytes) else row
        self.rows.append({"shard": self.shard, "line": number, "reason": reason, "row": shown})
        if len(self.rows) > self.most:
            raise TooManyRejectedError(reason)


class TooManyRejectedError(InputError):
    """More rows cannot be read than the job allows; says why the last of them cannot."""


class ShardError(InputError):
    """A shard that cannot be read at all, such as one that is damaged."""


def kind_of(name: str) -> str | None:
    """How a shard is written, by the ending of its name; None if it is no shard."""
    return next((kind for kind in KINDS if _has_kind(name, kind)), None)


def _has_kind(name: str, kind: str) -> bool:
    return name.endswith(KINDS[kind]) if kind == PARQUET else has_ending(name, *KINDS[kind])


def stem_of(name: str) -> str:
    """A shard's name without its ending."""
    ending = next((each for each in KINDS.get(kind_of(name) or "", ()) if has_ending(name, each)), "")
    return name[: name.rindex(ending)]


def read_shard(
    storage: Storage, name: str, parse: Callable[[JsonObject], Beams], rejected: Rejected
) -> Iterator[Beams]:
    """The rows of a shard as sources, in order; those that cannot be read are rejected.

    Raises:
        ShardError: If the shard cannot be read at all.
    """
    ids, kind = IdsOnDisk(), kind_of(name) or "text"
    try:
        opened = storage.open(name)
    except (OSError, InputError) as error:
        reason = getattr(error, "strerror", None) or describe_error(error)
        raise ShardError(f"{name} cannot be opened: {reason}.") from error
    with opened as file:
        for number, row in _read_parquet(file, name) if kind == PARQUET else _read_lines(file, name):
            place = f"{posixpath.basename(name)}, line {number}"
            try:
                beams = parse(JsonObject(_parse(row, kind, place), place, number))
            except InputError as error:
                rejected.add(number, str(error), row)
                continue
            if (earlier := ids.find_earlier(beams.id, number)) is not None:
                rejected.add(number, f"{place}: the id {beams.id!r} stands on line {earlier} already.", row)
                continue
            yield beams


def _read_lines(file: IO[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a shard of text, a table or JSON with their numbers, but for blank ones of JSON."""
    is_json, number = kind_of(name) == "jsonl", 0
    try:
        for number, raw in enumerate(unpack(file, name), start=1):
            line = (
                (raw.removeprefix(BOM_UTF8) if number == 1 else raw).removesuffix(b"\n").removesuffix(b"\r")
            )
            if not is_json or line.decode(errors="replace").strip():
                yield number, line
    except UNPACKING_ERRORS as error:
        raise ShardError(f"{name} cannot be read after line {number}: {describe_error(error)}.") from error


def _read_parquet(file: IO[bytes], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a Parquet shard with their numbers."""
    import pyarrow as pa
    from pyarrow import parquet

    number = 0
    try:
        opened = parquet.ParquetFile(file)
        columns = [column for column in opened.schema_arrow.names if column in COLUMNS]
        for batch in opened.iter_batches(ROW_GROUP, columns=columns or None):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ShardError(f"{name} cannot be read after row {number}: {describe_error(error)}.") from error


def _parse(row: bytes | dict[str, Any], kind: str, place: str) -> Mapping[str, Any]:
    """The fields of a row."""
    if isinstance(row, dict):
        return row
    try:
        line = row.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{place}: byte {error.start + 1} (0x{row[error.start]:02x}) is not UTF-8."
        ) from error
    if kind == "jsonl":
        return JsonObject.parse(line, place, 0).fields
    text, *columns = line.split("\t") if kind == "tsv" else [line]
    return {"source": text, "reference": columns[0] if columns and columns[0] else None}


def read_columns(storage: Storage, name: str) -> list[str]:
    """The columns of a Parquet shard, in the order of the alphabet."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with storage.open(name) as file:
            return sorted(parquet.read_schema(file).names)
    except (pa.ArrowException, OSError) as error:
        raise ShardError(f"{name} cannot be read: {describe_error(error)}.") from error


def write_answers(
    answers: Iterable[Answer],
    answerer: Answerer,
    stream: IO[bytes],
    *,
    format_name: str = "jsonl",
    replies_only: bool = False,
) -> int:
    """Write answers as n-best files have them, or replies alone, in JSON lines or Parquet; how many."""
    count = 0
    if format_name != PARQUET:
        for answer in answers:
            line, _ = _spell(answer, answerer, replies_only=replies_only)
            stream.write(f"{line}\n".encode())
            count += 1
        return count
    from pyarrow import RecordBatch, parquet

    schema = _schema(replies_only=replies_only)
    with parquet.ParquetWriter(stream, schema) as writer:
        for batch in split_batches(answers, ROW_GROUP):
            rows = [_spell(answer, answerer, replies_only=replies_only)[1] for answer in batch]
            try:
                writer.write_batch(RecordBatch.from_pylist(rows, schema))
            except UnicodeEncodeError as error:
                raise InputError(
                    "A text holds half a surrogate pair, which JSON can spell and Parquet cannot: write JSON "
                    "lines."
                ) from error
            count += len(batch)
    return count


def _spell(answer: Answer, answerer: Answerer, *, replies_only: bool) -> tuple[str, dict[str, Any]]:
    """A row as a line of JSON, and its fields; numbers that are not finite are refused in both."""
    how: Any = {"signature": answerer.signature, "batch_size": answerer.batch_size}
    fields = to_reply(answer) if replies_only else to_object(answer.beams, answer.ranking, **how)
    try:
        return to_line(fields), fields
    except ValueError as error:
        raise not_finite(answer.beams) from error


def to_reply(answer: Answer) -> dict[str, Any]:
    """A source's reply, and what it was ranked by."""
    first = answer.ranking.entries[:1]
    score = first[0].score if first else None
    return {"id": answer.beams.id, "source": answer.beams.source, "reply": answer.text, "score": score}


def _schema(*, replies_only: bool) -> Any:
    """The columns of n-best files, or of replies alone, the same in every shard."""
    import pyarrow as pa

    text, number, count = pa.string(), pa.float64(), pa.int64()
    source = [("id", text), ("source", text)]
    if replies_only:
        return pa.schema([*source, ("reply", text), ("score", number)])
    hypothesis = pa.struct(
        [
            ("text", text),
            ("tokens", pa.list_(text)),
            ("log_prob", number),
            ("other_log_prob", number),
            ("length", count),
            ("score", number),
            ("finished", pa.bool_()),
        ]
    )
    reply = pa.struct(
        [("text", text), ("score", number), ("direction", text), ("place", count), ("partner", count)]
    )
    ranking = pa.struct([("signature", text), ("batch_size", count), ("replies", pa.list_(reply))])
    lists = [(direction.value, pa.list_(hypothesis)) for direction in Direction]
    references = [("reference", text), ("references", pa.list_(text))]
    return pa.schema([*source, *references, *lists, ("ranking", ranking)])
