"""`bidibeam reproduce`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from bidibeam.cli.options import cores, device_option
from bidibeam.data.corpora import CORPORA

DEFAULT_OUT = Path("runs")


@click.command()
@click.option(
    "--corpus",
    default="chitchat",
    show_default=True,
    help=f"The corpus: {', '.join(CORPORA.names())}.",
)
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    help="Where the corpus lies, if it does not install by name.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Data that `bidibeam prepare` wrote, used as they are: --corpus and --source are not needed.",
)
@click.option(
    "--preset",
    default="demo",
    show_default=True,
    help="demo: minutes on two CPU cores. paper: its network, beam sizes and all sources; wants a GPU. "
    "transformer: the same with a small BART.",
)
@click.option(
    "--model",
    help="Measure this model instead of training one: a run, a Hugging Face model or a CTranslate2 folder.",
)
@click.option(
    "--reverse", metavar="MODEL", help="With --model: the model that writes from the end, if another."
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="With --model: the precision of a Hugging Face model.",
)
@click.option(
    "--trust-remote-code", is_flag=True, help="With --model: let code run that the model brings along."
)
@click.option(
    "--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Training runs; seeds 0, 1, ..."
)
@click.option(
    "--first-seed", type=click.IntRange(min=0), default=0, show_default=True, help="Count seeds from here."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for everything.  [default: runs/NAME-PRESET, of the corpus or its file]",
)
@click.option(
    "--vectors",
    type=click.Path(dir_okay=False, path_type=Path),
    help="fastText's text format: embeddings start from them, and wmd_t is computed among them.",
)
@click.option(
    "--config", type=click.Path(dir_okay=False, path_type=Path), help="A YAML file, over the preset."
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting, such as training.epochs=3, beam_sizes=[2,10] or examples=5; may be repeated.",
)
@device_option
@click.option("--workers", type=click.IntRange(min=1), help="Processes for scoring.  [default: the cores]")
def reproduce(
    corpus: str,
    source: Path | None,
    data: Path | None,
    preset: str,
    model: str | None,
    reverse: str | None,
    dtype: str | None,
    trust_remote_code: bool,
    seeds: int,
    first_seed: int,
    out: Path | None,
    workers: int | None,
    **options: Any,
) -> None:
    """Run the paper's whole experiment on a corpus, and report on it.

    Prepares, trains both directions, searches, tunes, evaluates every strategy at every beam size, and ends
    with report.html, report.md, figures and results.json in the folder. A killed call goes on where it was; a
    finished stage is not repeated; changed settings repeat what depends on them, and nothing else.

    \b
    bidibeam reproduce                                    # the demo
    bidibeam reproduce --corpus cornell --source cornell/ --preset paper --seeds 3
    bidibeam reproduce --preset demo --set beam_sizes=[2,10,20] --set training.epochs=3
    bidibeam reproduce --corpus tsv --source pairs.tsv --model bart-both
    """  # noqa: D301
    from bidibeam.cli.console import console
    from bidibeam.cli.experiment import Terminal, show_results
    from bidibeam.experiments.plan import GivenModel
    from bidibeam.experiments.reproduce import Experiment
    from bidibeam.reporting.plots import check_matplotlib

    check_matplotlib()
    if model is None and (reverse or dtype or trust_remote_code):
        raise click.UsageError("--reverse, --dtype and --trust-remote-code go with --model: name one.")
    if model is not None and seeds > 1:
        raise click.UsageError("--seeds does not go with --model: nothing is trained.")
    if source is not None and data is None:
        _check_source(corpus, source)
    named = data.name if data else source.name.partition(".")[0] if source else corpus
    folder = out or DEFAULT_OUT / "-".join([named, preset, *([Path(model).name] if model else [])])
    experiment = Experiment.create(
        folder,
        preset,
        corpus=None if data else corpus,
        model=GivenModel(model, reverse, dtype, trust_remote_code) if model is not None else None,
        seeds=range(first_seed, first_seed + seeds),
        source=source,
        data=data,
        workers=workers or cores(),
        command=format_command(click.get_current_context()),
        progress=Terminal(),
        **options,
    )
    for name, reason in experiment.missing.items():
        console.print(f"Without {name}: {reason}", style="dim", soft_wrap=True)
    try:
        ran = experiment.run()
    except KeyboardInterrupt:
        console.print(f"What is done stays in {folder}; the same command goes on from there.", soft_wrap=True)
        raise
    if not ran:
        console.print("Everything was done already; nothing was repeated.", style="dim")
    show_results(experiment.results(), folder, model)


def _check_source(corpus: str, source: Path) -> None:
    """Names the right reader of a file that is not the default corpus."""
    from bidibeam.errors import SettingsError

    ending = source.name.partition(".")[2].removesuffix(".gz").removesuffix(".xz")
    if corpus == "chitchat" and ending in ("tsv", "jsonl"):
        raise SettingsError(f"{source} is not the chitchat corpus. Did you mean --corpus {ending}?")


def format_command(context: click.Context) -> str:
    """Returns the command line without what does not decide the results; of paths the last part only."""
    words = ["bidibeam", "reproduce"]
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not given or name in ("out", "device", "workers"):
            continue
        value = context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            is_path = isinstance(each, Path) or (name in ("model", "reverse") and Path(each).is_dir())
            words += [
                parameter.opts[0],
                *([] if each is True else [Path(each).name if is_path else str(each)]),
            ]
    return shlex.join(words)
