"""`bidibeam train`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam import hf
from bidibeam.cli import options
from bidibeam.cli.console import get_console, show, tell
from bidibeam.cli.inputs import find_metric
from bidibeam.cli.streams import withhold_stdin
from bidibeam.cli.tune import tune_quickly
from bidibeam.config import load_yaml, merge, parse_override, resolve
from bidibeam.fields import build
from bidibeam.training.settings import HUGGING_FACE

if TYPE_CHECKING:
    from bidibeam.data.prepared import PreparedData


@click.command()
@click.argument("data", type=options.PATH)
@options.option("--out run", "The run directory.", options.FOLDER, required=True)
@options.option(
    "--preset",
    "Settings to start from: demo (minutes on a CPU), compact (the model that comes with bidibeam), "
    "paper, gru (wider, for one right answer) or transformer (a small Hugging Face model with two "
    "decoders).  [default: paper]",
)
@options.option(
    "--architecture", "A network of our own; --set model.NAME=VALUE are its settings.  [default: gru]", "NAME"
)
@options.config
@options.override
@options.option(
    "--vectors", "Start the embeddings from a fastText .vec file (plain, .gz or .xz).", options.FILE
)
@options.option(
    "--base",
    "Fine-tune this Hugging Face model: a name on the Hub, a folder, or a config for fresh weights.",
    "MODEL_OR_CONFIG",
)
@options.option(
    "--direction",
    "With --base: the order to write in; both is one encoder with two decoders.  [default: regular]",
    ["regular", "reverse", "both"],
)
@options.option(
    "--tokenizer", "With --base: a tokenizer that is not the base's own; name or folder.", "MODEL"
)
@options.trust
@options.option("--epochs", "Passes over the training pairs.", int)
@options.option("--batch-size", "Pairs a batch, on each device.", int)
@options.option("--learning-rate", "The highest learning rate.", float)
@options.option("--seed", "Seeds fresh weights, dropout and the order of the data.", int)
@options.option("--resume", "Go on with the run in --out, from its newest checkpoint.", bool)
@options.option(
    "--tune/--no-tune is_tuned",
    "Find out at the end, by a quick `tune`, which strategy serves best?",
    default=True,
)
@options.option(
    "--metric",
    f"What that `tune` judges replies by: {options.TUNABLE_NAMES}.  [default: {options.OWN_METRIC}]",
    "NAME",
)
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
    trust_remote_code: bool,
    resume: bool,
    is_tuned: bool,
    metric: str | None,
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
    from bidibeam.cli.training_progress import TrainingProgress
    from bidibeam.data.prepared import PreparedData
    from bidibeam.metrics.scoring import check_tunable
    from bidibeam.training.state import started_with
    from bidibeam.training.train import train as train_run

    is_first = os.environ.get("RANK", "0") == "0"
    get_console().quiet = not is_first  # of several processes only the first says it
    common = {name: value for name, value in common.items() if value is not None}
    before = (started_with(run) if resume else None) or {}
    is_fine_tuned = base is not None or isinstance(before.get("base"), str)
    _check_flags(is_fine_tuned=is_fine_tuned)
    pairs = PreparedData.open(data)
    judge = find_metric(pairs, metric)
    check_tunable(judge)
    if resume and not before and not (run / "config.json").is_file():
        named = "" if is_fine_tuned else f" with the preset {preset or 'paper'}"
        show(f"There is no run in {run} yet: starting one{named}.")
    if is_fine_tuned:
        layers = [load_yaml(config)] if config is not None else []
        layers += [common, *map(parse_override, overrides)]  # each over those before it
        chosen = {"base": base, "direction": direction, "tokenizer": tokenizer}
        how = {"resume": resume, "trust_remote_code": trust_remote_code}
        model = _fine_tune(pairs, run, before, chosen, layers, **how)
        is_tuned = is_tuned and "--reverse" not in model  # which has nothing to choose among
    else:
        settings = resolve(
            base=_read_settings(before),
            preset=preset or (None if before else "paper"),
            config=config,
            overrides=(*overrides, *(f"training.{name}={value}" for name, value in common.items())),
            architecture=architecture,
        )
        if vectors is not None:
            show(f"Reading {vectors.name} ...")
        with TrainingProgress() as progress:
            train_run(pairs, run, settings, vectors=vectors, resume=resume, observer=progress, note=show)
        model = f"{run}, or bidibeam tune {run}"
    if "RANK" in os.environ:  # a launcher's process: from here on it works alone
        from accelerate import PartialState

        PartialState().destroy_process_group()
    if is_first:
        if is_tuned:
            tune_quickly(run, pairs, judge)
        tell(f"Next: bidibeam chat {model}", style=None)


def _check_flags(*, is_fine_tuned: bool) -> None:
    """Refuse flags of our own networks beside a Hugging Face model, and the other way round."""
    flags = click.get_current_context().params
    ours, theirs = ("preset", "architecture", "vectors"), ("direction", "tokenizer", "trust_remote_code")
    for name in ours if is_fine_tuned else theirs:
        if flags[name] not in (None, False):
            flag = f"--{name.replace('_', '-')}"
            raise click.UsageError(
                f"{flag} does not go with a Hugging Face model: it is for the network that bidibeam trains "
                "without --base."
                if is_fine_tuned
                else f"{flag} goes with --base: name a Hugging Face model or a config."
            )


def _read_settings(before: dict[str, Any]) -> dict[str, Any]:
    """The sections of settings that a run began with."""
    if "base" in before:  # the values of a config
        both, way = ["regular", "reverse"], before["direction"]
        shape = {**before["base"], "directions": both if way == "both" else [way]}
        return {"architecture": HUGGING_FACE, "model": shape, "training": before["settings"]}
    return {name: before[name] for name in ("architecture", "model", "training") if name in before}


def _fine_tune(
    data: PreparedData,
    run: Path,
    before: dict[str, Any],
    chosen: dict[str, Any],
    layers: list[dict[str, Any]],
    **how: Any,
) -> str:
    """Fine-tune a Hugging Face model, what is not chosen as it was before; return what to chat with."""
    from bidibeam.cli.training_progress import TrainingProgress

    settings = build(hf.FineTuneSettings, merge(before.get("settings", {}), *layers))
    began = {"direction": "regular", **{name: before[name] for name in chosen if name in before}}
    named: Any = {**began, **{name: value for name, value in chosen.items() if value is not None}}
    with withhold_stdin(), TrainingProgress() as progress:
        metadata = hf.fine_tune(data, run, settings=settings, observer=progress, **named, **how)
    loss, way = metadata["best"]["loss"], metadata["direction"]
    show(f"Wrote {run}: direction {way}, from {metadata['base']}, validation loss {loss:.4f}.")
    models = {"regular": f"{run} --strategy vbs", "reverse": f"REGULAR_MODEL --reverse {run}"}
    return models.get(way, str(run))
