"""Jobs on Ray: a worker is killed at a random moment, then the driver by a signal, and rows are compared."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from tests.conftest import WORDS
from tests.end_to_end.rays import call, is_over, members, started
from tests.soak.kills import BIDIBEAM, SIGNALS
from tests.unit.cli.calls import called

SOURCES = 5000
SHARDS = 50
FLAGS = ("--beam-size", "4", "--batch-size", "16", "--strategy", "bidia")
ACTOR = "ray::MapWorker"


@dataclass
class Soak:
    """A folder of shards, the answers of one process, and what was found."""

    folder: Path
    count: int
    report: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    alone: dict[str, bytes] = field(default_factory=dict)

    def prepare(self) -> None:
        """Write the shards, and answer each without Ray."""
        chooser = random.Random(0)
        (self.folder / "in").mkdir()
        for shard in range(min(SHARDS, self.count)):
            size = len(range(shard, self.count, SHARDS))
            lines = (" ".join(chooser.choices(WORDS, k=chooser.randint(1, 6))) for _ in range(size))
            (self.folder / "in" / f"{shard:02}.txt").write_text("".join(f"{line}\n" for line in lines))
        torch.set_num_threads(1)
        for path in sorted((self.folder / "in").iterdir()):
            out = self.folder / "alone.jsonl"
            done = called("decode", path, *FLAGS, "--n-best", out)
            if done.status:
                raise RuntimeError(done.err)
            self.alone[f"{path.stem}.jsonl"] = out.read_bytes()
            out.unlink()
        self.report(f"{self.count:,} sources were answered without Ray")

    def trial(self, seed: int) -> None:
        """Kill a worker and then the driver, each at a random moment, go on, and compare."""
        chance, out = random.Random(seed), self.folder / f"out-{seed}"
        by = [*SIGNALS][seed % len(SIGNALS)]
        words = ["decode", "in", *FLAGS, "--out", out, "--processes", 2]
        worker_at, driver_at = sorted(chance.sample(range(1, max(3, len(self.alone) * 3 // 4)), 2))
        with started([*BIDIBEAM, *words, "--executor", "ray"], self.folder) as process:
            for at, act in ((worker_at, self.kill_worker), (driver_at, lambda each: each.send_signal(by))):
                while process.poll() is None and len(answers(out)) < at:
                    time.sleep(0.01)
                act(process)
            _, told = process.communicate()
            while not is_over(process):
                time.sleep(0.1)
        place = f"seed {seed}: worker at {worker_at}, driver by {by.name} at {driver_at} of {len(self.alone)}"
        self.counts.update(["drivers killed", by.name])
        if process.returncode != SIGNALS[by]:
            self.fail("other exit status", place, f"{process.returncode}: {told[-300:]}")
        done = {name: (out / name).stat().st_mtime_ns for name in answers(out)}
        resumed = call(*words, cwd=self.folder)
        if resumed.returncode:
            self.fail("not resumed", place, resumed.stderr[-300:])
        if "Traceback" in told + resumed.stderr:
            self.fail("tracebacks", place, (told + resumed.stderr)[-300:])
        repeated = [name for name, at in done.items() if (out / name).stat().st_mtime_ns != at]
        self.counts.update({"shards done when the driver was killed": len(done), "rows compared": self.count})
        for name in repeated:
            self.fail("repeated", place, name)
        for name in {*self.alone, *answers(out)}:
            if self.alone.get(name) != answers(out).get(name):
                self.fail("differences", place, name)
        left = {str(path.relative_to(out)) for path in out.rglob("*")} - {*self.alone, "_manifest.json"}
        for name in left:
            self.fail("leftovers", place, name)

    def kill_worker(self, driver: Any) -> None:
        """Kill one of the actors."""
        with suppress(IndexError, ProcessLookupError):
            os.kill(members(driver.pid, ACTOR)[0], signal.SIGKILL)
            self.counts["workers killed"] += 1

    def fail(self, kind: str, place: str, what: str) -> None:
        """Note what should not have been."""
        self.counts[kind] += 1
        self.failures.append(f"{place}: {kind}: {' '.join(what.split())}")
        self.report(self.failures[-1])


def answers(out: Path) -> dict[str, bytes]:
    """The shards of answers that are whole."""
    return {path.name: path.read_bytes() for path in out.glob("[!._]*.jsonl")}


def run(seeds: Sequence[int], count: int | None, report: Callable[[str], None]) -> dict[str, Any]:
    """A trial for each seed, of so many sources."""
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), SOURCES if count is None else count, report)
        soak.prepare()
        for seed in seeds:
            soak.trial(seed)
            report(f"seed {seed}: {len(soak.failures)} failures")
    facts = {"sources": soak.count, "shards": len(soak.alone), "actors": 2, "ray": version("ray")}
    return {**facts, **soak.counts, "failures": soak.failures}
