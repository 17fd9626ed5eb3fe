"""How long `bidibeam evaluate` and `bidibeam report` take, as whole commands, beside sacreBLEU itself.

    python benchmarks/evaluation.py [--results results/cornell] [--out results.json]
    python benchmarks/evaluation.py --beams BEAMS.jsonl

`evaluate` reads n-best lists from a file, lets every strategy choose that needs no vectors and no tuning,
scores the replies by every measure, and tests them in pairs; start-up is counted. Without --beams the lists
are made of turns of the chitchat corpus, drawn and scored at random: 4,000 sources, 50 hypotheses in each
direction. sacreBLEU gets as many systems, as text in memory: first their BLEU alone, once each, which is the
least that anybody must compute, then its own paired tests. Kernels are compiled beforehand.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import click
import sacrebleu
from rich.console import Console
from rich.table import Table
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from bidibeam import __version__
from bidibeam.data.corpora import CORPORA
from bidibeam.data.words import split
from bidibeam.metrics import DEFAULT_METRICS

SYSTEMS = (
    "vbs",
    "bidis",
    "bidia bleu_t",
    "bidia bleu_t either",
    "bidia bleu_t expected",
    "longest",
    "reverse-vbs",
    "random",
    "oracle",
)
MAX_LENGTH = 20
SAMPLES, TRIALS = 1000, 10_000
"""Those of `evaluate`, which are sacreBLEU's."""
FEW = 20
"""Sources that are enough to have every kernel compiled."""
RESULTS = Path(__file__).parents[1] / "results" / "cornell"


@click.command(help=__doc__)
@click.option("--beams", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Lists to take.")
@click.option(
    "--results", type=click.Path(exists=True, path_type=Path), default=RESULTS, help="To report on."
)
@click.option("--sources", "count", type=click.IntRange(min=FEW), default=4000, show_default=True)
@click.option("--hypotheses", type=click.IntRange(min=2), default=50, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--turns", type=click.IntRange(min=1), default=3, show_default=True)
@click.option(
    "--tests/--no-tests", default=True, show_default=True, help="sacreBLEU's paired tests, minutes."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def main(
    beams: Path | None,
    results: Path,
    count: int,
    hypotheses: int,
    workers: int,
    turns: int,
    tests: bool,
    out: Path | None,
) -> None:
    """Measure, print a table."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        lists = Path(folder, "beams.jsonl")
        lines = beams.read_text(encoding="utf-8").splitlines() if beams else made(count, hypotheses)
        kept = list(islice(lines, count))
        lists.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        few = Path(folder, "few.jsonl")
        few.write_text("".join(f"{line}\n" for line in kept[:FEW]), encoding="utf-8")
        chosen = [word for name in SYSTEMS for word in ("--strategy", name)]
        chosen += ["--workers", str(workers), "--tokenize", "words"]
        _called("evaluate", str(few), *chosen)
        rows = [
            row("bidibeam evaluate", turns, lambda: _called("evaluate", str(lists), *chosen)),
            row(
                "bidibeam report", turns, lambda: _called("report", str(results), "--out", f"{folder}/report")
            ),
        ]
    read = [json.loads(line) for line in kept]
    rows += peers(read, turns, tests=tests)
    signature: dict[str, Any] = {
        "bidibeam": __version__,
        "sacrebleu": sacrebleu.__version__,
        "cores": os.cpu_count(),
        "load_before": round(load, 1),
        "workers": workers,
        "sources": len(read),
        "hypotheses": len(read[0]["regular"]) + len(read[0]["reverse"]),
        "systems": len(SYSTEMS),
        "measures": len(DEFAULT_METRICS),
        "samples": SAMPLES,
        "trials": TRIALS,
        "turns": turns,
        "lists": beams.name if beams else "chitchat turns at random",
        "report_of": results.name,
    }
    Console(width=110).print(table(rows, signature))
    if out:
        out.write_text(json.dumps({"signature": signature, "rows": rows}, indent=2) + "\n", encoding="utf-8")


def made(count: int, hypotheses: int) -> Iterator[str]:
    """Lists of real turns, as JSON lines: as long as replies are, though of no model."""
    turns = (turn.text for said in CORPORA.create("chitchat").read(None) for turn in said.utterances)
    texts = [text for text in turns if 0 < len(split(text)) <= MAX_LENGTH]
    words = [split(text) for text in texts]
    rng = random.Random(0)
    for number in range(count):
        directions = {}
        for direction in ("regular", "reverse"):
            places = rng.sample(range(len(texts)), hypotheses)
            found = [_hypothesis(texts[place], words[place], rng) for place in places]
            directions[direction] = sorted(found, key=lambda each: -each["score"])
        source, reference = texts[number % len(texts)], texts[(number + 1) % len(texts)]
        yield json.dumps({"id": str(number), "source": source, "reference": reference, **directions})


def _hypothesis(text: str, words: Sequence[str], rng: random.Random) -> dict[str, Any]:
    length = len(words) + 1
    log_prob, other = (-length * rng.uniform(1.5, 4.0) for _ in range(2))
    return {
        "text": text,
        "tokens": list(words),
        "log_prob": log_prob,
        "other_log_prob": other,
        "length": length,
        "score": log_prob / ((5 + length) / 6) ** 0.6,
        "finished": True,
    }


def peers(read: Sequence[dict[str, Any]], turns: int, *, tests: bool) -> list[dict[str, Any]]:
    """The times of sacreBLEU on as many systems: system n replies with the n-th hypotheses."""
    references = [" ".join(split(each["reference"])) for each in read]
    systems = [
        (name, [" ".join(split(each["regular"][place]["text"])) for each in read])
        for place, name in enumerate(SYSTEMS)
    ]

    def scores() -> None:
        for _, replies in systems:
            BLEU(tokenize="none", force=True).corpus_score(replies, [references])

    def pairs() -> None:
        for kind, samples in (("bs", SAMPLES), ("ar", TRIALS)):
            metric = BLEU(tokenize="none", force=True, references=[references])
            PairedTest(systems, {"BLEU": metric}, None, test_type=kind, n_samples=samples)()

    rows = [row("sacreBLEU, BLEU alone", turns, scores)]
    return [*rows, row("sacreBLEU, BLEU and its paired tests", 1, pairs)] if tests else rows


def row(what: str, turns: int, work: Callable[[], None]) -> dict[str, Any]:
    """The median time of some work."""
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return {"what": what, "median_s": median(times), "longest_s": max(times)}


def _called(*arguments: str) -> None:
    """Run a whole command, as a person would."""
    command = [sys.executable, "-m", "bidibeam.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{' '.join(arguments)} failed: {done.stderr.strip()}")


def table(rows: Sequence[dict[str, Any]], signature: dict[str, Any]) -> Table:
    """The rows for people."""
    shown = Table(title="Evaluation", caption=" ".join(f"{key}={signature[key]}" for key in signature))
    shown.add_column("what")
    for name in ("median", "longest"):
        shown.add_column(name, justify="right")
    for each in rows:
        shown.add_row(each["what"], f"{each['median_s']:.1f} s", f"{each['longest_s']:.1f} s")
    return shown


if __name__ == "__main__":
    main()
