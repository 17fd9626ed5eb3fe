"""stdin and stdout as whoever called us left them: of any encoding, closed, or on a full disk."""

from __future__ import annotations

import errno
import io
import os
import sys


class ClosedStream(io.RawIOBase):
    """What stands in for a standard stream that was closed before we began: it fails once it is used."""

    def __init__(self, name: str) -> None:
        self.name = f"<{name}>"

    def readable(self) -> bool:
        """Yes, so that whoever reads is told why that fails."""
        return True

    def writable(self) -> bool:
        """Likewise."""
        return True

    def readinto(self, _: object, /) -> int:
        """Fail."""
        raise OSError(errno.EBADF, "it is closed", self.name)

    def write(self, _: object, /) -> int:
        """Fail."""
        raise OSError(errno.EBADF, "it is closed", self.name)


def set_up() -> None:
    """Read and write UTF-8; let no file that is opened later get the number of a stream that is closed."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(ClosedStream("stdin")))
    if sys.stdout is None:
        closed: io.RawIOBase = ClosedStream("stdout")
        sys.stdout = io.TextIOWrapper(closed, write_through=True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")


def is_of_stdout(error: OSError) -> bool:
    """Whether it was stdout that could not be written to; what is left to write then fails again."""
    try:
        sys.stdout.flush()
    except OSError as again:
        return again.errno == error.errno
    return False


def drop_unwritten() -> None:
    """Let what stdout could not take go nowhere, or Python would try again when it ends, and say so."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
