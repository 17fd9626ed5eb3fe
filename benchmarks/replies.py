"""How long the model in the box takes for a reply, one source at a time.

    python benchmarks/replies.py [--sources 60] [--threads 2] [--out results.json]

The sources are the first of the chitchat corpus. Loading and compiling are not counted.
"""

from __future__ import annotations

import json
import time
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import click
import torch

from bidibeam import __version__
from bidibeam.api import load_decoder, load_run
from bidibeam.data.corpora import CORPORA
from bidibeam.search.settings import SearchSettings

BEAM_SIZES = (10, 50)


@click.command(help=__doc__)
@click.option("--sources", "count", type=click.IntRange(min=1), default=60, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def main(count: int, threads: int, out: Path | None) -> None:
    """Measure, print."""
    torch.set_num_threads(threads)
    run = load_run(device="cpu")
    turns = (turn.text for said in CORPORA.create("chitchat").read(None) for turn in said.utterances)
    sources = list(islice((text for text in turns if text.strip()), count))
    rows: list[dict[str, Any]] = []
    for beam_size in BEAM_SIZES:
        decoder = load_decoder(run, "bidia", settings=SearchSettings(beam_size=beam_size), replies_only=True)
        decoder.decode(sources[:2])
        times = []
        for source in sources:
            began = time.perf_counter()
            decoder.decode([source])
            times.append(1000 * (time.perf_counter() - began))
        rows.append({"N_B": beam_size, "median_ms": median(times), "longest_ms": max(times)})
        click.echo(f"N_B {beam_size}: median {median(times):.0f} ms, longest {max(times):.0f} ms")
    signature = {"bidibeam": __version__, "torch": torch.__version__, "threads": threads}
    signature |= {"strategy": "bidia", "sources": len(sources), "model": run.fingerprint}
    if out:
        out.write_text(json.dumps({"signature": signature, "rows": rows}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
