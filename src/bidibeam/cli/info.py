"""`bidibeam info`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON, to stdout.")
def info(run: Path, as_json: bool) -> None:
    """Show what a run directory holds.

    RUN is what `bidibeam train` wrote: the network's shape, the data, and how far training came.
    """
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
        "progress": progress_of(run),
    }
    if as_json:
        import json

        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    _show(facts)


def progress_of(run: Path) -> dict[str, Any]:
    """Where a run's training stood at its best evaluation."""
    from bidibeam.training.logs import perplexity, read_metrics

    records = read_metrics(run)
    evaluations = [record for record in records if record["kind"] == "validation"]
    if not evaluations:
        return {"steps": records[-1]["step"] if records else 0}
    best = min(evaluations, key=lambda record: float(record["loss"]))
    progress: dict[str, Any] = {"steps": records[-1]["step"], "best step": best["step"]}
    for name, value in best.items():
        if name.startswith("loss_"):
            direction = name.removeprefix("loss_")
            progress[f"{direction} validation loss"] = value
            progress[f"{direction} validation perplexity"] = perplexity(value)
    return progress


def _show(facts: dict[str, Any]) -> None:
    from bidibeam.cli.console import console
    from bidibeam.reporting.tables import facts_table

    plain = {name: value for name, value in facts.items() if not isinstance(value, dict)}
    console.print(facts_table("Run", plain))
    for name in ("progress", "model", "data", "training"):
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
