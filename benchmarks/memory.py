"""How much memory decode, rerank, convert and evaluate take, for a hundred sources to a million.

    python benchmarks/memory.py [--largest 1000000] [--largest-decode 100000] [--out FILE]

It makes its own inputs, of six words a text and two hypotheses in each direction, and trains a toy run on
some of them. Then each command is called at every power of ten, as users call it, and the most resident
memory that its process ever had is read. Lists and replies go to files in a temporary folder, which needs
three gigabytes at a million.
"""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

# Nothing else is imported: a process counts what its parent had when it was started.

FEWEST = 100
WORDS = [f"{start}{end}" for start in "bdfgklmnpr" for end in "aeiouaiauei"]
BIDIBEAM = [sys.executable, "-m", "bidibeam"]
TOY = {"encoder_size": 16, "decoder_size": 32, "embedding_size": 16, "attention_size": 16, "readout_size": 24}
SEARCH = {"--beam-size": 4, "--max-length": 7}
LIBRARIES = ("bidibeam", "torch", "numpy", "sacrebleu")


@click.command(help=__doc__)
@click.option("--largest", type=click.IntRange(FEWEST), default=1_000_000, show_default=True)
@click.option("--largest-decode", type=click.IntRange(FEWEST), default=100_000, show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def main(largest: int, largest_decode: int, out: Path | None) -> None:
    """Measure, print."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = train_toy(folder)
        sources = FEWEST
        while sources <= max(largest, largest_decode):
            files = write_inputs(folder, sources)
            for command, arguments in list_commands(run, files, folder).items():
                if sources <= (largest_decode if command == "decode" else largest):
                    rows.append({"command": command, "sources": sources, **measure(arguments)})
                    tell(rows)
            sources *= 10
    if out is not None:
        signature = {
            **{library: version(library) for library in LIBRARIES},
            "python": platform.python_version(),
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "search": SEARCH,
            "toy": TOY,
        }
        out.write_text(json.dumps({"signature": signature, "rows": rows}, indent=2) + "\n", encoding="utf-8")


def list_commands(run: Path, files: Mapping[str, Path], folder: Path) -> dict[str, Sequence[object]]:
    """The command lines by what they are called in tables."""
    lists, references, found = files["lists"], files["references"], folder / "found.jsonl"
    search = [word for pair in SEARCH.items() for word in pair]
    scored = (files["replies"], "--references", references)
    return {
        "decode": ("decode", run, files["sources"], *search, "--n-best", found),
        "rerank": ("rerank", lists, "--n-best", found),
        "convert": ("convert", lists, "--out", folder / "found.moses"),
        "evaluate, BLEU": ("evaluate", *scored, "--metric", "bleu"),
        "evaluate": ("evaluate", *scored),
        "evaluate, two systems": ("evaluate", *scored, files["sources"]),
        "evaluate, n-best lists": ("evaluate", lists, "--references", references),
    }


def measure(arguments: Sequence[object]) -> dict[str, float]:
    """The most memory that a call has, in MiB, and its seconds."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [*BIDIBEAM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    told = process.stderr.read() if process.stderr is not None else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise click.ClickException(told.decode())
    took_s = time.perf_counter() - began
    return {"mib": round(usage.ru_maxrss / 1024, 1), "seconds": round(took_s, 1)}


def tell(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the last row, and how many bytes each source more took."""
    *before, row = rows
    smaller = next((each for each in reversed(before) if each["command"] == row["command"]), None)
    more = ""
    if smaller is not None:
        added = (row["mib"] - smaller["mib"]) * 2**20 / (row["sources"] - smaller["sources"])
        more = f"{round(added):,} bytes a source more"
    told = f"{row['command']:24} {row['sources']:>9,} {row['mib']:8.1f} MiB {row['seconds']:8.1f} s  {more}"
    click.echo(told)


def make_texts(count: int, seed: int) -> Iterator[str]:
    """Texts of six words drawn at random."""
    chooser = random.Random(seed)
    return (" ".join(chooser.choices(WORDS, k=6)) for _ in range(count))


def write_inputs(folder: Path, count: int) -> dict[str, Path]:
    """Files of so many lines: sources, references, replies and lists."""
    names = ("sources", "references", "replies")
    files = {name: folder / f"{name}.txt" for name in (*names, "lists")}
    for seed, name in enumerate(names):
        with files[name].open("w", encoding="utf-8") as file:
            file.writelines(f"{text}\n" for text in make_texts(count, seed))
    files["lists"] = folder / "lists.jsonl"
    chooser = random.Random(count)
    with files["lists"].open("w", encoding="utf-8") as file:
        hypotheses = make_texts(4 * count, 3)
        for number, source in enumerate(make_texts(count, 0)):
            regular, reverse = (
                [
                    {"text": next(hypotheses), "log_prob": -9 * chooser.random(), "other_log_prob": -4.0}
                    for _ in range(2)
                ]
                for _ in range(2)
            )
            line = {"id": f"source-{number}", "source": source, "regular": regular, "reverse": reverse}
            file.write(json.dumps(line) + "\n")
    return files


def train_toy(folder: Path) -> Path:
    """A run that has seen a few texts, in seconds."""
    with (folder / "pairs.tsv").open("w", encoding="utf-8") as file:
        file.writelines(f"{text}\t{text}\n" for text in make_texts(2000, 4))
    options: dict[str, object] = {f"model.{name}": value for name, value in TOY.items()}
    options |= {"training.epochs": 1, "training.tensorboard": "false"}
    settings = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    for arguments in (
        ("prepare", "tsv", "--source", folder / "pairs.tsv", "--out", folder / "data"),
        ("train", folder / "data", "--out", folder / "run", "--no-tune", *settings),
    ):
        measure(arguments)
    return folder / "run"


if __name__ == "__main__":
    main()
