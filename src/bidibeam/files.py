"""Packed files, JSON, locks, and writing files so that a kill never leaves half of one."""

from __future__ import annotations

import errno
import glob
import gzip
import json
import lzma
import os
import re
import shutil
import sys
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO, TYPE_CHECKING, Any, cast

from bidibeam.errors import BidibeamError, RunError, describe_error

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


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to; when the block succeeds, it takes the place of `path` in one step.

    If the block raises, or the process dies in it, `path` stays as it was. A link keeps pointing where it
    points, and what is no file (a pipe, /dev/stdout) is simply written to.
    """
    if is_stream(path):
        with writing(path):
            yield path
        return
    path = resolve(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    partial = _partial_path(path)
    try:
        with writing(path, partial):
            yield partial
            mask = os.umask(0)
            os.umask(mask)
            partial.chmod(0o666 & ~mask)  # as any new file: safetensors leaves its own to the owner alone
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder to write into; when the block succeeds, it takes the place of the folder `path`.

    If the block raises, or the process dies in it, `path` stays as it was.
    """
    path = resolve(path)
    with folder_beside(path) as partial:
        (partial / "new").mkdir()
        yield partial / "new"
        if path.exists():
            path.replace(partial / "old")
        (partial / "new").replace(path)


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Yield a new folder beside a resolved `path`, to write into what will take its place; then it goes."""
    remove_leftovers(path)
    partial = _partial_path(path)
    shutil.rmtree(partial, ignore_errors=True)  # of a process that had our number
    try:
        with writing(path, partial):
            partial.mkdir(parents=True)
            yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _partial_path(path: Path) -> Path:
    return path.with_name(f".{_cut_name(path)}.{os.getpid()}.partial")


def _cut_name(path: Path) -> str:
    """The name of a file, cut so that more has room beside it in 255 bytes."""
    return os.fsencode(path.name)[:200].decode(errors="ignore")


@contextmanager
def writing(path: Path, partial: Path | None = None) -> Iterator[None]:
    """Let the system's errors in the block name `path`, which is written, not `partial`, which becomes it.

    Libraries in Rust say in their own words that the system refused to write: theirs become an OSError too.
    """
    try:
        yield
    except OSError as error:  # writing into an open file names none
        named = error.filename
        if named is None or (partial is not None and Path(str(named)).is_relative_to(partial)):
            error.filename = str(path)
        raise
    except BidibeamError:
        raise
    except Exception as error:  # SafetensorError, or a plain one of tokenizers
        if number := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
        raise


def is_stream(path: Path) -> bool:
    """Whether something is there that is no plain file: a pipe, /dev/stdout."""
    return path.exists() and (not path.is_file() or path.is_relative_to("/dev"))


def resolve(path: Path) -> Path:
    """Where a path leads, all links followed; an OSError if they lead back to themselves."""
    found = Path(os.path.realpath(path))
    if found.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return found


def remove_leftovers(path: Path) -> None:
    """Remove what processes of this machine left that died while they wrote this file or folder."""
    name = _cut_name(path)
    for partial in path.parent.glob(f".{glob.escape(name)}.*.partial"):
        if _target_name(partial) != name or _is_running(int(partial.name.split(".")[-2])):
            continue
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    """Whether there is a process of this number, as far as can be told."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def leftovers(folder: Path, names: Collection[str]) -> list[Path]:
    """What was left in a folder by processes that died while they wrote files of these names."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return [path for path in paths if not path.is_dir() and _target_name(path) in names]


def names_in(folder: Path) -> set[str]:
    """The names of what a folder holds, files aside that are being written; none if it is not there."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return {path.name for path in paths if path.is_dir() or _target_name(path) is None}


def _target_name(path: Path) -> str | None:
    """The name of the file that is being written; None if none is."""
    match = PARTIAL.fullmatch(path.name)
    return None if match is None else match[1]


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in one step; half a surrogate pair is escaped as in JSON."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` as indented JSON, in one step."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def reading(path: Path | str, way_out: str) -> Iterator[None]:
    """Turn whatever the block raises over a file's content into one sentence that names the file.

    What the system does not let us read is not called damaged. A RunError says enough already, and what runs
    out of memory is no fault of the file.

    Args:
        path: The file, or a place in it.
        way_out: A sentence on what to do about it.
    """
    try:
        yield
    except (RunError, MemoryError):
        raise
    except Exception as error:  # libraries in Rust raise their own, or plain ones
        if isinstance(error, OSError) and error.errno is not None:
            raise RunError(f"{path} cannot be read ({error.strerror}). {way_out}") from error
        raise RunError(f"{path} is damaged ({describe_error(error)}). {way_out}") from error


def parse_json(text: str | bytes, **options: Any) -> Any:
    """The value that a text spells in JSON; one that is nested too deeply is a ValueError too."""
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError(str(error)) from error


def parse_object(text: str | bytes) -> dict[str, Any]:
    """The object that a text spells in JSON; a ValueError says what is wrong with another."""
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError(f"an object is needed, not {type(value).__name__}")  # noqa: TRY004
    return value


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a plain, .gz or .xz file; a ValueError says what is wrong with another."""
    with open_binary(path) as file:
        return parse_object(file.read())


def read_json_or_empty(path: Path) -> dict[str, Any]:
    """The JSON object of a file; an empty one if the file is missing, damaged or holds something else."""
    try:
        return read_json(path)
    except (OSError, ValueError):
        return {}


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


def lock(file: IO[Any] | int) -> bool:
    """Lock an open file, or the descriptor of a folder, for this process alone, where that is possible.

    False if another process has it.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            pass
    return True


@contextmanager
def alone_in(folder: Path, what: str) -> Iterator[None]:
    """Keep other processes, and other threads, from the same block on the same folder, as long as it runs.

    The folder itself is locked, so that nothing is left in it, and a process that dies gives it free. It is
    made if it is not there, and goes again if the block leaves it empty. What is no folder is not locked.

    Args:
        folder: The folder.
        what: What another process is doing there, as a message says it ("training in").
    """
    if folder.exists() and not folder.is_dir():
        yield
        return
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY) if sys.platform != "win32" else None
    try:
        if descriptor is not None and not lock(descriptor):
            raise RunError(
                f"Another process is {what} {folder}. Wait until it is done, end it, or name another folder."
            )
        yield
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        if descriptor is not None:
            os.close(descriptor)
