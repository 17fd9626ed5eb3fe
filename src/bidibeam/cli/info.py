"""`bidibeam info`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON, to stdout.")
def info(run: Path | None, as_json: bool) -> None:
    """Show what a run directory holds.

    RUN is what `bidibeam train` or `bidibeam export` wrote: the network's shape, the data, and how far
    training came. Left out, it is the small model that comes with bidibeam. The folder of a Hugging Face
    model will do too.
    """
    from bidibeam.models.checkpoint import hugging_face_config
    from bidibeam.models.huggingface.folders import described

    run = run_or_bundled(run)
    foreign = hugging_face_config(run)
    facts = _of_run(run) if foreign is None else described(run, foreign)
    if as_json:
        import json

        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    _show(facts, "Run" if foreign is None else "Hugging Face model")


def _of_run(run: Path) -> dict[str, Any]:
    from bidibeam.api.exporting import progress_kept
    from bidibeam.models import checkpoint

    config = checkpoint.read_config(run)
    shapes = checkpoint.tensor_shapes(run / checkpoint.WEIGHTS_FILE)
    facts = {
        "run": str(run),
        "parameters": sum(math.prod(shape) for shape in shapes.values()),
        "vocabulary": config.vocabulary_size,
        "model": checkpoint.settings_mapping(config.model),
        "data": config.facts.get("data", {}),
        "training": config.facts.get("training", {}),
        "progress": progress_kept(run, config.facts),
    }
    if "exported" in config.facts:
        facts["exported"] = {name: config.facts["exported"].get(name) for name in ("from", "precision")}
    return facts


def run_or_bundled(run: Path | None) -> Path:
    """The run that was named, or else the model that comes with the package, and a line that says so."""
    from bidibeam.cli.console import console
    from bidibeam.models.loading import bundled_path

    if run is not None:
        return run
    console.print("No run was named: this is the small model that comes with bidibeam.", style="dim")
    return bundled_path()


def _show(facts: dict[str, Any], title: str) -> None:
    from bidibeam.cli.console import console
    from bidibeam.reporting.tables import facts_table

    plain = {name: value for name, value in facts.items() if not isinstance(value, dict)}
    console.print(facts_table(title, plain))
    for name in ("progress", "model", "data", "training", "exported"):
        if not facts.get(name):
            continue
        flat = {
            key: ", ".join(map(str, value)) if isinstance(value, list) else value
            for key, value in _flattened(facts[name]).items()
        }
        console.print(facts_table(name.capitalize(), flat))


def _flattened(mapping: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        flat.update(_flattened(value) if isinstance(value, dict) else {key: value})
    return flat
