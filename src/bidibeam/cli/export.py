"""`bidibeam export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bidibeam.cli.models import ModelChoice, model_argument, model_options


@click.command()
@model_argument
@model_options
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="A new or empty directory to write."
)
@click.option(
    "--to",
    "engine",
    type=click.Choice(["ctranslate2"]),
    help="Convert a Hugging Face encoder-decoder for this engine, which decodes fast on a CPU.",
)
@click.option(
    "--quantization",
    type=click.Choice(["int8", "float32"]),
    default=None,
    help="With --to: how weights are stored and computed with.  [default: int8]",
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
def export(
    model: str | None,
    out: Path,
    engine: str | None,
    quantization: str | None,
    half: bool,
    card: bool,
    results: Path | None,
    overwrite: bool,
    **flags: Any,
) -> None:
    """Write a model as a folder to pass on.

    A run of `bidibeam train` is written without its training state: weights, tokenizer, configuration and
    tuned settings. With --to ctranslate2 a Hugging Face model, or a pair with --reverse, is converted for
    that engine. Either folder is a MODEL to every command but `train --resume`, and does not say where on
    this machine things were.

    \b
    bidibeam export runs/first --out model
    bidibeam export runs/first --out model --half --card
    bidibeam export bart --reverse bart-reverse --to ctranslate2 --out fast
    """  # noqa: D301
    from bidibeam.api.export import export_converted, export_run_with_card
    from bidibeam.models.checkpoint import hugging_face_config

    choice = ModelChoice.take(model, flags)
    if choice.name is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    if engine is not None:
        if half or card or results is not None:
            raise click.UsageError("--half, --card and --results go with a run, not with --to.")
        export_converted(choice.load(), out, quantization=quantization or "int8", overwrite=overwrite)
    elif quantization is not None:
        raise click.UsageError("--quantization goes with --to ctranslate2.")
    elif choice.reverse is not None:
        raise click.UsageError("--reverse goes with --to ctranslate2: a run holds its directions itself.")
    elif hugging_face_config(Path(choice.name)) is not None:
        raise click.UsageError(
            f"{choice.name} is a Hugging Face model: pass it on as it is, or add --to ctranslate2."
        )
    else:
        export_run_with_card(
            Path(choice.name), out, half=half, overwrite=overwrite, card=card, results=results
        )
    _show(out)


def _show(out: Path) -> None:
    """Print what was written, and how much it is."""
    from bidibeam.cli.console import console
    from bidibeam.reporting.tables import metadata_table

    files = sorted(path for path in out.rglob("*") if path.is_file())
    shown = {str(path.relative_to(out)): f"{path.stat().st_size:,} bytes" for path in files}
    shown["in all"] = f"{sum(path.stat().st_size for path in files) / 2**20:.2f} MiB"
    console.print(metadata_table(f"Exported to {out}", shown))
