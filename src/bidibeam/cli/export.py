"""`bidibeam export` and `bidibeam info`: a model's folder, to pass on and to look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from bidibeam.cli import options
from bidibeam.cli.console import echo, show, show_metadata
from bidibeam.cli.inputs import BUNDLED_NOTE, load_model, take_model
from bidibeam.fields import flatten


@click.command()
@options.model_argument
@options.named
@options.option("--out", "A new or empty directory to write.", options.PATH, required=True)
@options.option(
    "--to engine",
    "Convert a Hugging Face encoder-decoder for this engine, which decodes fast on a CPU.",
    ["ctranslate2"],
)
@options.option(
    "--quantization", "With --to: how weights are stored and used.  [default: int8]", ["int8", "float32"]
)
@options.option("--half", "Store the weights in half precision; they are computed with in full.", bool)
@options.option("--card", "Write a model card, MODEL_CARD.md, from the run's own figures.", bool)
@options.option(
    "--results", "Keep the test scores of a results.json of `bidibeam reproduce`, for the card.", options.FILE
)
@options.option("--overwrite", "Replace an earlier export in --out.", bool)
def export(
    model: str | None,
    out: Path,
    engine: str | None,
    quantization: str | None,
    overwrite: bool,
    half: bool,
    card: bool,
    results: Path | None,
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
    from bidibeam.api.export import export_converted, export_run
    from bidibeam.models.checkpoint import hugging_face_config

    named = take_model(model, flags)
    if named["name"] is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    folder = Path(named["name"])
    if engine is not None:
        if half or card or results is not None:
            raise click.UsageError("--half, --card and --results go with a run, not with --to.")
        export_converted(load_model(**named), out, quantization=quantization or "int8", overwrite=overwrite)
    elif quantization is not None:
        raise click.UsageError("--quantization goes with --to ctranslate2.")
    elif named["reverse"] is not None:
        raise click.UsageError("--reverse goes with --to ctranslate2: a run holds its directions itself.")
    elif hugging_face_config(folder) is not None:
        raise click.UsageError(
            f"{folder} is a Hugging Face model: pass it on as it is, or add --to ctranslate2."
        )
    elif given := [
        f"--{each.replace('_', '-')}" for each in ("device", "dtype", "trust_remote_code") if named[each]
    ]:
        raise click.UsageError(f"{given[0]} goes with --to ctranslate2: a run is written as it is stored.")
    else:
        export_run(folder, out, half=half, overwrite=overwrite, card=card, results=results)
    sizes = {path: path.stat().st_size for path in sorted(out.rglob("*")) if path.is_file()}
    shown = {str(path.relative_to(out)): f"{size:,} bytes" for path, size in sizes.items()}
    shown["in all"] = f"{sum(sizes.values()) / 2**20:.2f} MiB"
    show_metadata(f"Exported to {out}", shown)


@click.command()
@click.argument("model", type=options.PATH, required=False)
@options.option("--json as_json", "Print the same as JSON, to stdout.", bool)
def info(model: Path | None, as_json: bool) -> None:
    """Show what a model's folder holds.

    MODEL is a folder that `bidibeam train` or `bidibeam export` wrote (a run, a Hugging Face model or a
    CTranslate2 folder), or any Hugging Face model's; left out, it is the small model that comes with
    bidibeam. Shown are the network's shape, the data, and how far training came, as far as they are known;
    settings that are 0 or off are in --json alone.
    """
    from bidibeam.api import describe_model
    from bidibeam.models.loading import bundled_path
    from bidibeam.text import format_value

    if model is None:
        show(BUNDLED_NOTE, style="dim")
    title, metadata = describe_model(model or bundled_path())
    if as_json:
        echo(json.dumps(metadata, indent=2, ensure_ascii=False))
        return
    shown = {name: value for name, value in metadata.items() if not isinstance(value, dict)}
    for name in ("progress", "tuned"):
        shown |= metadata.get(name) or {}
    show_metadata(title, _by_last_name(shown))
    settings = {}
    for name in ("model", "data", "training", "exported"):
        told = {key: value for key, value in _by_last_name(metadata.get(name) or {}).items() if value}
        settings[name] = "  ".join(f"{key}={format_value(value)}" for key, value in told.items())
    if settings := {name: told for name, told in settings.items() if told}:
        show_metadata("Settings", settings)


def _by_last_name(mapping: dict[str, Any]) -> dict[str, Any]:
    """Values by the innermost of their names, lists as texts."""
    return {
        name.rpartition(".")[2]: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
        for name, value in flatten(mapping).items()
    }
