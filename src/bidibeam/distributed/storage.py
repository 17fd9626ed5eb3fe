"""Folders that all machines reach: local ones, or of any file system that pyarrow knows, such as s3://."""

from __future__ import annotations

import io
import os
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from bidibeam.errors import InputError, describe_error

HIDDEN = (".", "_")
"""How names begin that are no shards: of what is being written, and of what Spark and Hadoop leave."""
PARTIAL = ".partial"
"""How names end of what is being written."""


@dataclass(frozen=True)
class Storage:
    """A folder, or a single file, by its path or address; names in it are relative to it."""

    place: str

    @cached_property
    def _located(self) -> tuple[Any, str]:
        """The file system, and the path there."""
        from pyarrow import fs

        if "://" not in self.place:
            return fs.LocalFileSystem(), os.path.realpath(self.place)
        try:
            filesystem, path = fs.FileSystem.from_uri(self.place)
        except Exception as error:  # each kind of address has errors of its own
            raise InputError(f"{self.place} cannot be reached: {describe_error(error)}.") from error
        return filesystem, path

    def list(self) -> dict[str, int]:
        """The files in it and in its folders, by name, with their sizes; of a single file itself alone."""
        from pyarrow import fs

        filesystem, path = self._located
        with _naming(self.place):
            info = filesystem.get_file_info(path)
            if info.type is fs.FileType.File:
                return {posixpath.basename(path): info.size}
            found = filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        names = {posixpath.relpath(each.path, path): each.size for each in found if each.is_file}
        return {name: names[name] for name in sorted(names)}

    def is_file(self) -> bool:
        """Whether it is a single file."""
        with _naming(self.place):
            return bool(self._located[0].get_file_info(self._located[1]).is_file)

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        with _naming(self.place):
            return bool(self._located[0].get_file_info(self._path(name)).is_file)

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading, at any place of it."""
        with _naming(self._path(name)):
            return io.BufferedReader(self._located[0].open_input_file(self._path(name)))

    @contextmanager
    def write(self, name: str) -> Iterator[IO[bytes]]:
        """Yield a stream; when the block succeeds, what was written has its name, in one step."""
        filesystem, path = self._located[0], self._path(name)
        folder, last = posixpath.split(path)
        partial = posixpath.join(folder, f".{last}.{uuid4().hex[:12]}{PARTIAL}")
        with _naming(path):
            filesystem.create_dir(folder, recursive=True)
            try:
                with filesystem.open_output_stream(partial) as stream:
                    yield stream
                if "://" not in self.place:
                    with Path(partial).open("rb") as written:
                        os.fsync(written.fileno())
                filesystem.move(partial, path)
            except BaseException:
                with suppress(OSError):
                    filesystem.delete_file(partial)
                raise

    def remove(self, name: str) -> None:
        """Remove a file."""
        with _naming(self._path(name)):
            self._located[0].delete_file(self._path(name))

    def remove_folder(self, name: str) -> None:
        """Remove a folder with all that is in it, if it is there."""
        filesystem, path = self._located[0], self._path(name)
        with _naming(path), suppress(FileNotFoundError):
            filesystem.delete_dir(path)

    def _path(self, name: str) -> str:
        path = self._located[1]
        return path if name == posixpath.basename(path) and self._is_single else posixpath.join(path, name)

    @cached_property
    def _is_single(self) -> bool:
        return self.is_file()


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Let errors be the system's own, with the path; those without its number become a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise InputError(f"{path} cannot be reached: {describe_error(error)}.") from error
        raise OSError(error.errno, os.strerror(error.errno), path) from error
    except Exception as error:
        if type(error).__module__.startswith("pyarrow"):
            raise InputError(f"{path} cannot be reached: {describe_error(error)}.") from error
        raise
