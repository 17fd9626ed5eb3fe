"""How many sources a second one process answers, several that share a machine, and Ray's actors.

    python -m benchmarks.scaling cpu --out results/scaling/cpu.json
    python -m benchmarks.scaling gpu --out results/scaling/h200.json

`cpu` answers sources of the chitchat corpus by the model in the box, and chooses among its lists again, each
by one process, by --processes and by --executor ray, on the same shards. The time that a call takes for a
shard of one source is taken off, so that starting and loading do not count; it stands beside the rate.

`gpu` needs a GPU. It answers the same sources by the model in the box, and sources of 1 to 500 tokens by two
models of BART-large's size with random weights in bfloat16, as they come and sorted by length; by one
process, and by several on the one GPU. From the first reply to the last it asks nvidia-smi five times a
second how busy the GPU is: the share of time in which a kernel ran.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from statistics import mean
from threading import Thread
from typing import Any

import click
import torch

from bidibeam import __version__
from bidibeam.data.corpora import CORPORA
from bidibeam.hypotheses import Direction
from bidibeam.interchange.text_lines import to_line

BIDIBEAM = [sys.executable, "-m", "bidibeam"]
SHARDS = 8
LONGEST = 500
TIMES_A_SECOND = 5
UNBUFFERED = {**os.environ, "PYTHONUNBUFFERED": "1"}
RERANKED = ("bidia bleu_t", "mbr edit")
"""Strategies that choose again: one that compares quickly, and one that compares slowly."""


@click.group(help=__doc__)
def main() -> None:
    """Measure, print."""


@main.command()
@click.option("--sources", "count", type=click.IntRange(SHARDS), default=4000, show_default=True)
@click.option("--lists", "lists_count", type=click.IntRange(SHARDS), default=40_000, show_default=True)
@click.option("--processes", type=click.IntRange(2), default=2, show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def cpu(count: int, lists_count: int, processes: int, out: Path | None) -> None:
    """Decode and rerank by one process, by several, and by Ray."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = chitchat(count)
        beams = folder / "beams.jsonl"
        run("decode", write(folder / "sources.txt", sources), "--beam-size", 20, "--n-best", beams)
        found = beams.read_text(encoding="utf-8").splitlines()
        lists = [number_line(line, number) for number, line in enumerate(islice(cycle(found), lists_count))]
        for what, ending, lines, flags in (
            ("decode", "txt", sources, ("--beam-size", 20)),
            *(("rerank", "jsonl", lists, ("--strategy", strategy)) for strategy in RERANKED),
        ):
            for way in ("one", "processes", "ray"):
                named = " ".join([what, *map(str, flags[1:] if what == "rerank" else ())])
                measured = measure_way(folder, what, ending, lines, flags, way, processes)
                row = {"what": named, "way": way, **measured}
                rows.append(row)
                click.echo(json.dumps(row))
    record(out, {"processes": processes, "sources": count, "lists": lists_count, "shards": SHARDS}, rows)


def measure_way(
    folder: Path, what: str, ending: str, lines: Sequence[str], flags: Sequence[Any], way: str, processes: int
) -> dict[str, float]:
    """Rows a second of one way to share the work out, without what a call takes for one row."""
    took = {}
    for name, given in (("start", lines[:1]), ("all", lines)):
        place = folder / f"{what}-{way}-{name}-{len(list(folder.iterdir()))}"
        (place / "in").mkdir(parents=True)
        size = -(-len(given) // SHARDS)
        for number, start in enumerate(range(0, len(given), size)):
            write(place / "in" / f"{number}.{ending}", given[start : start + size])
        whole = write(place / f"whole.{ending}", given)
        began = time.perf_counter()
        if way == "ray":
            run(
                what,
                place / "in",
                *flags,
                "--executor",
                "ray",
                "--processes",
                processes,
                "--out",
                place / "out",
            )
        else:
            shared = ("--processes", processes) if way == "processes" else ()
            run(what, whole, *flags, *shared, "--n-best", place / "out.jsonl")
        took[name] = time.perf_counter() - began
    rate = (len(lines) - 1) / (took["all"] - took["start"])
    return {"per_s": round(rate, 1), "start_s": round(took["start"], 1), "whole_s": round(took["all"], 1)}


def number_line(line: str, number: int) -> str:
    """A list with an id of its own."""
    return to_line({**json.loads(line), "id": str(number)})


@main.command()
@click.option("--sources", "count", type=click.IntRange(64), default=20_000, show_default=True)
@click.option(
    "--from",
    "sources",
    type=click.Path(exists=True, path_type=Path),
    help="Sources, one a line, in place of the corpus.",
)
@click.option("--long-sources", type=click.IntRange(64), default=6000, show_default=True)
@click.option("--size", default="large", show_default=True, help="Of the models: small, base or large.")
@click.option("--shared", type=click.IntRange(1), multiple=True, default=(1, 2, 4), show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def gpu(
    sources: Path | None, count: int, long_sources: int, size: str, shared: Sequence[int], out: Path | None
) -> None:
    """Decode by processes that share a GPU, and see how busy it is."""
    settings = {"sources": count, "long_sources": long_sources, "size": size}
    rows = read_rows(out, settings)
    done = [(row["what"], row["sources"], row["processes"]) for row in rows]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        short = write(folder / "short.txt", chitchat(count) if sources is None else read(sources, count))
        calls: list[tuple[str, str, list[Any]]] = [
            (f"model in the box, N_B = {beams}", "as they come", [short, "--beam-size", beams])
            for beams in (10, 50)
        ]
        pair = write_pair(folder, size)
        skewed = skewed_sources(long_sources)
        for order, lines in (("as they come", skewed), ("by length", sorted(skewed, key=len))):
            file = write(folder / f"{order}.txt", lines)
            flags = ["--strategy", "bidis lambda=1", "--max-length", 20]
            calls.append((f"BART-{size} size, N_B = 10", order, [*pair, file, *flags]))
        for what, order, arguments in calls:
            for processes in shared:
                if (what, order, processes) in done:
                    continue
                devices = ",".join(["cuda:0"] * processes)
                row = {"what": what, "sources": order, "processes": processes}
                row |= measure_busy(["decode", *arguments, "--devices", devices])
                rows.append(row)
                click.echo(json.dumps(row))
                record(out, settings, rows)


def measure_busy(arguments: Sequence[Any]) -> dict[str, Any]:
    """Sources a second from the first reply to the last, and how busy the GPU was meanwhile."""
    command = [*BIDIBEAM, *map(str, arguments)]
    began = time.perf_counter()
    with (
        watch_gpu() as seen,
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=UNBUFFERED) as process,
    ):
        assert process.stdout is not None
        process.stdout.readline()
        first, count = time.perf_counter(), 0
        for _ in process.stdout:
            count += 1
        last = time.perf_counter()
        if process.wait():
            said.seek(0)
            return {"failed": said.read().strip().splitlines()[-1]}
    busy = [each for at, each, _ in seen if first <= at <= last] or [0.0]
    used = max((each for _, _, each in seen), default=0)
    return {
        "per_s": round(count / (last - first), 1),
        "busy_percent": round(mean(busy), 1),
        "memory_mib": used,
        "until_first_s": round(first - began, 1),
        "from_first_to_last_s": round(last - first, 1),
    }


@contextmanager
def watch_gpu() -> Iterator[list[tuple[float, float, int]]]:
    """When, how busy the GPU was in per cent, and its used memory in MiB, for as long as the block runs."""
    query = "--query-gpu=utilization.gpu,memory.used"
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits", f"-lms={1000 // TIMES_A_SECOND}"]
    seen: list[tuple[float, float, int]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def read() -> None:
            for line in process.stdout or ():
                busy, used = line.split(",")
                seen.append((time.perf_counter(), float(busy), int(used)))

        reader = Thread(target=read)
        reader.start()
        try:
            yield seen
        finally:
            process.terminate()
            reader.join()


def write_pair(folder: Path, size: str) -> list[Any]:
    """A regular and a reverse model with random weights: what names them on the command line."""
    from benchmarks.hf import make_model, make_tokenizer

    from bidibeam.hf import mark

    for seed, name in enumerate(("regular", "reverse")):
        model = make_model(size, "cuda", "bfloat16", positions=1024, seed=seed)
        mark(model, Direction(name))
        model.save_pretrained(folder / name)
        make_tokenizer(model.config.vocab_size).save_pretrained(folder / name)
    return [folder / "regular", "--reverse", folder / "reverse"]


def skewed_sources(count: int) -> list[str]:
    """Sources of 1 to 500 tokens, of which half have fewer than 23."""
    chooser = random.Random(0)
    lengths = [int(LONGEST ** chooser.random()) for _ in range(count)]
    return [" ".join(f"t{chooser.randrange(4, 16_000)}" for _ in range(length)) for length in lengths]


def chitchat(count: int) -> list[str]:
    """As many sources of the corpus, from the first again where it has fewer."""
    turns = (turn.text for said in CORPORA.create("chitchat").read(None) for turn in said.utterances)
    known = [*dict.fromkeys(" ".join(text.split()) for text in turns if text.strip())]
    return [*islice(cycle(known), count)]


def read(path: Path, count: int) -> list[str]:
    """As many lines of a file, from the first again where it has fewer."""
    return [*islice(cycle(path.read_text(encoding="utf-8").splitlines()), count)]


def write(path: Path, lines: Sequence[str]) -> Path:
    """Write lines to a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def run(*arguments: object) -> None:
    """Call the command."""
    done = subprocess.run([*BIDIBEAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(done.stderr)


def sign(settings: dict[str, Any]) -> dict[str, Any]:
    """What is needed to repeat the numbers."""
    return {
        "bidibeam": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine(),
        **settings,
    }


def read_rows(out: Path | None, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that an earlier call with the same signature has measured."""
    if out is None or not out.exists():
        return []
    content = json.loads(out.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = content["rows"] if content["signature"] == sign(settings) else []
    return found


def record(out: Path | None, settings: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Write the numbers with their signature."""
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        content = {"signature": sign(settings), "rows": rows}
        out.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
