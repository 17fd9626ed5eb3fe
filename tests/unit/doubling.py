"""A recipe that spawned processes can import, for tests of sharing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from bidibeam.errors import InputError, SettingsError
from bidibeam.work import count


class OddError(Exception):
    """One that cannot be unpickled."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


@dataclass(frozen=True)
class Doubling:
    """Doubles numbers, tells which process did it, and goes wrong where it is told to."""

    refused: int | None = None
    odd: int | None = None
    fatal: int | None = None
    slow: int | None = None
    is_broken: bool = False
    device: str | None = None

    def on(self, device: str | None) -> Doubling:
        return replace(self, device=device)

    def build_work(self) -> Callable[[int], tuple[int, int, str | None]]:
        if self.is_broken:
            raise SettingsError("It cannot be built.", "built")
        return self.double

    def double(self, number: int) -> tuple[int, int, str | None]:
        if number == self.refused:
            raise InputError(f"{number} is refused.")
        if number == self.odd:
            raise OddError(number, number)
        if number == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == self.slow:
            time.sleep(2)
        count(compared_pairs=1)
        return 2 * number, os.getpid(), self.device
