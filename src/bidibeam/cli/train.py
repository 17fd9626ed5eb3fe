"""`bidibeam train`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam import hf
from bidibeam.cli import options
from bidibeam.cli.console import show, tell
from bidibeam.config import build, load_yaml, merge, parse_override, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bidibeam.data.prepared import PreparedData


@click.command()
@click.argument("data", type=options.PATH)
@click.option("--out", "run", type=options.FOLDER, required=True, help="The run directory.")
@click.option(
    "--preset",
    help="Settings to start from: demo (minutes on a CPU), compact (the model that comes with bidibeam), "
    "paper, or transformer (a small Hugging Face model with two decoders).  [default: paper]",
)
@click.option(
    "--architecture",
    metavar="NAME",
    help="The network of our own to train; --set model.NAME=VALUE are its settings.  [default: gru]",
)
@options.config
@options.override
@click.option(
    "--vectors", type=options.FILE, help="Start the embeddings from a fastText .vec file (plain, .gz or .xz)."
)
@click.option(
    "--base",
    metavar="MODEL_OR_CONFIG",
    help="Fine-tune this Hugging Face model: a name on the Hub, a folder, or a config for fresh weights.",
)
@click.option(
    "--direction",
    type=click.Choice(["regular", "reverse", "both"]),
    help="With --base: the order to write in; both is one encoder with two decoders.  [default: regular]",
)
@click.option(
    "--tokenizer",
    metavar="MODEL",
    help="With --base: a tokenizer that is not the base's own; name or folder.",
)
@click.option("--epochs", type=int, help="Passes over the training pairs.")
@click.option("--batch-size", type=int, help="Pairs a batch, on each device.")
@click.option("--learning-rate", type=float, help="The highest learning rate.")
@click.option("--seed", type=int, help="Seeds fresh weights, dropout and the order of the data.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out, from its newest checkpoint.")
def train(
    data: Path,
    run: Path,
    *,
    preset: str | None,
    architecture: str | None,
    config: Path | None,
    overrides: tuple[str, ...],
    vectors: Path | None,
    base: str | None,
    direction: str | None,
    tokenizer: str | None,
    resume: bool,
    **common: Any,
) -> None:
    """Train a regular and a reverse decoder on prepared data, or fine-tune a Hugging Face model.

    DATA is what `bidibeam prepare` wrote. The best weights by validation loss end up in the run directory,
    beside the tokenizer and metrics.jsonl; its folder training/ holds all that --resume needs, so a run may
    be killed at any moment. `tensorboard --logdir RUN` draws the curves.

    With --base, DATA must have been prepared with --keep-text unless the model takes the tokenizer of the
    data, --out becomes a folder that `from_pretrained` reads, and --set and --config take settings of
    fine-tuning, as --set warmup=0.1 (docs/settings.md).

    \b
    bidibeam train data --out runs/first --preset demo
    bidibeam train data --out runs/first --resume
    bidibeam train data --out runs/wide --set model.decoder_size=1024 --set training.epochs=10
    bidibeam train data --out runs/bart --preset transformer
    accelerate launch -m bidibeam.cli.main train data --out runs/paper --preset paper
    bidibeam train data --base facebook/bart-base --direction reverse --out bart-reverse
    bidibeam train data --base bart/config.json --direction both --out bart --learning-rate 1e-3
    """  # noqa: D301
    from bidibeam.data.prepared import PreparedData
    from bidibeam.models.checkpoint import STARTED_FILE, hugging_face_config

    common = {name: value for name, value in common.items() if value is not None}
    started = hf.started_with(run) if resume and (run / STARTED_FILE).is_file() else None
    is_finished = resume and hugging_face_config(run) is not None
    if base is not None or is_finished or (started is not None and isinstance(started["base"], str)):
        layers: list[dict[str, Any]] = []
        if not is_finished:
            own = {"--preset": preset, "--architecture": architecture, "--vectors": vectors}
            for flag in (flag for flag, value in own.items() if value is not None):
                raise click.UsageError(
                    f"{flag} does not go with a Hugging Face model: it is for the network that bidibeam "
                    "trains without --base."
                )
            layers = [load_yaml(config)] if config is not None else []
            layers += [common, *map(parse_override, overrides)]  # each over those before it
        chosen = {"base": base, "direction": direction, "tokenizer": tokenizer}
        _fine_tune(PreparedData.open(data), run, chosen, layers, resume=resume, started=started)
    else:
        for flag, value in (("--direction", direction), ("--tokenizer", tokenizer)):
            if value is not None:
                raise click.UsageError(f"{flag} goes with --base: name a Hugging Face model or a config.")
        before = _read_settings(run, started) if resume else None
        overrides = (*overrides, *(f"training.{name}={value}" for name, value in common.items()))
        layered = {"architecture": architecture, "config": config, "overrides": overrides}
        pairs = PreparedData.open(data)
        _train_run(pairs, run, preset, vectors, resume=resume, before=before, **layered)


def _read_settings(run: Path, started: dict[str, Any] | None) -> dict[str, Any] | None:
    """The settings that a run began with; None if there is none."""
    from bidibeam.models import checkpoint

    if started is not None:
        directions = ["regular", "reverse"] if started["direction"] == "both" else [started["direction"]]
        model = {**started["base"], "directions": directions}
        return {"architecture": "huggingface", "model": model, "training": started["settings"]}
    if not (run / "config.json").exists():
        return None
    config = checkpoint.read_config(run)
    return {
        "architecture": config.architecture,
        "model": checkpoint.settings_mapping(config.model),
        "training": config.metadata.get("training", {}),
    }


def _train_run(
    data: PreparedData,
    run: Path,
    preset: str | None,
    vectors: Path | None,
    *,
    resume: bool,
    before: dict[str, Any] | None,
    **layers: Any,
) -> None:
    """Train a network of our own, or a preset of Hugging Face's, in one or both directions."""
    from bidibeam.cli.training_progress import TrainingProgress
    from bidibeam.training.train import train_run

    if resume and before is None:
        click.echo(f"There is no run in {run} yet: starting one.", err=True)
    settings = resolve(base=before, preset=preset or (None if before else "paper"), **layers)
    if vectors is not None:
        show(f"Reading {vectors.name} ...")
    with _naming_resume(run), TrainingProgress() as progress:
        train_run(data, run, settings, vectors=vectors, resume=resume, observer=progress, note=show)
    _tell_next(f"{run}, or bidibeam tune {run}")


def _fine_tune(
    data: PreparedData,
    out: Path,
    chosen: dict[str, str | None],
    layers: list[dict[str, Any]],
    *,
    resume: bool,
    started: dict[str, Any] | None,
) -> None:
    """Fine-tune a Hugging Face model; what is not chosen is as it was where a training goes on."""
    from bidibeam.cli.training_progress import TrainingProgress

    before = started or {"direction": "regular", "settings": {}}
    if resume and started is None and not (out / "config.json").is_file():
        show(f"There is no training in {out} yet: starting one.")
    settings = build(hf.FineTuneSettings, merge(before["settings"], *layers))
    named: dict[str, Any] = {
        name: value if value is not None else before.get(name) for name, value in chosen.items()
    }
    with _naming_resume(out), TrainingProgress() as progress:
        metadata = hf.fine_tune(data, out, settings=settings, resume=resume, observer=progress, **named)
    loss, direction = metadata["best"]["loss"], metadata["direction"]
    show(f"Wrote {out}: direction {direction}, from {metadata['base']}, validation loss {loss:.4f}.")
    words = {
        "regular": f"{out} --strategy vbs",
        "reverse": f"REGULAR_MODEL --reverse {out}",
        "both": str(out),
    }
    _tell_next(words[direction])


@contextmanager
def _naming_resume(run: Path) -> Iterator[None]:
    """Say how to go on, where training is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"What is trained is in {run}; --resume goes on from its last checkpoint.", err=True)
        raise


def _tell_next(model: str) -> None:
    """Say what to do with a model, once: of several processes only the first does."""
    if os.environ.get("RANK", "0") == "0":
        tell(f"Next: bidibeam chat {model}", style=None)
