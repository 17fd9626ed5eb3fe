"""Finds a corpus' files in a folder, a zip or a tar, and reads their lines, counting what cannot be used."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from abc import ABC, abstractmethod
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, ClassVar, cast

from bidibeam.data.conversations import Conversation, Utterance, tidy
from bidibeam.data.splits import find_split, split_of
from bidibeam.errors import CorpusError, describe_error
from bidibeam.files import UNPACKING_ERRORS, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

BAD_LINES_ALLOWED = 0.01
"""The fraction of unusable lines beyond which a corpus is taken to be something else."""
EXCERPT_LENGTH = 120
LONGEST_LINE = 1 << 26
"""In bytes: a small archive may hold a line that no memory does."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file in a folder or an archive; `path` is its path there, `open_raw` opens its bytes as stored.

    `split` is the official split that all of it is, as in `Conversation`.
    """

    path: str
    open_raw: Callable[[], IO[bytes]]
    split: str = ""

    @property
    def name(self) -> str:
        """The name without folders and without .gz or .xz."""
        return PurePosixPath(self.path).name.removesuffix(".gz").removesuffix(".xz")

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Opens its bytes, decompressed as the ending says."""
        with self.open_raw() as raw, unpack(raw, self.path) as stream:
            yield stream


def find_file(files: Sequence[SourceFile], name: str) -> SourceFile | None:
    """Returns the file called `name`, in whichever folder; the outermost where there are several."""
    matches = [file for file in files if file.name == name]
    return min(matches, key=lambda file: file.path.count("/"), default=None)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, where to find it, its text, and the official split that the file is."""

    file: str
    number: int
    text: str
    split: str = ""


@dataclass(slots=True)
class LineErrors:
    """How many lines were read (blank ones do not count), how many were bad, and the first bad one."""

    total: int = 0
    bad: int = 0
    first: str = ""

    def read(
        self, file: SourceFile, decode: Callable[[bytes], str] = bytes.decode, *, keep_all: bool = False
    ) -> Iterator[Line]:
        """Yields the lines of a file that can be decoded, without their ends; strict UTF-8 by default.

        Only a line feed ends a line: some corpora hold NEL, form feeds and the like inside text. Blank lines
        are left out, unless `keep_all`; then lines that cannot be decoded are there too, as empty ones.
        """
        try:
            with file.open() as stream:
                for number, raw in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), start=1):
                    if len(raw) == LONGEST_LINE:
                        raise CorpusError(
                            f"Line {number} of {file.path} is longer than {LONGEST_LINE:,} bytes: is this a "
                            "corpus?"
                        )
                    if number == 1 and (
                        raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or 3 * raw.count(0) > len(raw)
                    ):
                        raise CorpusError(
                            f"{file.path} is not UTF-8 but UTF-16, it seems: convert it first, for example "
                            "with iconv -f utf-16 -t utf-8."
                        )
                    if not raw.strip() and not keep_all:
                        continue
                    self.total += bool(raw.strip())
                    stripped = raw.rstrip(b"\r\n")
                    try:
                        text = decode(stripped)
                    except UnicodeDecodeError as error:
                        shown = stripped.decode("utf-8", "backslashreplace")
                        line = Line(file.path, number, shown, file.split)
                        self.reject(line, f"not {error.encoding} at byte {error.start + 1}")
                        if not keep_all:
                            continue
                        text = ""
                    text = text.removeprefix("\ufeff") if number == 1 else text
                    yield Line(file.path, number, text, file.split)
        except UNPACKING_ERRORS as error:
            raise CorpusError(
                f"{file.path} cannot be read to its end ({error}): fetch or unpack it again."
            ) from error

    def reject(self, line: Line, reason: str) -> None:
        """Counts a line, already read, as unusable; a held-out split must be whole, and is refused."""
        if line.split not in ("", "train"):
            raise CorpusError(
                f"Line {line.number} of {line.file} cannot be used ({reason}), and held-out files must be "
                "complete: fix or remove the line."
            )
        self.bad += 1
        if not self.first:
            shown = line.text if len(line.text) <= EXCERPT_LENGTH else line.text[:EXCERPT_LENGTH] + "…"
            self.first = f"line {line.number} of {line.file} ({reason}): {shown!r}"

    def check(self) -> None:
        """Stops if too many lines were unusable; readers call this when they have read everything."""
        if self.bad > BAD_LINES_ALLOWED * self.total:
            percentage = 100 * self.bad / self.total
            raise CorpusError(
                f"{self.bad:,} of {self.total:,} lines ({percentage:.1f} %) are malformed; 1 % may be. "
                f"The first is {self.first}. Is this the right corpus for the file?"
            )


def _open(path: Path) -> IO[bytes]:
    return path.open("rb")


class CorpusReader(ABC):
    """Reads a corpus as conversations in file order.

    Attributes:
        name: What the corpus is called.
        expected: What it is read from, as messages say it.
        languages: Which of "source_lang" and "target_lang" it is made with.
        suits: Settings of preparation that suit the corpus, where others are not asked for.
        measure: Settings of an experiment on it: the metric that the field reports, and how far to search.
        line_errors: Malformed lines; complete once all has been read.
        splits: The files of each official split; complete likewise.
        unused: Files beside them that are named after no split.
        is_one_file: Whether the source that is open is a file, and no folder or archive.
    """

    name: ClassVar[str]
    expected: ClassVar[str]
    languages: ClassVar[tuple[str, ...]] = ()
    suits: ClassVar[Mapping[str, Any]] = {}
    measure: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        self.line_errors = LineErrors()
        self.splits: dict[str, list[str]] = {}
        self.unused: list[str] = []
        self.is_one_file = False

    @abstractmethod
    def read(self, source: Path | None) -> Iterator[Conversation]:
        """Yields conversations from `source`, or from the corpus' own place if it has one."""

    @contextmanager
    def open(self, source: Path | None) -> Iterator[list[SourceFile]]:
        """Opens the files of a folder (with those beneath it), of a zip or of a tar; or the one file itself.

        They are sorted by path; hidden files, and those that macOS adds to archives, are left out.
        """
        if source is None:
            raise CorpusError(f"The corpus {self.name!r} needs a source: {self.expected}.")
        if not source.exists():
            raise self.miss(f"There is no {source}")
        try:
            with ExitStack() as stack:
                openers: dict[str, Callable[[], IO[bytes]]]
                if source.is_dir():
                    paths = [path for path in source.rglob("*") if path.is_file()]
                    openers = {path.relative_to(source).as_posix(): partial(_open, path) for path in paths}
                elif zipfile.is_zipfile(source):
                    archive = stack.enter_context(zipfile.ZipFile(source))
                    names = [info.filename for info in archive.infolist() if not info.is_dir()]
                    openers = {name: partial(archive.open, name) for name in names}
                elif tarfile.is_tarfile(source):
                    tape = stack.enter_context(tarfile.open(source))
                    extract = cast("Callable[[tarfile.TarInfo], IO[bytes]]", tape.extractfile)
                    openers = {member.name: partial(extract, member) for member in tape if member.isfile()}
                else:
                    self.is_one_file = True
                    yield [SourceFile(source.name, partial(_open, source))]
                    return
                yield [
                    SourceFile(path, opener)
                    for path, opener in sorted(openers.items())
                    if not any(part == "__MACOSX" or part[0] == "." for part in PurePosixPath(path).parts)
                ]
        except (CorpusError, GeneratorExit, MemoryError):
            raise
        except Exception as error:  # damaged, encrypted, packed in a way that Python does not know
            reason = describe_error(error)
            raise CorpusError(f"{source} cannot be unpacked ({reason}): fetch it again.") from error

    def read_lines(self, source: Path | None, *endings: str) -> Iterator[Line]:
        """Yields the lines of a source's files that have one of the endings, or of its only file.

        Where there is a file for training, only those that are named after a split are read.
        """
        with self.open(source) as files:
            if len(files) != 1 or (source is not None and source.is_dir()):
                files = [file for file in files if file.name.endswith(endings)]
            if not files:
                raise self.miss(f"{source} holds no {endings[0]} file")
            for file in self.choose_splits(files):
                yield from self.line_errors.read(file)
        self.line_errors.check()

    def choose_splits(self, files: Sequence[SourceFile]) -> Sequence[SourceFile]:
        """Returns the files that are named after a split, marked with it; but all if none is for training.

        Names begin with train, validation (or valid, val, dev) or test; each test file is a set of its own.
        Where no file is named train, folders may be.
        """
        found = {file.path: find_split(PurePosixPath(file.name).stem) for file in files}
        by_folder = {file.path: _split_of_folder(file) for file in files}
        if not any(found.values()) and {"train"} < set(by_folder.values()):
            found = by_folder
        if "train" not in found.values():
            if held := [path for path, split in found.items() if split and not self.is_one_file]:
                raise CorpusError(
                    f"{' and '.join(held)} {'are' if len(held) > 1 else 'is'} named after a split, but no "
                    "file is named train: name the training file so, or give the file to be split alone."
                )
            return files
        self.unused += [path for path, split in found.items() if not split]
        return [self.mark_split(file, found[file.path]) for file in files if found[file.path]]

    def mark_split(self, file: SourceFile, split: str) -> SourceFile:
        """Returns the file as one of an official split."""
        self.splits.setdefault(split, []).append(file.path)
        return replace(file, split=split)

    def miss(self, what: str) -> CorpusError:
        """What is raised where a source is not what the corpus is read from."""
        return CorpusError(f"{what}: the corpus {self.name!r} is read from {self.expected}.")


def _split_of_folder(file: SourceFile) -> str:
    """Returns the split that the nearest folder is named after; "" if none is."""
    folders = PurePosixPath(file.path).parents
    split = next(filter(None, (find_split(folder.name) for folder in folders)), "")
    return f"{split}_{PurePosixPath(file.name).stem}" if split_of(split) == "test" else split


def missing_references(line: Line, reason: str) -> CorpusError:
    """What is raised for a held-out source without references."""
    return CorpusError(
        f"Line {line.number} of {line.file} has no references ({reason}), and each source of a held-out "
        "split needs at least one: add them, or take the line out."
    )


def hash_texts(texts: Iterable[str]) -> str:
    """Returns an id for a conversation that has none; it depends on what is said alone."""
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def make_pair(source: str, *responses: str, split: str = "") -> Conversation:
    """Returns a pair that belongs to no conversation, with all its references.

    Its id depends on the source alone, letters compared without their case, so that no source stands in two
    splits by hash.
    """
    identifier = hash_texts([tidy([source]).casefold()])
    said = Utterance("source", source), Utterance("response", responses[0])
    return Conversation(identifier, said, responses[1:], split, is_lone=True)
