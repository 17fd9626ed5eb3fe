"""`bidibeam info`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("model", type=click.Path(path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON, to stdout.")
def info(model: Path | None, as_json: bool) -> None:
    """Show what a model's folder holds.

    MODEL is a folder that `bidibeam train` or `bidibeam export` wrote, or one of a Hugging Face model; left
    out, it is the small model that comes with bidibeam. Shown are the network's shape, the data, and how far
    training came, as far as they are known.
    """
    from bidibeam.api.describe import describe_model
    from bidibeam.cli.console import console
    from bidibeam.models.loading import bundled_path

    if model is None:
        console.print("No model was named: this is the small one that comes with bidibeam.", style="dim")
    title, metadata = describe_model(model or bundled_path())
    if as_json:
        import json

        click.echo(json.dumps(metadata, indent=2, ensure_ascii=False))
        return
    _show(metadata, title)


def _show(metadata: dict[str, Any], title: str) -> None:
    from bidibeam.cli.console import console
    from bidibeam.reporting.tables import metadata_table

    plain = {
        name: ", ".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in metadata.items()
        if not isinstance(value, dict)
    }
    console.print(metadata_table(title, plain))
    for name in ("progress", "model", "data", "training", "exported"):
        if metadata.get(name):
            flat = {
                key: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
                for key, value in _flatten(metadata[name]).items()
            }
            console.print(metadata_table(name.capitalize(), flat))


def _flatten(mapping: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        flat.update(_flatten(value) if isinstance(value, dict) else {key: value})
    return flat
