"""Lines and JSON objects of a file or a pipe, read once, with their numbers for messages."""

from __future__ import annotations

import json
import lzma
import math
import os
import stat
import sys
import weakref
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from bidibeam.errors import InputError
from bidibeam.files import PACKED, parse_json, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from hashlib import blake2b

T = TypeVar("T")

BYTE_ORDER_MARK = "\ufeff"
EXPECTED = {
    str: "a string",
    list: "a list",
    dict: "an object",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
}


class Lines:
    r"""The lines of a file or stream with their numbers, counted from 1, read once and as they are asked for.

    Only \n ends a line, \r\n too; lines come without their ends. `peek` looks ahead and loses nothing, so a
    pipe is read as any file is. A file is closed at its end, and where its reader is given up before. What
    cannot be opened, unpacked or decoded is refused while lines are read.

    Args:
        source: A plain, .gz or .xz file, or a stream that is open already; bytes are read as UTF-8.
        digest: Updated with every line, if given.

    Attributes:
        name: What messages call it.
        size: How many bytes it has, packed as it lies on the disk; None if that is not known.
    """

    def __init__(self, source: Path | IO[bytes] | IO[str], digest: blake2b | None = None) -> None:
        named = source if isinstance(source, Path) else getattr(source, "name", None)
        self.name = str(named) if isinstance(named, str | Path) else "<stream>"
        self.size = _size_of(source)
        self._source: Any = source
        self._raw: Any = None
        self._stream: Iterator[bytes | str] | None = None
        self._digest = digest
        self._number = 0
        self._ahead: deque[tuple[int, str]] = deque()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self

    def __next__(self) -> tuple[int, str]:
        entry = self._ahead.popleft() if self._ahead else self._read()
        if entry is None:
            raise StopIteration
        return entry

    @property
    def position(self) -> int:
        """How many of its bytes were read."""
        if self.size is None or self._raw is None:
            return 0
        return self.size if self._raw.closed else self._raw.tell()

    def place(self, number: int) -> str:
        """What messages call a line."""
        return f"{self.name}, line {number}"

    def peek(self, count: int = 1, *, skip_blank: bool = True) -> list[str]:
        """The next lines, up to so many, without taking them; those that are blank are not counted."""
        lines = [line for _, line in self._ahead if line.strip() or not skip_blank]
        while len(lines) < count and (entry := self._read()) is not None:
            self._ahead.append(entry)
            if entry[1].strip() or not skip_blank:
                lines.append(entry[1])
        return lines[:count]

    def objects(self) -> Iterator[JsonObject]:
        """The JSON object on each line that is not blank."""
        return (JsonObject.parse(line, self.place(number), number) for number, line in self if line.strip())

    def close(self) -> None:
        """Read no further; a file that was opened here is closed."""
        self._stream = iter(())
        if isinstance(self._source, Path) and self._raw is not None:
            self._raw.close()

    def _open(self) -> Iterator[bytes | str]:
        if not isinstance(self._source, Path):
            self._raw = self._source
            return iter(self._source)
        self._raw = self._source.open("rb")
        # Held from outside, the file is never garbage itself, in whatever order the collector takes a cycle.
        weakref.finalize(self, self._raw.close)
        return unpack(self._raw, self.name)

    def _read(self) -> tuple[int, str] | None:
        """The next line that was not looked at; None at the end."""
        try:
            self._stream = self._stream or self._open()
            raw = next(self._stream, None)
        except (EOFError, lzma.LZMAError, zlib.error) as error:
            raise InputError(f"{self.name} cannot be unpacked after line {self._number}: {error}") from error
        except UnicodeDecodeError as error:  # a stream of text, which decodes some way ahead
            raise InputError(
                f"{self.name}: somewhere after line {self._number} the text is not {error.encoding}."
            ) from error
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror or error}.") from error
        if raw is None:
            self.close()
            return None
        self._number += 1
        line = raw if isinstance(raw, str) else _decode(raw, self.place(self._number))
        if self._number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        line = line.removesuffix("\n").removesuffix("\r")
        if self._digest is not None:
            self._digest.update(f"{line}\n".encode("utf-8", "surrogatepass"))
        return self._number, line


def _size_of(source: Path | IO[bytes] | IO[str]) -> int | None:
    try:
        status = source.stat() if isinstance(source, Path) else os.fstat(source.fileno())
    except (OSError, AttributeError):
        return None
    is_counted = stat.S_ISREG(status.st_mode) and "b" in getattr(source, "mode", "rb")
    return status.st_size if is_counted else None


def _decode(raw: bytes, place: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        encoding = "utf-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "latin1"
        raise InputError(
            f"{place}: byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8. "
            f"Convert the file first, for example with iconv -f {encoding} -t utf-8."
        ) from error


LineSource = str | Path | IO[bytes] | IO[str] | Lines
"""What can be read by lines: a file's name, - for stdin, a path, a stream, or lines that are read already."""


def open_lines(source: LineSource, digest: blake2b | None = None) -> Lines:
    """Read a source by lines, unless that has begun already."""
    if isinstance(source, str):
        source = sys.stdin.buffer if source == "-" else Path(source)
    return source if isinstance(source, Lines) else Lines(source, digest)


def has_ending(name: str, *endings: str) -> bool:
    """Whether a file's name has one of the endings, packed or not."""
    path = Path(name)
    return (path.stem if path.suffix in PACKED else path.name).endswith(endings)


def guess_object(lines: Sequence[str]) -> dict[str, Any]:
    """The JSON object that a file's first lines begin with; an empty one if they begin with anything else."""
    try:
        value = parse_json(lines[0]) if lines else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def describe(value: object) -> str:
    """A JSON value as a message shows it: its kind, and as much of it as fits; of others, their type."""
    kinds = {dict: "an object", list: "a list", type(None): "null"}
    shown = {str: "the string", bool: "the boolean", int: "the number", float: "the number"}
    kind = shown.get(type(value))
    if kind is None:
        return kinds.get(type(value), f"a value of the type {type(value).__name__}")
    text = json.dumps(value, ensure_ascii=False)
    return f"{kind} {text if len(text) <= 40 else text[:37] + '...'}"


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object, what messages call it, and the number of its line."""

    fields: Mapping[str, Any]
    place: str
    number: int = 0

    @classmethod
    def parse(cls, line: str, place: str, number: int) -> JsonObject:
        """The object on a line; anything else is refused, as are NaN and infinities, which JSON has not."""
        try:
            value = parse_json(line, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            raise InputError(f"{place}: this is not JSON: {error.msg} at column {error.colno}.") from error
        except ValueError as error:
            raise InputError(f"{place}: this is not usable JSON: {error}.") from error
        return cls.of(value, place, "a JSON object", number)

    @classmethod
    def of(cls, value: object, place: str, expected: str = "an object", number: int = 0) -> JsonObject:
        """A value that must be an object."""
        if not isinstance(value, dict):
            raise InputError(f"{place}: expected {expected}, received {describe(value)}.")
        return cls(value, place, number)

    def require(self, key: str, kind: type[T]) -> T:
        """What a field holds, which must be there and of that type; a whole number serves for a `float`."""
        if key not in self.fields:
            raise InputError(f'{self.place}: the field "{key}" is missing; it must be {EXPECTED[kind]}.')
        item = self.fields[key]
        if kind is float and type(item) is int and abs(item) < 2**1023:
            item = float(item)
        if type(item) is not kind or (isinstance(item, float) and not math.isfinite(item)):
            raise InputError(f'{self.place}: "{key}" must be {EXPECTED[kind]}, received {describe(item)}.')
        return item

    def get(self, key: str, kind: type[T]) -> T | None:
        """What a field holds, or None where it is null or missing."""
        return None if self.fields.get(key) is None else self.require(key, kind)

    def get_references(self, one: str = "reference") -> tuple[str, ...]:
        """What people answered: the strings of "references", or that of the field for `one`."""
        several: list[Any] | None = self.get("references", list)
        if several is None:
            reference = self.get(one, str)
            return () if reference is None else (reference,)
        odd = [item for item in several if not isinstance(item, str)]
        if odd or not several:
            told = describe(odd[0]) if odd else "none"
            raise InputError(f'{self.place}: "references" must be at least one string, received {told}.')
        return tuple(several)

    def get_id(self, key: str = "id") -> str:
        """The id, which may be a whole number too; where there is none, the number of the line."""
        value = self.number if self.fields.get(key) is None else self.fields[key]
        if type(value) not in (str, int):
            raise InputError(
                f'{self.place}: "id" must be a string or a whole number, received {describe(value)}.'
            )
        return str(value)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number in JSON")


def to_line(value: object) -> str:
    """A value as one line of JSON, in UTF-8 wherever that can hold it; numbers must be finite."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair: only an escape can carry it
        return json.dumps(value)
    return line
