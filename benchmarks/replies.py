"""How long the model in the box takes for a reply, one source at a time, and how often one repeats itself.

    python benchmarks/replies.py [--sources 60] [--threads 2] [--data PREPARED] [--model RUN] [--out FILE]

The sources are the first of the chitchat corpus. Loading and compiling are not counted. With prepared data it
also counts the replies to validation sources, by the recommended strategy, that have some three words twice.
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
from bidibeam.data.prepared import PreparedData
from bidibeam.metrics.ngrams import split_words
from bidibeam.search.settings import SearchSettings

BEAM_SIZES = (10, 50)


@click.command(help=__doc__)
@click.option("--sources", "count", type=click.IntRange(min=1), default=60, show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--data", type=click.Path(exists=True, path_type=Path), help="What `bidibeam prepare` wrote.")
@click.option("--model", type=click.Path(exists=True, path_type=Path), help="Another run.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def main(count: int, threads: int, data: Path | None, model: Path | None, out: Path | None) -> None:
    """Measure, print."""
    torch.set_num_threads(threads)
    run = load_run(model, device="cpu")
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
    repeats: dict[str, Any] = {}
    if data is not None:
        examples = PreparedData.open(data).examples("validation")
        decoder = load_decoder(run, replies_only=True)
        replies = [ranking.best.text for ranking in decoder.decode([one["source"] for one in examples])]
        count_repeating = sum(map(repeats_a_trigram, replies))
        repeats = {"validation": {"replies": len(replies), "repeat three words": count_repeating}}
        click.echo(f"{count_repeating} of {len(replies)} replies repeat three words ({decoder.signature})")
        repeats["validation"]["signature"] = str(decoder.signature)
    signature = {"bidibeam": __version__, "torch": torch.__version__, "threads": threads}
    signature |= {"strategy": "bidia", "sources": len(sources), "model": run.fingerprint}
    if out:
        out.write_text(
            json.dumps({"signature": signature, "rows": rows, **repeats}, indent=2) + "\n", encoding="utf-8"
        )


def repeats_a_trigram(text: str) -> bool:
    """Whether some three words stand in a text more than once."""
    words = split_words(text)
    trigrams = list(zip(words, words[1:], words[2:], strict=False))
    return len(set(trigrams)) < len(trigrams)


if __name__ == "__main__":
    main()
