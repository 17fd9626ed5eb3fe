"""Lines and JSON objects from a file or a pipe, one at a time, with their numbers for messages."""

from __future__ import annotations

import json
import lzma
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bidibeam.errors import InputError
from bidibeam.files import open_binary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LineSource = Path | IO[bytes] | IO[str]
"""A plain, .gz or .xz file, or a stream that is open already; bytes are read as UTF-8."""

BYTE_ORDER_MARK = "\ufeff"


def name_of(source: LineSource) -> str:
    """What a message calls the source."""
    name = source if isinstance(source, Path) else getattr(source, "name", None)
    return str(name) if isinstance(name, str | Path) else "<stream>"


def has_ending(name: str, ending: str) -> bool:
    """Whether a file's name ends so, packed or not."""
    path = Path(name)
    return (path.stem if path.suffix in (".gz", ".xz") else path.name).endswith(ending)


def numbered_lines(source: LineSource) -> Iterator[tuple[int, str]]:
    r"""Each line with its number, counted from 1, without its end; only \n ends a line, \r\n too.

    Raises:
        InputError: If the file cannot be opened or unpacked, or a line is not UTF-8.
    """
    name = name_of(source)
    number = 0
    try:
        with open_binary(source) if isinstance(source, Path) else nullcontext(source) as stream:
            lines: Iterable[bytes | str] = stream
            for number, raw in enumerate(lines, start=1):
                line = raw if isinstance(raw, str) else _decode(raw, f"{name}, line {number}")
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER_MARK)
                yield number, line.removesuffix("\n").removesuffix("\r")
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise InputError(f"{name} cannot be unpacked after line {number}: {error}") from error
    except UnicodeDecodeError as error:  # a stream of text, which decodes some way ahead
        raise InputError(
            f"{name}: somewhere after line {number} the text is not {error.encoding}."
        ) from error
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}.") from error


def parse_object(line: str, place: str) -> dict[str, Any]:
    """The JSON object on a line.

    Raises:
        InputError: If the line is anything else, or holds NaN or an infinity, which JSON has not.
    """
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"{place}: this is not JSON: {error.msg} at column {error.colno}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: this is not usable JSON: {error}.") from error
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected a JSON object, received {describe(value)}.")
    return value


def describe(value: object) -> str:
    """A JSON value as a message shows it: its kind, and as much of it as fits."""
    kinds = {dict: "an object", list: "a list", str: "the string", bool: "the boolean", type(None): "null"}
    kind = kinds.get(type(value), "the number")
    if kind in ("an object", "a list", "null"):
        return kind
    text = json.dumps(value, ensure_ascii=False)
    return f"{kind} {text if len(text) <= 40 else text[:37] + '...'}"


def _decode(raw: bytes, place: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        encoding = "utf-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "latin1"
        raise InputError(
            f"{place}: byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8. "
            f"Convert the file first, for example with iconv -f {encoding} -t utf-8."
        ) from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number in JSON")
