"""Packed files, JSON, locks, and writing files so that a kill never leaves half of one."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import sys
import zlib
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, cast

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

PACKED: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
"""How packed files are opened, by the ending of their names."""
UNPACKING_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading one may raise."""

PARTIAL = re.compile(r"\.(.+)\.\d+\.partial")
"""The name of a file that is being written by `replacing`, or was when its process died."""

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, by which text commands a terminal or turns around what stands beside it."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to; when the block succeeds, it takes the place of `path` in one step.

    If the block raises, or the process dies in it, `path` stays as it was. A link keeps pointing where it
    points, and what is no file (a pipe, /dev/stdout) is simply written to.
    """
    if path.exists() and (not path.is_file() or path.is_relative_to("/dev")):
        yield path
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)  # as any new file: safetensors leaves its own to the owner alone
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def leftovers(folder: Path, names: Collection[str]) -> list[Path]:
    """What was left in a folder by processes that died while they wrote files of these names."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return [path for path in paths if _target_name(path) in names]


def names_in(folder: Path) -> set[str]:
    """The names of what a folder holds, files aside that are being written; none if it is not there."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return {path.name for path in paths if _target_name(path) is None}


def _target_name(path: Path) -> str | None:
    """The name of the file that is being written; None if none is."""
    match = PARTIAL.fullmatch(path.name)
    return None if match is None or path.is_dir() else match[1]


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in one step."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` as indented JSON, in one step."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def parse_json(text: str | bytes, **options: Any) -> Any:
    """The value that a text spells in JSON; one that is nested too deeply is a ValueError too."""
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError(str(error)) from error


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a plain, .gz or .xz file; a ValueError says what is wrong with another."""
    with open_binary(path) as file:
        value = parse_json(file.read())
    if not isinstance(value, dict):
        raise ValueError(f"an object is needed, not {type(value).__name__}")  # noqa: TRY004
    return value


def unpack(stream: IO[bytes], name: str) -> IO[bytes]:
    """The bytes of an open file, unpacked if its name ends in .gz or .xz."""
    open_packed = PACKED.get(PurePath(name).suffix)
    return stream if open_packed is None else open_packed(stream)


def open_binary(path: Path) -> IO[bytes]:
    """Open a plain, .gz or .xz file for reading bytes; the ending decides."""
    return cast("IO[bytes]", PACKED.get(path.suffix, open)(path, "rb"))


def create_text(path: Path, *, named: Path | None = None) -> IO[str]:
    """Open a file for writing UTF-8 text, compressed if the ending of its name, or of `named`, says so."""
    create = PACKED.get((named or path).suffix, open)
    return cast("IO[str]", create(path, "wt", encoding="utf-8", newline="\n"))


def lock(file: IO[Any]) -> bool:
    """Lock an open file for this process alone, where that is possible; False if another process has it."""
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            pass
    return True


def flatten(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns the values of nested mappings by their keys, joined with points."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        nested = isinstance(value, Mapping)
        flat |= flatten(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return flat


def printable(text: str) -> str:
    """The text without control characters, but for tabs and line breaks."""
    return UNPRINTABLE.sub("", text)
