"""Time and counted work of whole strategies, from sources to replies, beside vanilla beam search.

    python benchmarks/strategies.py RUN SOURCES [--beam-size 50] [--device cuda] [--out results.json]

Every strategy answers the same sources with the same N_B; they take turns in an order that changes, so that
a busy machine slows all of them. A ratio is the median, over turns, of a strategy's time over that of VBS in
the same turn. Choosing among hypotheses is included; loading and compiling are not.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import click
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bidibeam import __version__
from bidibeam.api import load_decoder, load_run
from bidibeam.evaluation.cost import measure_costs
from bidibeam.interchange.reading import read_sources
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.settings import StrategySettings

STRATEGIES = {
    "vbs": StrategySettings("vbs"),
    "bidis": StrategySettings("bidis", options={"lambda_": 1.0}),
    "bidia bleu_t": StrategySettings("bidia"),
    "bidia wmd_t": StrategySettings("bidia", similarity="wmd_t"),
    "bidia bleu_t, either": StrategySettings("bidia", options={"answer": "either"}),
    "bidia bleu_t, expected": StrategySettings("bidia", options={"agreement": "expected"}),
}
BASE = "vbs"


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--beam-size", type=int, default=50, show_default=True, help="N_B.")
@click.option("--max-length", type=int, default=20, show_default=True)
@click.option("--batch-size", type=click.IntRange(min=1), help="As `bidibeam decode` has it by default.")
@click.option("--sources", "count", type=click.IntRange(min=1), default=128, show_default=True)
@click.option("--turns", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--only", multiple=True, type=click.Choice(list(STRATEGIES)), help="Leave the others out.")
@click.option("--device")
@click.option("--threads", type=click.IntRange(min=1), help="Torch's own threads.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def main(
    run: Path,
    file: Path,
    *,
    beam_size: int,
    max_length: int,
    batch_size: int | None,
    count: int,
    turns: int,
    workers: int,
    only: tuple[str, ...],
    device: str | None,
    threads: int | None,
    out: Path | None,
) -> None:
    """Measure, print a table."""
    if threads:
        torch.set_num_threads(threads)
    loaded = load_run(run, device=device)
    settings = SearchSettings(beam_size=beam_size, max_length=max_length)
    decoders = {
        name: load_decoder(
            loaded, strategy, settings=settings, batch_size=batch_size, workers=workers, replies_only=True
        )
        for name, strategy in STRATEGIES.items()
        if not only or name in {*only, BASE}
    }
    examples = list(islice(read_sources(file), count))
    rows = measure_costs(
        decoders,
        examples,
        turns=turns,
        base=BASE,
        track=lambda count: track(count, console=Console(stderr=True), description="Decoding"),
    )
    where = loaded.device
    signature: dict[str, Any] = {
        "bidibeam": __version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else str(where),
        "threads": torch.get_num_threads(),
        "workers": workers,
        "N_B": beam_size,
        "T": max_length,
        "batch": decoders[BASE].batch_size,
        "sources": len(examples),
        "turns": turns,
        "vocabulary": loaded.vocabulary_size,
        "corpus": loaded.config.metadata.get("data", {}).get("corpus"),
        "weights": loaded.fingerprint,
    }
    Console(width=120).print(table(rows, signature))
    if out:
        out.write_text(json.dumps({"signature": signature, "rows": rows}, indent=2) + "\n", encoding="utf-8")


def table(rows: list[dict[str, Any]], signature: dict[str, Any]) -> Table:
    """The rows for people; work is counted a source."""
    shown = Table(
        title="From sources to replies", caption=" ".join(f"{key}={signature[key]}" for key in signature)
    )
    shown.add_column("strategy")
    for name in ("time / vbs", "ms a source", "rows projected", "pairs compared", "exact transports"):
        shown.add_column(name, justify="right")
    for row in rows:
        shown.add_row(
            row["strategy"],
            f"{row['ratio']:.3f}",
            f"{row['ms_a_source']:.2f}",
            f"{row['projected_rows']:.1f}",
            f"{row['compared_pairs']:.1f}",
            f"{row['exact_transports']:.2f}",
        )
    return shown


if __name__ == "__main__":
    main()
