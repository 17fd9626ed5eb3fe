"""`bidibeam reproduce`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bidibeam.cli.options import cores, device_option
from bidibeam.data.corpora import CORPORA

if TYPE_CHECKING:
    from bidibeam.data.prepare import Progress
    from bidibeam.data.prepared import PreparedData
    from bidibeam.training.logs import TrainingObserver

T = TypeVar("T")
SAMPLES = 3
FEW_SOURCES = 100
ENOUGH_SHARE = 0.1
"""A larger part of a corpus is not asked for."""
SHORT = {
    "bleu": "BLEU",
    "sentence_bleu": "s-BLEU",
    "chrf": "chrF",
    "distinct-1": "dist-1",
    "distinct-2": "dist-2",
    "length_ratio": "length",
}
"""Headers that fit into 80 columns; s-BLEU is the mean sentence BLEU, length the length ratio."""
DEFAULT_OUT = Path("runs")
WHY = (
    "All systems may choose from as many hypotheses. Likelihood (vbs) prefers short, safe replies; vbs-tuned "
    "has its length settings tuned, bidis its lambda; bidia answers with what both directions agree on. "
    "Compare bidia with vbs-tuned: what it gains over vbs may be length. (s-BLEU: mean sentence BLEU; "
    "dist-n: different n-grams over words; length: words over the references' words.)\n"
)
NEXT = """\
The report is {out}/report.html; every number with its signature is in {out}/results.json. What to try next:
  talk to it          bidibeam chat {run}
  see every beam      bidibeam decode {run} {test} --n-best beams.jsonl > replies.txt
  choose differently  bidibeam rerank beams.jsonl --similarity edit > replies.txt
  use your own pairs  bidibeam reproduce --corpus tsv --source pairs.tsv --preset demo --out runs/mine
"""


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
    help="demo: minutes on two CPU cores. paper: its network, beam sizes and all sources; wants a GPU.",
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
    seeds: int,
    first_seed: int,
    out: Path | None,
    vectors: Path | None,
    config: Path | None,
    overrides: tuple[str, ...],
    device: str | None,
    workers: int | None,
) -> None:
    """Run the paper's whole experiment on a corpus, and report on it.

    Prepares, trains both directions, searches, tunes, evaluates every strategy at every beam size, and ends
    with report.html, report.md, figures and results.json in the folder. A killed call goes on where it was; a
    finished stage is not repeated; changed settings repeat what depends on them, and nothing else.

    \b
    bidibeam reproduce                                    # the demo
    bidibeam reproduce --corpus cornell --source cornell/ --preset paper --seeds 3
    bidibeam reproduce --preset demo --set beam_sizes=[2,10,20] --set training.epochs=3
    """  # noqa: D301
    from bidibeam.cli.console import console
    from bidibeam.experiments.reproduce import Experiment
    from bidibeam.experiments.settings import resolve
    from bidibeam.reporting.plots import check_matplotlib

    check_matplotlib()
    if source is not None and data is None:
        _check_source(corpus, source)
    settings = resolve(preset=preset, corpus=None if data else corpus, config=config, overrides=overrides)
    named = data.name if data else source.name.partition(".")[0] if source else corpus
    folder = out or DEFAULT_OUT / f"{named}-{preset}"
    experiment = Experiment(
        folder,
        settings,
        preset,
        seeds=range(first_seed, first_seed + seeds),
        source=source,
        data=data,
        vectors=vectors,
        device=device,
        workers=workers or cores(),
        command=command_line(click.get_current_context()),
        audience=Terminal(),
    )
    try:
        ran = experiment.run()
    except KeyboardInterrupt:
        console.print(f"What is done stays in {folder}; the same command goes on from there.", soft_wrap=True)
        raise
    if not ran:
        console.print("Everything was done already; nothing was repeated.", style="dim")
    show_results(experiment.results(), folder)


def _check_source(corpus: str, source: Path) -> None:
    """Hint at the right reader before a corpus that needs no source is asked to read one."""
    from bidibeam.errors import SettingsError

    ending = source.name.partition(".")[2].removesuffix(".gz").removesuffix(".xz")
    if corpus == "chitchat" and ending in ("tsv", "jsonl"):
        raise SettingsError(f"{source} is not the chitchat corpus. Did you mean --corpus {ending}?")


def command_line(context: click.Context) -> str:
    """The call, for the record: all that was given and decides the results, of paths the last part only."""
    words = ["bidibeam", "reproduce"]
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not given or name in ("out", "device", "workers"):
            continue
        value = context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            words += [parameter.opts[0], each.name if isinstance(each, Path) else str(each)]
    return shlex.join(words)


class Terminal:
    """An experiment as somebody at a terminal sees it."""

    def began(self, name: str, *, number: int, total: int, resumed: bool, why: str) -> None:
        """A heading."""
        from bidibeam.cli.console import console

        console.rule(f"{number}/{total}  {name}{', going on' if resumed else ''}", align="left")
        if why:
            console.print(f"Again: {why}.", style="dim", soft_wrap=True)

    def ended(self, name: str, *, number: int, total: int, took_s: float) -> None:
        """How long it took."""
        from bidibeam.cli.console import console, duration

        console.print(f"{number}/{total}  {name}: done in {duration(took_s)}", style="dim")

    def skipped(self, name: str, *, number: int, total: int) -> None:
        """One quiet line."""
        from bidibeam.cli.console import console

        console.print(f"{number}/{total}  {name}: done already", style="dim")

    def track(self, items: Iterable[T], total: int | None, what: str) -> Iterator[T]:
        """A progress bar that goes away; in a log file a line now and then."""
        from bidibeam.cli.console import track

        return track(items, total, what)

    def preparing(self) -> AbstractContextManager[Progress]:
        """A line for each step of it."""
        from bidibeam.cli.prepare import shown_progress

        return shown_progress()

    def prepared(self, data: PreparedData) -> None:
        """What was kept and dropped, and what to beware of."""
        from bidibeam.cli.prepare import show_summary

        show_summary(data)
        limit = data.info["settings"].get("limit")
        if limit is not None:
            self.note(f"At most {limit:,} conversations are taken; --set prepare.limit=null takes all.")
        for split, name, purpose in (
            ("test", "test_share", "scores and tests"),
            ("validation", "validation_share", "settings tuned"),
        ):
            count, share = data.info["pairs"][split], data.info["settings"].get(name, 0.0)
            if count < FEW_SOURCES:
                more = f" More are kept by --set prepare.{name}=0.1." if share < ENOUGH_SHARE else ""
                self.note(f"Few {split} sources, {count:,}: {purpose} on so few say little.{more}")

    def training(self) -> AbstractContextManager[TrainingObserver]:
        """The bar with the losses."""
        from bidibeam.cli.watching import TrainingProgress

        return TrainingProgress()

    def note(self, sentence: str) -> None:
        """A quiet line."""
        from bidibeam.cli.console import console

        console.print(sentence, style="dim")


def show_results(results: Mapping[str, Any], folder: Path) -> None:
    """The main table, a few sources on which the systems disagree, and what to do next."""
    from bidibeam.cli.console import console
    from bidibeam.reporting.tables import facts_table, values_table

    seeds = results["seeds"]
    first = seeds[0]
    largest = str(max(results["settings"]["beam_sizes"]))
    systems = [name for name, rows in first["systems"].items() if largest in rows]
    measures = list(first["systems"][systems[0]][largest]["scores"])

    def value(name: str, measure: str) -> float:
        return float(mean(seed["systems"][name][largest]["scores"][measure]["value"] for seed in seeds))

    rows = [(name, [value(name, measure) for measure in measures]) for name in systems]
    console.print(facts_table(f"Training, seed {first['seed']}, at its best evaluation", first["training"]))
    title = f"{results['sources']:,} held-out sources, N_B = {largest}"
    title += f", mean of {len(seeds)} seeds" if len(seeds) > 1 else ""
    console.print(values_table(title, [SHORT.get(measure, measure) for measure in measures], rows))
    console.print(WHY)
    for example in first["analyses"].get("examples", {}).get("examples", [])[:SAMPLES]:
        _show_example(example)
    run = folder / f"seed-{first['seed']}" / "run"
    console.print(NEXT.format(out=folder, run=run, test=folder / "data" / "test.jsonl"), soft_wrap=True)


def _show_example(example: Mapping[str, Any]) -> None:
    """What every system replied, the two beams, and the pair that won."""
    from bidibeam.cli.console import console
    from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked
    from bidibeam.reporting.tables import Sample, beams_table, samples_panel

    def listed(texts: Iterable[str]) -> NBest:
        return NBest(tuple(Hypothesis(text, tuple(text.split()), None, 0, None) for text in texts))

    beams = Beams(
        example["id"],
        example["source"],
        example["reference"],
        listed(example["regular"]),
        listed(example["reverse"]),
    )
    sample = Sample(beams.source, example["replies"], beams.reference)
    console.print(samples_panel("A source they disagree on", [sample]))
    winners = {}
    if example.get("pair"):
        row, column = example["pair"]
        winners[example["similarity"]] = Ranked(beams.regular[row], Direction.REGULAR, row, 0.0, column)
    console.print(beams_table("The two beams, and the pair that won", beams, winners))
