"""Reading compressed text, and writing files so that a kill never leaves half of one."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


PARTIAL = re.compile(r"\.(.+)\.\d+\.partial")
"""The name of a file that is being written by `replacing`, or was when its process died."""


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
    found = folder.iterdir() if folder.is_dir() else ()
    return [path for path in found if _target_name(path) in names]


def names_in(folder: Path) -> set[str]:
    """The names of what a folder holds, files aside that are being written; none if it is not there."""
    found = folder.iterdir() if folder.is_dir() else ()
    return {path.name for path in found if _target_name(path) is None}


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


def open_binary(path: Path) -> IO[bytes]:
    """Open a plain, .gz or .xz file for reading bytes; the ending decides."""
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    return path.open("rb")


def create_text(path: Path, *, named: Path | None = None) -> IO[str]:
    """Open a file for writing UTF-8 text, compressed if the ending of its name, or of `named`, says so."""
    ending = (named or path).suffix
    if ending == ".gz":
        return cast("IO[str]", gzip.open(path, "wt", encoding="utf-8", newline="\n"))
    if ending == ".xz":
        return cast("IO[str]", lzma.open(path, "wt", encoding="utf-8", newline="\n"))
    return path.open("w", encoding="utf-8", newline="\n")


def open_text(path: Path, *, encoding: str = "utf-8", errors: str = "strict") -> IO[str]:
    """Open a plain, .gz or .xz file for reading text; the ending decides."""
    return io.TextIOWrapper(open_binary(path), encoding=encoding, errors=errors, newline="\n")
