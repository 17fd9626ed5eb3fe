"""Damaged inputs: every call must do all of its work, or refuse it in a sentence and leave nothing half done.

`python -m tests.soak.damage SEED/NUMBER` runs one case of the soak and shows what it said.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from bidibeam.cli.main import COMMANDS, load_command
from tests.soak import damaged_folders
from tests.soak.bases import copy_bases, make_bases
from tests.soak.cases import Caller, Case, Outcome, call_all
from tests.soak.mutations import WILD_FLAGS, damage_bytes, damage_file, draw_bomb

FULL = 2000
"""How many cases a seed has in the full soak."""
PROCESSES = 2
FOLDERS = 0.35
"""The share of cases that are about folders."""
LISTS = ("lists.jsonl", "lists.nbest", "fairseq.txt", "openai.jsonl", "ranked.jsonl", "lists.jsonl.gz")
CALLS = [
    "decode run sources.txt --n-best out.jsonl",
    "decode run sources.jsonl --n-best out.jsonl.gz",
    "decode run sources.tsv --strategy oracle",
    "decode run - --strategy vbs",
    "decode run sources.txt --n-best regular.jsonl --resume --strategy vbs --beam-size 4 --max-length 8",
    "chat run",
    "rerank mbrs.txt --per-source 2 --strategy longest",
    "rerank lists.jsonl --strategy bidis --tuned tuned.json",
    "rerank lists.jsonl --strategy vbs-tuned --tuned tuned.json",
    "rerank lists.jsonl --similarity wmd_t --vectors toy.vec",
    "rerank lists.jsonl --strategy bidis --lambda 1 --n-best ranked.jsonl --resume",
    "rerank -",
    "rerank lists.nbest --reverse lists.nbest --sources sources.txt --references references.txt",
    "convert - --to moses",
    "convert lists.jsonl.xz --to fairseq -o out.txt",
    "convert mbrs.txt --per-source 2 -o out.jsonl",
    "convert ranked.jsonl --ranked --to openai -o out.jsonl",
    "convert lists.nbest --sources sources.txt --references references.txt --log-prob LogProb",
    "score lists.jsonl --model run --out out.jsonl",
    "score lists.nbest --model run --sources sources.txt --batch-size 2",
    "evaluate lists.jsonl regular.jsonl --references references.txt --out out.json --trials 50 --samples 20",
    "evaluate a=sources.txt b=references.txt --references sources.tsv --trials 50 --samples 20",
    "evaluate lists.jsonl --strategy vbs --strategy bidia --references references.txt --trials 50",
    "evaluate scored.jsonl --references sources.jsonl --metric distinct-1",
    "analyse lists.jsonl regular.jsonl --out analysis",
    "analyse lists.jsonl --tuned tuned.json --analysis ranks",
    "report results --out page",
    "report results/evaluation.json --out page",
    "report results/analyses.json --out page",
    "export run --results results/results.json --out exported",
    "train data --out new --config config.yaml --set training.max_steps=1",
    "train data --base bart.json --out new --config fine.yaml --set max_steps=1",
    "reproduce --out made --data data --model run --config made.yaml --set systems=[vbs]",
    "prepare tsv --source pairs.tsv --out new",
    "prepare jsonl --source turns.jsonl --out new",
    "prepare jsonl --source turns.jsonl.gz --out new",
    "tune run --sources 2 --beam-size 2 --strategy bidis",
    "info run --json",
    "explain run hello --beam-size 4 --out why.html",
    "explain --lists lists.jsonl --out why.json",
    *(f"rerank {name} --words --n-best out.jsonl" for name in LISTS),
    *(f"convert {name} -o out.jsonl" for name in LISTS),
]
"""Calls that work while nothing is damaged; words that name a base (see `bases`) are copied."""
STDIN = {"decode": "sources.txt", "chat": "sources.txt", "rerank": "lists.jsonl", "convert": "lists.nbest"}
PAIRS = {
    "--set": (
        "training.epochs",
        "model.dropout",
        "training.precision",
        "beam_sizes",
        "model",
        "x",
        "",
        "a.b.",
    ),
    "--similarity-option": ("smoothing", "form", "weights", "max_length", "x", "", "max_order"),
    "--strategy-option": ("lambda_", "answer", "x", "seed"),
    "--strategy": (),
    "--metric": (),
}
"""Flags that take NAME=VALUE, with names to try."""


def make_case(seed: int, number: int, bases: Path, folder: Path) -> Case:
    """One call on damaged input, the same for the same numbers."""
    chooser = random.Random(f"{seed}/{number}")
    folder.mkdir()
    if chooser.random() < FOLDERS:
        return damaged_folders.make_case(chooser, bases, folder)
    case = _whole_case(chooser.choice(CALLS), bases, folder)
    ways = [
        *[_damage_input] * 11,
        *[_wild_flag] * 4,
        *[_wild_pair] * 2,
        *[_damage_output] * 2,
        _damage_stream,
    ]
    return chooser.choice(ways)(case, chooser)


def _whole_case(call: str, bases: Path, folder: Path) -> Case:
    """The call with all that it reads in its folder."""
    named = {each.rpartition("=")[2].partition("/")[0] for each in call.split()}
    copy_bases(bases, folder, *sorted(named))
    command = call.split()[0]
    stdin = Path(folder, "stdin.txt")
    stdin.write_bytes((bases / STDIN[command]).read_bytes() if command in STDIN else b"")
    return Case(call, call.split(), str(folder), stdin="stdin.txt")


def _inputs(case: Case) -> list[Path]:
    """Every file that a call reads, lists and text before folders; of results each."""
    words = {each.rpartition("=")[2] for each in case.argv}
    found = [Path(case.folder, each) for each in sorted(words) if Path(case.folder, each).exists()]
    files = [each for each in found if each.is_file()]
    if "results" in words:
        files += sorted(Path(case.folder, "results").glob("*.json"))
    is_read = {"-", "chat"} & {*case.argv}
    return files + [Path(case.folder, "stdin.txt")] * bool(is_read) or found


def _damage_input(case: Case, chooser: random.Random) -> Case:
    path = chooser.choice(_inputs(case))
    if path.is_dir():
        path = chooser.choice(sorted(each for each in path.rglob("*") if each.is_file()))
    if path.name == "stdin.txt":
        how, content = damage_bytes(path.read_bytes(), chooser)
        path.write_bytes(content)
    elif path.suffix == ".yaml" and chooser.random() < 0.5:
        how = chooser.choice(["bomb", "wild"])
        wild = draw_bomb() if how == "bomb" else f"training:\n  epochs: {chooser.choice(WILD_FLAGS)}\n"
        path.write_text(wild, errors="replace")
    else:
        how = damage_file(path, chooser)
    return replace(case, name=f"{path.name} {how}: {case.name}")


def _wild_flag(case: Case, chooser: random.Random) -> Case:
    """An option of the command that takes a value gets a wild one, over what the call gave."""
    params = load_command(case.argv[0]).params
    options = [each for each in params if isinstance(each, click.Option) and not each.is_flag]
    if not options:
        return _damage_input(case, chooser)
    flag = chooser.choice(options).opts[0]
    value = chooser.choice(WILD_FLAGS)
    return replace(case, name=f"{flag} {value[:30]!r}: {case.name}", argv=[*case.argv, f"{flag}={value}"])


def _wild_pair(case: Case, chooser: random.Random) -> Case:
    """A flag of NAME=VALUE that the command has gets a wild value."""
    options = {each for param in load_command(case.argv[0]).params for each in param.opts}
    flags = [each for each in PAIRS if each in options]
    if not flags:
        return _wild_flag(case, chooser)
    flag = chooser.choice(flags)
    value = draw_bomb() if chooser.random() < 0.05 else chooser.choice(WILD_FLAGS)
    text = f"{chooser.choice(PAIRS[flag])}={value}" if PAIRS[flag] else f"bidia {value}"
    return replace(case, name=f"{flag} {text[:40]!r}: {case.name}", argv=[*case.argv, flag, text])


def _damage_output(case: Case, chooser: random.Random) -> Case:
    """What a call would write to cannot be written to, or is something else already."""
    flags = [each for each in ("-o", "--out", "--n-best") if each in case.argv]
    if not flags:
        return _damage_stream(case, chooser)
    at = case.argv.index(flags[0]) + 1
    path = Path(case.folder, case.argv[at])
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    way = chooser.choice(
        ["loop", "folder", "full", "file", "under", "long", "dangling", "device", "name", "gz"]
    )
    name = case.argv[at]
    if way == "loop":
        path.symlink_to(path.name)
    elif way == "folder":
        path.mkdir()
        (path / "other.txt").write_text("other")
    elif way == "file":
        path.write_text("other")
    elif way == "dangling":
        path.symlink_to("missing/away.txt")
    elif way == "under":
        (path.parent / "file").write_text("")
        name = "file/below"
    elif way == "gz":
        path.write_bytes(b"\x1f\x8b")
    else:
        name = {"full": "/dev/full", "long": "n" * 300, "device": "/dev/null/x", "name": "a\udcffb"}[way]
    argv = [*case.argv[:at], name, *case.argv[at + 1 :]]
    return replace(case, name=f"output {way}: {case.name}", argv=argv)


def _damage_stream(case: Case, chooser: random.Random) -> Case:
    way = chooser.choice(["stdin closed", "stdout closed", "stdout full", "both closed"])
    stdin = None if way in ("stdin closed", "both closed") else case.stdin
    stdout = None if way in ("stdout closed", "both closed") else case.stdout
    stdout = "/dev/full" if way == "stdout full" else stdout
    return replace(case, name=f"{way}: {case.name}", stdin=stdin, stdout=stdout)


@contextmanager
def _callers(processes: int = 1) -> Iterator[tuple[list[Caller], Path, Path]]:
    """Processes that call, the folder of the bases, and one for the cases."""
    with tempfile.TemporaryDirectory(prefix="damage-") as kept:
        bases, folder = Path(kept, "bases"), Path(kept, "cases")
        bases.mkdir()
        folder.mkdir()
        callers = [Caller() for _ in range(processes)]
        try:
            make_bases(bases, callers[0])
            for other in callers[1:]:
                other.learn(bases)
            yield callers, bases, folder
        finally:
            for caller in callers:
                caller.close()


def run(seeds: Sequence[int], count: int | None, report: Callable[[str], None]) -> dict[str, Any]:
    """Try so many damaged inputs for each seed: how many calls were done, refused, or went wrong."""
    verdicts: Counter[str] = Counter()
    commands: Counter[str] = Counter()
    failures: list[str] = []
    numbers = [(seed, number) for seed in seeds for number in range(FULL if count is None else count)]
    with _callers(PROCESSES if count is None else 1) as (callers, bases, folder):
        cases = (make_case(*each, bases, folder / f"{each[0]}-{each[1]}") for each in numbers)
        for (seed, number), (case, outcome) in zip(numbers, call_all(cases, callers), strict=True):
            verdicts[outcome.verdict] += 1
            commands[case.argv[0]] += 1
            if outcome.verdict not in ("done", "refused"):
                failures.append(_describe(f"{seed}/{number}", case, outcome))
                report(failures[-1])
            shutil.rmtree(case.folder)
            if (done := sum(verdicts.values())) % 200 == 0:
                report(f"damaged inputs: {done:,} of {len(numbers):,}, {len(failures)} wrong")
    ordered = {name: commands[name] for name in COMMANDS}
    return {
        "tried": len(numbers),
        **dict(sorted(verdicts.items())),
        "commands": ordered,
        "failures": failures,
    }


def _describe(place: str, case: Case, outcome: Outcome) -> str:
    told = [line for line in outcome.err.splitlines() if line.strip()]
    return f"{place} {outcome.verdict} ({outcome.status}): {case.name}: {told[-1][:200] if told else ''}"


if __name__ == "__main__":
    seed, number = map(int, sys.argv[1].split("/"))
    with _callers() as ((caller,), bases, folder):
        case = make_case(seed, number, bases, folder / "case")
        sys.stdout.write(f"{case}\n{caller.call(case)}\n")
