"""Kills of real processes: by SIGKILL, SIGTERM and SIGINT at random moments, once or twice, then resumed.

Every command is first left alone; what a killed and resumed one leaves must be the same, and nothing besides.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from tests.conftest import write_toy_corpus
from tests.soak.bases import BART, SMALL

BIDIBEAM = [sys.executable, "-m", "bidibeam.cli.main"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}  # one thread adds sums up in one order
SIGNALS = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
"""How processes are killed, and the exit status that follows."""
KILLS = 20
"""Kills for each seed of the full soak."""
EARLIEST_S = 0.3
"""Before that Python itself may still be starting, which is nobody's matter here."""
MOST_TRIES = 6
"""So often a kill comes earlier and earlier, after which a command cannot be killed."""
FINISHED = (b"is finished already", b"holds an export already")
"""What a command says that is begun again, but had ended when it was killed."""
PASSING = {"took_s", "tokens_per_s", "cost", "seconds"}
"""Keys of JSON whose values are times."""
UNCOMPARED = {".svg", ".png", ".html", ".md", ".txt"}
"""Endings of files that show what others hold, with times among it."""

SHORT = ["max_steps=30", "save_every=7", "evaluate_every=12", "batch_size=32", "tensorboard=false"]
TRAINING = " ".join(f"--set training.{setting}" for setting in SHORT)
EXPERIMENT = """
    --set prepare.vocabulary_size=100 --set prepare.limit=400
    --set beam_sizes=[2,4] --set systems=[vbs,vbs-tuned,bidis,longest] --set search.max_length=9
    --set sources=20 --set validation_sources=6 --set cost_sources=0 --set examples=2
"""


@dataclass(frozen=True)
class Case:
    """A command, with {out} for its own folder and {NAME} for what the case NAME left in its own."""

    name: str
    words: str
    again: str = ""  # what is added to go on with it
    told: str = "The same command"  # part of what an interrupted one says
    copied: str = ""  # what it writes into, which another case made


RESUMED = {"again": "--resume", "told": "--resume"}
CASES = [
    Case("prepare", "prepare tsv --source {inputs}/pairs.tsv --out {out}/data --keep-text", "--overwrite"),
    Case("train", f"train {{prepare}}/data --out {{out}}/run {SMALL} {TRAINING}", **RESUMED),
    Case("decode", "decode {train}/run {inputs}/sources --batch-size 16 --n-best {out}/a.jsonl", **RESUMED),
    Case("rerank", "rerank {decode}/a.jsonl --similarity bleu_t --n-best {out}/ranked.jsonl", **RESUMED),
    Case(
        "train-hf",
        "train {prepare}/data --base {inputs}/config.json --direction both --out {out}/model "
        + " ".join(f"--set {setting}" for setting in SHORT),
        **RESUMED,
    ),
    Case(
        "decode-hf",
        "decode {train-hf}/model {inputs}/sources --max-length 8 --batch-size 7 --n-best {out}/a.jsonl.gz",
        **RESUMED,
    ),
    Case("tune", "tune {out}/run --beam-size 4 --sources 20", copied="train/run"),
    Case(
        "reproduce",
        "reproduce --corpus tsv --source {inputs}/pairs.tsv --workers 1 --device cpu --out {out}/all "
        f"{SMALL} {TRAINING} {EXPERIMENT}",
    ),
    Case("score", "score {decode}/a.jsonl --model {train}/run --overwrite -o {out}/scored.jsonl"),
    Case("export", "export {train}/run --out {out}/exported --half --card"),
    Case(
        "decode-shared",
        "decode {train}/run {inputs}/sources --batch-size 4 --processes 2 --n-best {out}/a.jsonl",
        **RESUMED,
    ),
]


@dataclass
class Soak:
    """Folders, what each command leaves if it is left alone, and what was found."""

    folder: Path
    report: Callable[[str], None]
    chance: random.Random = field(default_factory=random.Random)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    undisturbed: dict[str, tuple[float, bytes, dict[str, Any]]] = field(default_factory=dict)

    def write_inputs(self) -> None:
        """A corpus with a rule, sources, and the config of a small Hugging Face model."""
        inputs = self.folder / "inputs"
        inputs.mkdir()
        write_toy_corpus(inputs / "pairs.tsv", 8000)
        lines = (inputs / "pairs.tsv").read_text().splitlines()[:60]
        (inputs / "sources").write_text("".join(f"{line.partition(chr(9))[0]}\n" for line in lines))
        (inputs / "config.json").write_text(json.dumps({**BART, "init_std": 0.3}))

    def command(self, case: Case, out: Path) -> list[str]:
        """The words of a case, which writes into `out`."""
        if case.copied and not (out / "run").exists():
            subprocess.run(["cp", "-r", self.folder / case.copied, out / "run"], check=True)
        places = {each.name: self.folder / each.name for each in CASES} | {"inputs": self.folder / "inputs"}
        return [*BIDIBEAM, *(word.format(out=out, **places) for word in case.words.split())]

    def leave_alone(self, case: Case) -> tuple[float, bytes, dict[str, Any]]:
        """How long a command takes, what it prints and what it leaves, if nobody kills it."""
        if case.name not in self.undisturbed:
            for other in CASES:
                if f"{{{other.name}}}" in case.words or case.copied.startswith(f"{other.name}/"):
                    self.leave_alone(other)
            out = self.folder / case.name
            out.mkdir()
            command, began = self.command(case, out), time.monotonic()
            done = self.start(command, None, 0)
            if done.returncode:
                raise RuntimeError(f"{case.name}, left alone: {done.stderr.decode()}")
            self.undisturbed[case.name] = time.monotonic() - began, done.stdout, read_tree(out)
        return self.undisturbed[case.name]

    def kill(self, case: Case, seed: int, number: int) -> None:
        """Kill a command, once or twice, go on with it, and compare."""
        took, printed, left = self.leave_alone(case)
        out = self.folder / f"{seed}-{number}"
        out.mkdir()
        self.chance = random.Random(f"{seed}/{number}")
        place, kills = f"seed {seed}, kill {number}: {case.name}", self.chance.choice([1, 1, 2])
        again: list[str] = []
        tries = 0
        by, share = self.chance.choice(list(SIGNALS)), self.chance.uniform(0.05, 1)
        while True:
            command = [*self.command(case, out), *again]
            done = self.start(command, by if kills else None, share * took)
            if done.returncode == 0 and kills and not again:  # it was over before it could be killed
                subprocess.run(["rm", "-r", out], check=True)
                out.mkdir()
                share, tries = share * 0.5, tries + 1
                if tries == MOST_TRIES:
                    self.fail("never killed", place, by.name)
                    return
                continue
            if not kills or done.returncode == 0 or is_finished(done):
                break
            place += f", {by.name} at {share:.2f}"
            self.check_kill(case, by, done, place)
            self.check_files(out, place)
            kills, again = kills - 1, case.again.split()
            by, share = self.chance.choice(list(SIGNALS)), self.chance.uniform(0.05, 1)
        told = done.stderr.decode()
        if (done.returncode and not is_finished(done)) or done.stdout != printed:
            self.fail("not resumed", place, told[-300:] or "other replies")
            return
        found = read_tree(out)
        for name in sorted({*left, *found}):
            if left.get(name) != found.get(name) or (name in left) != (name in found):
                self.fail("differences" if name in left else "leftovers", place, name)
        subprocess.run(["rm", "-r", out], check=True)

    def start(
        self, command: list[str], by: signal.Signals | None, after_s: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command, to its end or until it is killed."""
        after_s = max(EARLIEST_S, after_s)
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, env=ENVIRONMENT, preexec_fn=heed_signals, **pipes) as process:
            try:
                outputs = process.communicate(timeout=after_s if by is not None else None)
            except subprocess.TimeoutExpired:
                process.send_signal(by or signal.SIGKILL)
                outputs = process.communicate()
        return subprocess.CompletedProcess(command, process.returncode, *outputs)

    def check_kill(
        self, case: Case, by: signal.Signals, done: subprocess.CompletedProcess[bytes], place: str
    ) -> None:
        """An interrupted command says how to go on, in a sentence, and its exit status tells the signal."""
        told = done.stderr.decode()
        self.counts.update(["kills", by.name, f"kills of {case.name}"])
        if done.returncode != SIGNALS[by]:
            self.fail("other exit status", place, str(done.returncode))
        if "Traceback" in told:
            self.fail("tracebacks", place, told[-300:])
        if by is not signal.SIGKILL and case.told not in told:
            self.fail("no way on", place, told[-300:])

    def check_files(self, out: Path, place: str) -> None:
        """What a killed command left under its own name must be whole."""
        for path in out.rglob("*"):
            if path.is_file() and path.suffix in (".json", ".safetensors") and "partial" not in str(path):
                try:
                    json.loads(path.read_text()) if path.suffix == ".json" else load_file(path)
                except Exception as error:
                    self.fail("half-written files", place, f"{path.relative_to(out)}: {error}")

    def fail(self, kind: str, place: str, what: str) -> None:
        """Note what should not have been."""
        self.counts[kind] += 1
        self.failures.append(f"{place}: {kind}: {' '.join(what.split())}")
        self.report(self.failures[-1])


def is_finished(done: subprocess.CompletedProcess[bytes]) -> bool:
    """Whether there was nothing left to do."""
    return any(told in done.stderr for told in FINISHED)


def heed_signals() -> None:
    """Take signals as a terminal's processes do; a process inherits which ones the one before it ignores."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def read_tree(folder: Path) -> dict[str, Any]:
    """What the files of a folder hold, without times; nothing for those that are not compared."""
    tree = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            tree[name] = None if path.suffix in UNCOMPARED else read(path, str(folder))
    return tree


def read(path: Path, own: str) -> Any:
    """The content of a file, without times and without its own folder's name."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if path.suffix not in (".json", ".jsonl", ".gz"):
        return content
    text = content.decode().replace(own, "OUT")
    lines = [text] if path.suffix == ".json" else text.splitlines()
    return [without_times(json.loads(line)) for line in lines]


def without_times(value: Any) -> Any:
    """JSON without what takes another time each time."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in PASSING}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def run(seeds: Sequence[int], count: int | None, report: Callable[[str], None]) -> dict[str, Any]:
    """Kill each command in turn, so many for each seed; count what was found."""
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), report)
        soak.write_inputs()
        for seed in seeds:
            for number in range(KILLS if count is None else count):
                soak.kill(CASES[number % len(CASES)], seed, number)
            report(f"seed {seed}: {soak.counts['kills']} kills, {len(soak.failures)} failures")
    return {**soak.counts, "failures": soak.failures}
