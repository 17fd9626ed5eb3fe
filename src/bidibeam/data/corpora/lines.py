"""Reading a corpus line by line, counting what cannot be used, and stopping when it is too much."""

from __future__ import annotations

import hashlib
import lzma
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BAD_LINES_ALLOWED = 0.01
"""The fraction of unusable lines beyond which a corpus is taken to be something else."""

EXCERPT_LENGTH = 120


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
        r"""Yield the lines of a stream that can be decoded, without their ends.

        Only a line feed ends a line: some corpora hold NEL, form feeds and the like inside text.

        Args:
            file: The name that messages call the stream by.
            stream: The bytes; compressed data that is damaged stops the reading.
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

    def reject(self, line: Line, reason: str) -> None:
        """Count a line, already read, as unusable."""
        self.bad += 1
        if not self.first:
            shown = line.text if len(line.text) <= EXCERPT_LENGTH else line.text[:EXCERPT_LENGTH] + "…"
            self.first = f"line {line.number} of {line.file} ({reason}): {shown!r}"

    def check(self) -> None:
        """Stop if too many lines were unusable; readers call this when they have read everything.

        Raises:
            CorpusError: If more than 1 % of the lines were bad; it shows the first.
        """
        if self.bad > BAD_LINES_ALLOWED * self.total:
            percentage = 100 * self.bad / self.total
            raise CorpusError(
                f"{self.bad:,} of {self.total:,} lines ({percentage:.1f} %) are malformed; 1 % may be. "
                f"The first is {self.first}. Is this the right corpus for the file?"
            )


def content_id(texts: Iterable[str]) -> str:
    """An id for a conversation that has none: it follows from what is said, not from where it stands."""
    digest = hashlib.blake2b(digest_size=8)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
