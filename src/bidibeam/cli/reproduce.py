"""`bidibeam reproduce` and `bidibeam report`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from bidibeam.cli import options
from bidibeam.cli.console import show, tell
from bidibeam.cli.inputs import allow_local, build_metrics, count_cores, import_from_here
from bidibeam.cli.streams import withhold_stdin
from bidibeam.data.corpora import CORPORA
from bidibeam.errors import SettingsError
from bidibeam.files import resolve
from bidibeam.reporting import plots
from bidibeam.reporting.results import FILES, judge_by, read_results


@click.command()
@options.option("--corpus", f"The corpus: {', '.join(CORPORA.names())}.", default="chitchat")
@options.option("--source", "Where the corpus lies, if it does not install by name.", options.PATH)
@options.option(
    "--data",
    "Data that `bidibeam prepare` wrote, used as they are: --corpus and --source are not needed.",
    options.PATH,
)
@options.option(
    "--preset",
    "demo: minutes on two CPU cores. paper: its network, beam sizes and all sources; wants a GPU. "
    "gru: tasks beyond dialogue, with a control. transformer: the same with a small BART.",
    default="demo",
)
@options.option(
    "--model", "Measure this model, and train none: a run, a Hugging Face model or a CTranslate2 folder."
)
@options.pair
@options.option(
    "--control",
    "A second regular network of another seed, on which every strategy of both ends is run too.  [default: "
    "the next seed's, where the preset has a control]",
    "MODEL",
)
@options.option("--seeds", "Training runs; seeds 0, 1, ...", options.COUNT, 1)
@options.option("--first-seed", "Count seeds from here.", click.IntRange(min=0), 0)
@options.option(
    "--out", "The folder for everything.  [default: runs/NAME-PRESET, by corpus or file]", options.FOLDER
)
@options.option(
    "--vectors",
    "Word vectors (fastText's text format), for embeddings to start from and for wmd_t.",
    options.FILE,
)
@options.option(
    "--metric",
    f"What systems are judged by: {options.TUNABLE_NAMES}.  [default: {options.OWN_METRIC}]",
    "NAME",
)
@options.config
@options.override
@options.option("--workers", "Processes for scoring.  [default: the cores]", options.COUNT)
def reproduce(
    corpus: str,
    source: Path | None,
    data: Path | None,
    preset: str,
    model: str | None,
    reverse: str | None,
    dtype: str | None,
    trust_remote_code: bool,
    control: str | None,
    seeds: int,
    first_seed: int,
    out: Path | None,
    metric: str | None,
    overrides: tuple[str, ...],
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
    bidibeam reproduce --corpus tsv --source phones.tsv --metric ser
    """  # noqa: D301
    from bidibeam.cli.experiment import Terminal, show_results
    from bidibeam.experiments.plan import GivenModel
    from bidibeam.experiments.reproduce import Experiment

    plots.check_matplotlib()
    if model is None and (reverse or ((dtype or trust_remote_code) and control is None)):
        raise click.UsageError("--reverse, --dtype and --trust-remote-code go with --model: name one.")
    if model is not None and seeds > 1:
        raise click.UsageError("--seeds does not go with --model: nothing is trained.")
    if source is not None and data is None and corpus == "chitchat":
        ending = source.name.partition(".")[2].removesuffix(".gz").removesuffix(".xz")
        if ending in ("tsv", "jsonl"):
            raise SettingsError(f"{source} is not the chitchat corpus. Did you mean --corpus {ending}?")
    allow_local(metric, *overrides)
    if options["config"]:  # which may name modules
        import_from_here()
    named = data.name if data else source.name.partition(".")[0] if source else corpus
    folder = out or Path("runs") / "-".join([named, preset, *([Path(model).name] if model else [])])
    with withhold_stdin():
        experiment = Experiment.create(
            folder,
            preset,
            corpus=corpus,
            model=GivenModel(model, reverse, dtype, trust_remote_code) if model is not None else None,
            control=None if control is None else GivenModel(control, None, dtype, trust_remote_code),
            seeds=range(first_seed, first_seed + seeds),
            source=source,
            data=data,
            overrides=(*([f"metric={metric}"] if metric else []), *overrides),
            workers=workers or count_cores(),
            command=format_command(click.get_current_context()),
            progress=Terminal(),
            **options,
        )
        for name, reason in experiment.missing.items():
            tell(f"Skipped {name}: {reason}")
        ran = experiment.run()
    if not ran:
        show("Everything was done already; nothing was repeated.", style="dim")
    words = [model] if model is not None else []
    for flag, value in (("--reverse", reverse), ("--dtype", dtype)):
        words += [flag, value] if words and value else []
    words += ["--trust-remote-code"] if words and trust_remote_code else []
    show_results(experiment.results(), folder, experiment.data_folder, words)


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
            is_path = isinstance(each, Path) or (
                name in ("model", "reverse", "control") and Path(each).is_dir()
            )
            words += [
                parameter.opts[0],
                *([] if each is True else [Path(each).name if is_path else str(each)]),
            ]
    return shlex.join(words)


@click.command()
@click.argument("results", metavar="PATH", type=options.PATH)
@options.option(
    "--out",
    "The folder that the report goes to.  [default: PATH; of a file NAME.json, NAME-report beside it]",
    options.FOLDER,
)
@options.option(
    "--metric", "Judge by this metric, of those that the results have.  [default: theirs]", "NAME"
)
def report(results: Path, out: Path | None, metric: str | None) -> None:
    """Write a report of results: a page, a document and figures.

    PATH is a results.json of `bidibeam reproduce`, what `bidibeam evaluate --out` wrote, the analyses.json of
    `bidibeam analyse`, or a folder that has some of results.json, evaluation.json and analyses.json. The
    report shows what is there, and beside it what the paper prints. report.html is one file that needs
    nothing else; report.md links the figures. A report of other files is never overwritten.

    \b
    bidibeam report runs/demo                     # runs/demo/report.html
    bidibeam report scores.json                   # scores-report/report.html
    bidibeam report scores.json --out evaluation  # evaluation/report.html
    """  # noqa: D301
    from bidibeam.reporting.report import PAGE_FILE, read_report_sources, write_report

    files = read_results(results)
    if metric is not None:
        if ":" in metric:  # as it was named to those who computed the results
            metric = build_metrics([metric], None, False)[0].name
        files = {name: judge_by(content, metric) for name, content in files.items()}
    folder = out or (results if results.is_dir() else results.with_name(f"{results.stem}-report"))
    paths = [results / name for name in files] if results.is_dir() else [results]
    sources = [Path(os.path.relpath(os.path.realpath(path), resolve(folder))).as_posix() for path in paths]
    before = read_report_sources(folder)
    is_ours = set(before) <= set(sources) if before else set(sources) <= set(FILES)
    if before is not None and not is_ours:
        made_from = " and ".join(os.path.normpath(folder / source) for source in before)
        told = f"made from {made_from}" if made_from else "there already"
        raise SettingsError(
            f"{folder / PAGE_FILE} was {told}, and would be overwritten. Name another folder with --out, or "
            "remove it."
        )
    written = write_report(files, folder, sources)
    tell(f"Wrote {written.page} and {written.document}.", style=None)
    if written.figures:
        count = len({path.stem for path in written.figures})
        what = "1 figure, as SVG and PNG, is" if count == 1 else f"{count} figures, as SVG and PNG, are"
        tell(f"{what} in {written.figures[0].parent}.", style=None)
