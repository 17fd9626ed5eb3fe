"""stdin and stdout as whoever called us left them: of any encoding, closed, or on a full disk."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
"""What the system says of a full or broken disk, and of a stream that is closed."""


def set_up() -> None:
    """Read and write UTF-8; let no file that is opened later get the number of a stream that is closed.

    A stream that is closed fails once it is used: what stands in for it is open the wrong way around.
    """
    for number, mode in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest number that is free, this one
    if sys.stdin is None:
        raw = io.FileIO(0)
        raw.name = "<stdin>"  # as Python calls it
        sys.stdin = io.TextIOWrapper(io.BufferedReader(raw))
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")


@contextmanager
def withhold_stdin() -> Iterator[None]:
    """Inside the block, a library that asks a question finds no answer: stdin is for sources."""
    ours, sys.stdin = sys.stdin, io.StringIO()
    try:
        yield
    finally:
        sys.stdin = ours


def is_of_stdout(error: OSError) -> bool:
    """Whether it was stdout that could not be written to; if it was a file, `files.writing` names it."""
    return error.filename is None and error.errno in WRITE_ERRORS


def drop_unwritten() -> None:
    """Let what stdout could not take go nowhere, or Python would try again when it ends, and say so."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
