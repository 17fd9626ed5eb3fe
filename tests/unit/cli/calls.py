"""The command line as a user calls it: a status, what stdout got, what stderr got."""

from __future__ import annotations

import io
import json
import random
import re
import shlex
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VBS = ("--strategy", "vbs", "--beam-size", "3")
QUICK = ("--beam-size", "6", "--max-length", "7")


@dataclass(frozen=True)
class Call:
    """What came of a call."""

    status: int
    out: str
    err: str

    @property
    def replies(self) -> list[str]:
        assert self.status == 0, self.err
        assert self.out.endswith("\n") or not self.out
        return self.out.split("\n")[:-1]

    @property
    def shown(self) -> str:
        """What stdout got, however it was wrapped."""
        return " ".join(self.out.split())

    @property
    def told(self) -> str:
        """What stderr got, however it was wrapped."""
        return " ".join(self.err.split())

    @property
    def signature(self) -> str:
        (line,) = (line for line in self.err.splitlines() if line.startswith("Signature: "))
        return line.removeprefix("Signature: ")


def called(*args: object, typed: str | bytes = b"") -> Call:
    """Call `bidibeam` in this process."""
    with _streams(typed.encode() if isinstance(typed, str) else typed) as (out, err):
        status = run([str(arg) for arg in args])
    return Call(status, out.getvalue().decode(), err.getvalue().decode())


@contextmanager
def _streams(typed: bytes) -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Put files in the place of stdin, stdout and stderr, as a shell does."""
    real = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    streams = [io.TextIOWrapper(stream, encoding="utf-8") for stream in (io.BytesIO(typed), out, err)]
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        yield out, err
    finally:
        sys.stdin, sys.stdout, sys.stderr = real
        for stream in streams[1:]:
            stream.flush()
            stream.detach()


def refused(*args: object, typed: str | bytes = b"") -> str:
    """Call it in vain: the one sentence it said, with nothing on stdout."""
    call = called(*args, typed=typed)
    assert (call.status, call.out) == (1, ""), call
    *notes, sentence = call.err.splitlines()
    assert all(note.endswith(" ...") for note in notes), call.err  # "Compiling ..." where that took long
    assert sentence.startswith("Error: ")
    return sentence.removeprefix("Error: ")


def fill(text: str, files: Mapping[str, object]) -> str:
    """The text with files in place of their names in braces."""
    return re.sub(r"\{(.+?)\}", lambda name: str(files[name[1]]), text)


def refused_line(line: str, files: Mapping[str, object]) -> str:
    """What is said of a command line as somebody would type it, its files in braces."""
    return refused(*shlex.split(fill(line, files)))


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def write_lines(path: Path, *lines: object) -> Path:
    """Write a file of JSON lines; a string is written as it is."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def write_vectors(path: Path, words: Sequence[str]) -> Path:
    """Write a .vec file of random vectors."""
    chooser = random.Random(0)
    rows = [" ".join([word, *(f"{chooser.gauss(0, 1):.3f}" for _ in range(5))]) for word in words]
    path.write_text("\n".join([f"{len(rows)} 5", *rows]) + "\n")
    return path
