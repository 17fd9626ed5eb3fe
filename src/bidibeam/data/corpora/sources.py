"""Finding a corpus' files in a folder, a zip or a tar, compressed or not."""

from __future__ import annotations

import gzip
import lzma
import tarfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, cast

from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a corpus, wherever it lies.

    Attributes:
        path: Where it lies in its folder or archive.
        open_raw: Gives its bytes as they are stored.
    """

    path: str
    open_raw: Callable[[], IO[bytes]]

    @property
    def name(self) -> str:
        """The name without folders and without .gz or .xz."""
        return PurePosixPath(self.path).name.removesuffix(".gz").removesuffix(".xz")

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Its bytes, decompressed as the ending says."""
        with self.open_raw() as raw:
            if self.path.endswith(".gz"):
                with gzip.GzipFile(fileobj=raw) as unzipped:
                    yield cast("IO[bytes]", unzipped)
            elif self.path.endswith(".xz"):
                with lzma.LZMAFile(raw) as unzipped_:
                    yield unzipped_
            else:
                yield raw


def required(source: Path | None, corpus: str, expected: str) -> Path:
    """The source of a corpus that has no place of its own.

    Raises:
        CorpusError: If there is none, or it does not exist; it says what is expected.
    """
    if source is None:
        raise CorpusError(f"The corpus {corpus!r} needs a source: {expected}.")
    if not source.exists():
        raise CorpusError(f"There is no {source}: the corpus {corpus!r} is read from {expected}.")
    return source


UNREADABLE = (
    EOFError,
    zipfile.BadZipFile,
    tarfile.ReadError,
    lzma.LZMAError,
    NotImplementedError,  # a zip compressed in a way that Python does not know
    RuntimeError,  # an encrypted zip
)


@contextmanager
def opened(source: Path) -> Iterator[list[SourceFile]]:
    """The files of a folder (with those beneath it), of a zip or of a tar; or the one file itself.

    They are sorted by path; hidden files and what macOS adds to archives are left out.
    """
    try:
        if source.is_dir():
            paths = [path for path in source.rglob("*") if path.is_file()]
            yield _visible(SourceFile(path.relative_to(source).as_posix(), _plain(path)) for path in paths)
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                names = [info.filename for info in archive.infolist() if not info.is_dir()]
                yield _visible(SourceFile(name, _zipped(archive, name)) for name in names)
        elif tarfile.is_tarfile(source):
            with tarfile.open(source) as tape:
                members = [member for member in tape.getmembers() if member.isfile()]
                yield _visible(SourceFile(member.name, _tarred(tape, member)) for member in members)
        else:
            yield [SourceFile(source.name, _plain(source))]
    except UNREADABLE as error:
        raise CorpusError(f"{source} cannot be unpacked ({error}): fetch it again.") from error


def find(files: Sequence[SourceFile], name: str) -> SourceFile | None:
    """The file called `name`, in whichever folder; the outermost where there are several."""
    matches = [file for file in files if file.name == name]
    return min(matches, key=lambda file: file.path.count("/"), default=None)


def _visible(files: Iterator[SourceFile]) -> list[SourceFile]:
    kept = [file for file in files if not _is_hidden(file.path)]
    return sorted(kept, key=lambda file: file.path)


def _is_hidden(path: str) -> bool:
    return any(part == "__MACOSX" or (part.startswith(".") and part != ".") for part in path.split("/"))


def _plain(path: Path) -> Callable[[], IO[bytes]]:
    return lambda: path.open("rb")


def _zipped(archive: zipfile.ZipFile, name: str) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(name)


def _tarred(tape: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    return lambda: cast("IO[bytes]", tape.extractfile(member))
