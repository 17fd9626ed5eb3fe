"""Finds a corpus' files in a folder, a zip or a tar, and reads their lines, counting what cannot be used."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, cast

from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

BAD_LINES_ALLOWED = 0.01
"""The fraction of unusable lines beyond which a corpus is taken to be something else."""
EXCERPT_LENGTH = 120
UNREADABLE = (
    EOFError,
    zipfile.BadZipFile,
    tarfile.ReadError,
    lzma.LZMAError,
    NotImplementedError,  # a zip compressed in a way that Python does not know
    RuntimeError,  # an encrypted zip
)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a corpus in a folder or an archive.

    Attributes:
        path: Its path in the folder or archive.
        open_raw: Opens its bytes as they are stored.
    """

    path: str
    open_raw: Callable[[], IO[bytes]]

    @property
    def name(self) -> str:
        """The name without folders and without .gz or .xz."""
        return PurePosixPath(self.path).name.removesuffix(".gz").removesuffix(".xz")

    @property
    def is_hidden(self) -> bool:
        """Whether it is a hidden file, or one that macOS adds to archives."""
        parts = self.path.split("/")
        return any(part == "__MACOSX" or (part.startswith(".") and part != ".") for part in parts)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Opens its bytes, decompressed as the ending says."""
        with self.open_raw() as raw:
            if self.path.endswith(".gz"):
                with gzip.GzipFile(fileobj=raw) as unzipped:
                    yield cast("IO[bytes]", unzipped)
            elif self.path.endswith(".xz"):
                with lzma.LZMAFile(raw) as unzipped_:
                    yield unzipped_
            else:
                yield raw


@contextmanager
def open_source(source: Path | None, corpus: str, expected: str) -> Iterator[list[SourceFile]]:
    """Opens the files of a folder (with those beneath it), of a zip or of a tar; or the one file itself.

    They are sorted by path; hidden files are left out.

    Raises:
        CorpusError: If the source is None, is not there or cannot be unpacked; it says what is expected.
    """
    if source is None:
        raise CorpusError(f"The corpus {corpus!r} needs a source: {expected}.")
    if not source.exists():
        raise CorpusError(f"There is no {source}: the corpus {corpus!r} is read from {expected}.")
    try:
        if source.is_dir():
            paths = [path for path in source.rglob("*") if path.is_file()]
            yield _sort(SourceFile(p.relative_to(source).as_posix(), partial(_open, p)) for p in paths)
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                names = [info.filename for info in archive.infolist() if not info.is_dir()]
                yield _sort(SourceFile(name, partial(archive.open, name)) for name in names)
        elif tarfile.is_tarfile(source):
            with tarfile.open(source) as tape:
                extract = cast("Callable[[tarfile.TarInfo], IO[bytes]]", tape.extractfile)
                members = [member for member in tape.getmembers() if member.isfile()]
                yield _sort(SourceFile(member.name, partial(extract, member)) for member in members)
        else:
            yield [SourceFile(source.name, partial(_open, source))]
    except UNREADABLE as error:
        raise CorpusError(f"{source} cannot be unpacked ({error}): fetch it again.") from error


def _open(path: Path) -> IO[bytes]:
    return path.open("rb")


def _sort(files: Iterable[SourceFile]) -> list[SourceFile]:
    return sorted((file for file in files if not file.is_hidden), key=lambda file: file.path)


def find_file(files: Sequence[SourceFile], name: str) -> SourceFile | None:
    """Returns the file called `name`, in whichever folder; the outermost where there are several."""
    matches = [file for file in files if file.name == name]
    return min(matches, key=lambda file: file.path.count("/"), default=None)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, where to find it, and its text."""

    file: str
    number: int
    text: str


@dataclass(slots=True)
class LineErrors:
    """How many lines were read, how many were unusable, and what was wrong with the first.

    Attributes:
        total: Lines read; blank ones do not count.
        bad: Those that could not be used.
        first: Where the first bad line is, what is wrong with it, and how it begins.
    """

    total: int = 0
    bad: int = 0
    first: str = ""

    def read(
        self, file: str, stream: IO[bytes], decode: Callable[[bytes], str] | None = None
    ) -> Iterator[Line]:
        """Yields the lines of a stream that can be decoded, without their ends.

        Only a line feed ends a line: some corpora hold NEL, form feeds and the like inside text.

        Args:
            file: The name that messages call the stream by.
            stream: The bytes; damaged compression stops the reading.
            decode: Bytes to text; strict UTF-8 when not given.
        """
        try:
            for number, raw in enumerate(stream, start=1):
                if not raw.strip():
                    continue
                self.total += 1
                stripped = raw.rstrip(b"\r\n")
                try:
                    text = decode(stripped) if decode else stripped.decode("utf-8")
                except UnicodeDecodeError as error:
                    shown = stripped.decode("utf-8", "backslashreplace")
                    self.reject(Line(file, number, shown), f"not {error.encoding} at byte {error.start + 1}")
                    continue
                yield Line(file, number, text.removeprefix("\ufeff") if number == 1 else text)
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            raise CorpusError(
                f"{file} cannot be read to its end ({error}): fetch or unpack it again."
            ) from error

    def read_source(
        self, source: Path | None, corpus: str, expected: str, endings: tuple[str, ...]
    ) -> Iterator[Line]:
        """Yields the lines of a source's files with one of the endings; of a single file whatever its name.

        Raises:
            CorpusError: As `open_source`, or if there is no such file.
        """
        with open_source(source, corpus, expected) as files:
            if len(files) != 1 or (source is not None and source.is_dir()):
                files = [file for file in files if file.name.endswith(endings)]
            if not files:
                raise CorpusError(
                    f"{source} holds no {endings[0]} file: the corpus {corpus!r} is read from {expected}."
                )
            for file in files:
                with file.open() as stream:
                    yield from self.read(file.path, stream)

    def reject(self, line: Line, reason: str) -> None:
        """Counts a line, already read, as unusable."""
        self.bad += 1
        if not self.first:
            shown = line.text if len(line.text) <= EXCERPT_LENGTH else line.text[:EXCERPT_LENGTH] + "…"
            self.first = f"line {line.number} of {line.file} ({reason}): {shown!r}"

    def check(self) -> None:
        """Stops if too many lines were unusable; readers call this when they have read everything.

        Raises:
            CorpusError: If more than 1 % of the lines were bad; it shows the first.
        """
        if self.bad > BAD_LINES_ALLOWED * self.total:
            percentage = 100 * self.bad / self.total
            raise CorpusError(
                f"{self.bad:,} of {self.total:,} lines ({percentage:.1f} %) are malformed; 1 % may be. "
                f"The first is {self.first}. Is this the right corpus for the file?"
            )


def hash_texts(texts: Iterable[str]) -> str:
    """Returns an id for a conversation that has none; it depends on what is said alone."""
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
