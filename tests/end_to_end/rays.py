"""Commands and clusters of Ray in sessions of their own, of which nothing is left when a test ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.soak.kills import BIDIBEAM, ENVIRONMENT, heed_signals

LIMIT_S = 180.0
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 2}
"""How clusters of tests know their own: since 2.5x `ray start` asks for a token where there is one."""
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
HEAD = (
    "ray start --head --block --port=0 --num-cpus=2 --include-dashboard=false --object-store-memory=100000000"
)


def members(session: int, title: str = "") -> list[int]:
    """The processes of a session whose command line begins so."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            command = (folder / "cmdline").read_bytes()
            if command.startswith(title.encode()) and os.getsid(int(folder.name)) == session:
                is_gone = "\nState:\tZ" in (folder / "status").read_text()
                found += [] if is_gone else [int(folder.name)]
    return found


def wait_for(is_due: Callable[[], Any], what: str) -> Any:
    """What is due, once it is."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if due := is_due():
            return due
        time.sleep(0.02)
    raise AssertionError(f"{what} never came")


@contextmanager
def started(
    command: Sequence[object], cwd: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process with a session of its own, all of which is killed in the end."""
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": heed_signals}
    env = {**ENVIRONMENT, "RAY_USAGE_STATS_ENABLED": "0", **(environment or {})}
    words = [*map(str, command)]
    with subprocess.Popen(words, cwd=cwd, env=env, text=True, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            while left := members(process.pid):
                for each in left:
                    with suppress(ProcessLookupError):
                        os.kill(each, signal.SIGKILL)
                time.sleep(0.05)
                process.poll()


def is_over(process: subprocess.Popen[str]) -> bool:
    """Whether nothing of a command is left but agents, which take a minute to see that their cluster died."""
    process.poll()
    return len(members(process.pid)) == sum(len(members(process.pid, title)) for title in AGENTS)


def call(
    *words: object, cwd: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What came of a command on Ray, of which nothing is left."""
    with started([*BIDIBEAM, *words, "--executor", "ray"], cwd, environment) as process:
        out, err = process.communicate(timeout=LIMIT_S)
        wait_for(lambda: is_over(process), "the end of its processes")
    return subprocess.CompletedProcess([], process.returncode, out, err)


@contextmanager
def cluster(cwd: Path) -> Iterator[str]:
    """The address of a running cluster of this machine."""
    with started(HEAD.split(), cwd, TOKEN) as head:
        assert head.stdout is not None
        told = ""
        for line in head.stdout:
            told += line
            if match := re.search(r"--address='(.+?)'", line):
                break
        else:
            raise AssertionError(f"{told}{head.communicate()[1]}")
        yield match[1]
