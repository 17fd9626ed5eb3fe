"""`bidibeam train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bidibeam.config import RunSettings
    from bidibeam.data.prepared import PreparedData


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--out", "run", type=click.Path(file_okay=False, path_type=Path), required=True, help="The run directory."
)
@click.option(
    "--preset",
    help="Settings to start from: demo (minutes on a CPU), compact (the model that comes with bidibeam) or "
    "paper.  [default: paper]",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A YAML file with sections `model` and `training`, over the preset.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting, over everything else, such as training.epochs=3; may be repeated.",
)
@click.option(
    "--vectors",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Start the embeddings from a fastText .vec file (plain, .gz or .xz).",
)
@click.option("--resume", is_flag=True, help="Go on with the run in --out, from its newest checkpoint.")
def train(
    data: Path,
    run: Path,
    preset: str | None,
    config: Path | None,
    overrides: tuple[str, ...],
    vectors: Path | None,
    resume: bool,
) -> None:
    """Train a regular and a reverse decoder on prepared data.

    DATA is what `bidibeam prepare` wrote. The best weights by validation loss end up in the run directory,
    beside the tokenizer and metrics.jsonl; its folder training/ holds all that --resume needs, so a run may
    be killed at any moment. `tensorboard --logdir RUN` draws the curves.

    \b
    bidibeam train data --out runs/first --preset demo
    bidibeam train data --out runs/first --resume
    bidibeam train data --out runs/wide --set model.decoder_size=1024 --set training.epochs=10
    accelerate launch -m bidibeam.cli.main train data --out runs/paper --preset paper
    """  # noqa: D301
    from bidibeam.config import resolve
    from bidibeam.data.prepared import PreparedData

    is_resumed = resume and (run / "config.json").exists()
    if resume and not is_resumed:
        click.echo(f"There is no run in {run} yet: starting one.", err=True)
    base = _settings_of(run) if is_resumed else None
    preset = preset if is_resumed else preset or "paper"
    settings = resolve(base=base, preset=preset, config=config, overrides=overrides)
    train_run(PreparedData.open(data), run, settings, vectors=vectors, resume=resume)


def train_run(
    data: PreparedData, run: Path, settings: RunSettings, *, vectors: Path | None = None, resume: bool = False
) -> None:
    """Train with progress shown; the demo does the same."""
    from bidibeam.cli.watching import TrainingProgress
    from bidibeam.training.loop import train as fit

    initialise = None
    if vectors is not None:
        initialise = _start_from(vectors, data)
    with TrainingProgress() as watcher:
        fit(
            data,
            run,
            model_settings=settings.model,
            settings=settings.training,
            initialise=initialise,
            resume=resume,
            observer=watcher,
            facts={"vectors": vectors.name} if vectors is not None else None,
        )


def _settings_of(run: Path) -> dict[str, Any]:
    """The settings that a run began with."""
    from bidibeam.models import checkpoint

    config = checkpoint.read_config(run)
    return {"model": checkpoint.settings_mapping(config.model), "training": config.facts.get("training", {})}


def _start_from(path: Path, data: PreparedData) -> Any:
    """Read the vectors now, so that a wrong file is known before training starts."""
    from rich.text import Text

    from bidibeam.cli.console import console
    from bidibeam.data.vectors import read_vectors
    from bidibeam.models.vectors import use_vectors

    with console.status(Text(f"Reading {path.name} ...")):
        tokens = data.tokenizer.tokens(range(data.tokenizer.vocabulary_size))
        vectors = read_vectors(path, {token: index for index, token in enumerate(tokens)})
    console.print(
        f"Vectors for {len(vectors.ids):,} of {vectors.vocabulary_size:,} tokens ({vectors.coverage:.1%})."
    )
    return lambda model: use_vectors(model, vectors)
