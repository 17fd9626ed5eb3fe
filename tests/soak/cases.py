"""Calls of the command line, many a second: one process imports everything once and forks for every call."""

from __future__ import annotations

import contextlib
import fnmatch
import gc
import hashlib
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

LIMIT_S = 20
"""A call that keeps the processor busy for longer hangs."""
WAITING_S = 180.0
"""Likewise one that has not ended after this time, whatever else the machine does."""
LONGEST_LINE = 2000
"""More than so many characters on a line of stderr nobody reads."""
MEMORY = 12 << 30
BUG = "bug of bidibeam"
"""What our own catch-all says of an exception that nobody foresaw; it is as bad as its traceback."""
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "MPLBACKEND": "agg",
    "COLUMNS": "200",
    "RUST_BACKTRACE": "0",
}
MODULES = "modules.json"
"""Where a call that `learns` leaves the names of what it imported."""


@dataclass(frozen=True)
class Case:
    """One call: its folder is the current directory, and holds every file that the call reads or writes."""

    name: str  # what was damaged, and how
    argv: list[str]
    folder: str
    stdin: str | None = os.devnull  # a file to read from; None for a stdin that is closed
    stdout: str | None = "stdout.txt"  # a file to write to (/dev/full ...); None for a stdout that is closed
    may_leave: list[str] = field(default_factory=lambda: ["*.partial"])  # patterns of paths, where it fails
    learns: bool = False  # whether what this call imports is imported for the calls that follow


@dataclass(frozen=True)
class Outcome:
    """What came of a call: the exit status (minus the signal, if one ended it) and what stderr got."""

    status: int | None  # None if it hung
    err: str
    seconds: float
    verdict: str  # "done", "refused", or what is wrong


def judge(case: Case, status: int | None, err: str, before: dict[str, str], after: dict[str, str]) -> str:
    """Whether the call did as it should: all of it, or nothing and a sentence that says why."""
    if status is None:
        return "hang"
    if status < 0 or "Traceback (most recent call last)" in err or BUG in err:
        return "traceback"
    if any(len(line) > LONGEST_LINE for line in err.splitlines()):
        return "long message"
    if status == 0:
        return "done"
    if not any(line.startswith("Error: ") and len(line) > 10 for line in err.splitlines()):
        return "no sentence"
    changed = [path for path in {*before, *after} if before.get(path) != after.get(path)]
    if any(not any(fnmatch.fnmatch(path, each) for each in case.may_leave) for path in changed):
        return "half-written file"
    return "refused"


def snapshot(folder: str) -> dict[str, str]:
    """What every file in a folder holds."""
    found = {}
    for path in Path(folder).rglob("*"):
        if path.is_file() and path.name not in ("stdout.txt", "stderr.txt", MODULES):
            found[str(path.relative_to(folder))] = hashlib.blake2b(path.read_bytes()).hexdigest()
    return found


class Caller:
    """A process that forks for every call it is sent."""

    def __init__(self) -> None:
        path = os.pathsep.join(each or str(Path.cwd()) for each in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.cases"],
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, case: Case) -> Outcome:
        """Run one case."""
        before = snapshot(case.folder)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(case)) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        err = Path(case.folder, "stderr.txt").read_text(encoding="utf-8", errors="replace")
        verdict = judge(case, answer["status"], err, before, snapshot(case.folder))
        return Outcome(answer["status"], err, answer["seconds"], verdict)

    def learn(self, folder: Path) -> None:
        """Import all that the calls in a folder have imported that were to be learnt from."""
        self.call(Case("", ["--version"], str(folder), learns=True))

    def close(self) -> None:
        """End the process."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


def call_all(cases: Iterable[Case], callers: list[Caller]) -> Iterator[tuple[Case, Outcome]]:
    """Run cases, as many at a time as there are callers; what came of them, in their order."""
    free = list(callers)

    def one(case: Case) -> Outcome:
        caller = free.pop()
        try:
            return caller.call(case)
        finally:
            free.append(caller)

    with ThreadPoolExecutor(len(callers)) as pool:
        waiting: list[tuple[Case, Any]] = []
        for case in cases:
            waiting.append((case, pool.submit(one, case)))
            while len(waiting) > 2 * len(callers):
                first, future = waiting.pop(0)
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()


def serve() -> None:
    """Read cases from stdin, fork for each, and write to stdout what came of it."""
    package = import_module("bidibeam")
    for module in pkgutil.walk_packages(package.__path__, "bidibeam."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    import_module("torch").set_num_threads(1)
    for line in sys.stdin:
        case = Case(**json.loads(line))
        learnt = Path(case.folder, MODULES)
        gc.freeze()  # or the first collection in each process would copy all that was imported
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            _be_called(case, learnt)
        status = _wait(child)
        sys.stdout.write(json.dumps({"status": status, "seconds": time.monotonic() - began}) + "\n")
        sys.stdout.flush()
        if case.learns:
            _import_all(learnt)


def _import_all(path: Path) -> None:
    for name in json.loads(path.read_text()) if path.is_file() else ():
        with contextlib.suppress(Exception):
            import_module(name)


def _wait(child: int) -> int | None:
    """The exit status of a process, minus the signal if one ended it; None if it had to be killed."""
    end = time.monotonic() + WAITING_S
    pause = 0.001
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if code == -signal.SIGXCPU else code
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _be_called(case: Case, learnt: Path) -> None:
    """Become the process that a shell would have started, and end as it would."""
    from bidibeam.cli.main import main

    status = 1
    try:
        os.chdir(case.folder)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit = LIMIT_S * (5 if case.learns else 1)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        _redirect(0, case.stdin, os.O_RDONLY)
        _redirect(1, case.stdout, os.O_WRONLY | os.O_CREAT)
        _redirect(2, "stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        streams: Any = sys
        streams.stdin = None if case.stdin is None else os.fdopen(0, closefd=False)
        streams.stdout = None if case.stdout is None else os.fdopen(1, "w", closefd=False)
        streams.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
        sys.argv = ["bidibeam", *case.argv]
        try:
            main(case.argv)
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else int(left.code is not None)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BaseException:
        status = 1
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            if case.learns:
                known = json.loads(learnt.read_text()) if learnt.is_file() else ()
                learnt.write_text(json.dumps(list(dict.fromkeys([*known, *sys.modules]))))
        os._exit(status)


def _redirect(number: int, name: str | None, flags: int) -> None:
    os.close(number)
    if name is not None:
        opened = os.open(name, flags, 0o644)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)


if __name__ == "__main__":
    serve()
