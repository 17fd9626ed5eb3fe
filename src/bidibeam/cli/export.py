"""`bidibeam export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="A new or empty directory to write."
)
@click.option(
    "--half", is_flag=True, help="Store the weights in half precision; they are computed with in full."
)
@click.option("--card", is_flag=True, help="Write a model card, MODEL_CARD.md, from the run's own figures.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the test scores of a results.json by `bidibeam reproduce` too, for the card.",
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier export in --out.")
def export(run: Path, out: Path, half: bool, card: bool, results: Path | None, overwrite: bool) -> None:
    """Write a run as a folder to pass on, without training state.

    RUN is what `bidibeam train` wrote. The folder gets its weights, tokenizer, configuration and tuned
    settings, and is a run to every command but `train --resume`. It does not say where on this machine
    things were.

    \b
    bidibeam export runs/first --out model
    bidibeam export runs/first --out model --half --card
    """  # noqa: D301
    from bidibeam.api import load_run
    from bidibeam.api.cards import find_package, read_facts, read_scores, render_card
    from bidibeam.api.export import CARD_FILE, export_run
    from bidibeam.files import write_text
    from bidibeam.models import checkpoint

    facts: dict[str, Any] = {}
    config = checkpoint.read_config(run)
    if package := find_package(str(config.facts.get("data", {}).get("corpus"))):
        facts["corpus"] = package
    if results is not None:
        facts["scores"] = read_scores(results, load_run(run, device="cpu").fingerprint)
    export_run(run, out, half=half, overwrite=overwrite, facts=facts)
    if card:
        write_text(out / CARD_FILE, render_card(read_facts(out)))
    _show(out)


def _show(out: Path) -> None:
    """What was written, and how much it is."""
    from bidibeam.cli.console import console
    from bidibeam.reporting.tables import facts_table

    sizes = {path.name: path.stat().st_size for path in sorted(out.iterdir())}
    shown = {name: f"{size:,} bytes" for name, size in sizes.items()}
    shown["in all"] = f"{sum(sizes.values()) / 2**20:.2f} MiB"
    console.print(facts_table(f"Exported to {out}", shown))
