"""What `bidibeam reproduce` shows of an experiment: its progress and its results."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bidibeam.cli import console
from bidibeam.cli.console import FEW_SOURCES, format_duration, show, show_metadata, show_preparation, tell
from bidibeam.cli.prepare import show_summary
from bidibeam.cli.training_progress import TrainingProgress
from bidibeam.experiments.stages import ExperimentObserver
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked
from bidibeam.reporting.numbers import SHORT_LABELS, label_metric, mean
from bidibeam.reporting.results import Results
from bidibeam.reporting.tables import beams_table, samples_panel, values_table
from bidibeam.strategies.settings import requirements_of

if TYPE_CHECKING:
    from bidibeam.data.prepare import Progress
    from bidibeam.data.prepared import PreparedData
    from bidibeam.training.logs import TrainingObserver

T = TypeVar("T")
SAMPLES = 3
ENOUGH_SHARE = 0.1
"""A larger part of a corpus is not asked for."""
MEANINGS = {
    "vbs": "takes the most likely hypothesis, and those are often short",
    "vbs-tuned": "has its length settings tuned",
    "bidis": "adds up both directions' log-probabilities",
    "bidia": "answers with what both directions agree on",
    "loglinear": "weighs all of these, as tuned",
}
"""What strategies do, to be told beside their scores."""
LEGEND = (
    "Compare with vbs-tuned: what a system gains over vbs may be length. (s-BLEU: mean sentence BLEU; "
    "dist-n: different n-grams over words; length: words over the references' words.)\n"
)
NEXT = """\
The report is {out}/report.html; every number with its signature is in {out}/results.json. What to try next:
  talk to it          bidibeam chat {run}
  answer its sources  bidibeam decode {run} {test}{by} > replies.txt
  see every beam      bidibeam decode {run} {test} --strategy {strategy} --n-best beams.jsonl > replies.txt
  choose differently  bidibeam rerank beams.jsonl {other} > replies.txt
  use your own pairs  bidibeam reproduce --corpus tsv --source pairs.tsv --preset demo --out runs/mine
"""


class Terminal(ExperimentObserver):
    """Shows an experiment on a terminal."""

    def begin(self, name: str, *, number: int, total: int, resumed: bool, why: str) -> None:
        """Prints a heading."""
        console.get_console().rule(f"{number}/{total}  {name}{', going on' if resumed else ''}", align="left")
        if why:
            tell(f"Again: {why}.")

    def end(self, name: str, *, number: int, total: int, took_s: float) -> None:
        """Prints how long it took."""
        show(f"{number}/{total}  {name}: done in {format_duration(took_s)}", style="dim")

    def skip(self, name: str, *, number: int, total: int) -> None:
        """Prints a dim line."""
        show(f"{number}/{total}  {name}: done already", style="dim")

    def track(self, items: Iterable[T], total: int | None, what: str) -> Iterator[T]:
        """Shows a progress bar; in a log file a line now and then."""
        return console.track(items, total, what)

    def show_preparation(self) -> AbstractContextManager[Progress]:
        """Shows a line per step."""
        return show_preparation()

    def show_data(self, data: PreparedData) -> None:
        """Shows what was kept and dropped, and warns of too few pairs."""
        show_summary(data)
        limit = data.info["settings"].get("limit")
        if limit is not None:
            self.note(f"At most {limit:,} conversations are taken; --set prepare.limit=null takes all.")
        for split, name, purpose in (
            ("test", "test_share", "scores and tests"),
            ("validation", "validation_share", "settings tuned"),
        ):
            count, share = data.info["items"][split], data.info["settings"].get(name, 0.0)
            if count < FEW_SOURCES:
                is_by_hash = split not in data.statistics["splits"]["official"]
                more = f" More are kept by --set prepare.{name}=0.1." * (is_by_hash and share < ENOUGH_SHARE)
                self.note(f"Few {split} sources, {count:,}: {purpose} on so few say little.{more}")

    def show_training(self) -> AbstractContextManager[TrainingObserver]:
        """Shows a bar with the losses."""
        return TrainingProgress()

    def note(self, sentence: str) -> None:
        """Prints a dim line."""
        show(sentence, style="dim")


def show_results(
    results: Mapping[str, Any], folder: Path, data: Path, model: Sequence[str] | None = None
) -> None:
    """Shows the main table, a few sources on which the systems disagree, and what to do next.

    `model` is what a command line names the model by, if one was given.
    """
    scored, first = Results.of(results), results["seeds"][0]
    size, seeds = scored.largest, len(scored.seeds)
    measures = scored.metrics(size)
    rows = [
        (name, [mean(scored.values(name, size, measure)) for measure in measures])
        for name in scored.systems
        if scored.entries(name, size)
    ]
    if first["training"]:
        title = f"Training, seed {first['seed']}, at its best evaluation"
        show_metadata(title, first["training"])
    title = f"{results['sources']:,} held-out sources, N_B = {size}"
    title += f", mean of {seeds} seeds" if seeds > 1 else ""
    show(
        values_table(
            title, [SHORT_LABELS.get(measure) or label_metric(measure) for measure in measures], rows
        )
    )
    if scored.is_lower_better():
        show(f"Systems are judged by {scored.label}, of which lower is better.")
    strategies = {name.split()[0] for name in results["settings"]["systems"]}
    meanings = "; ".join(f"{name} {told}" for name, told in MEANINGS.items() if name in strategies)
    show(f"All systems may choose from as many hypotheses. {meanings[:1].upper()}{meanings[1:]}. {LEGEND}")
    for example in first["analyses"].get("examples", {}).get("examples", [])[:SAMPLES]:
        _show_example(example)
    recommended = [seed["recommended"] for seed in results["seeds"] if seed.get("recommended")]
    if recommended:
        chosen = "" if model else first.get("recommended")
        where = f"; decode and chat answer by {chosen} unless told otherwise" if chosen else ""
        tell(f"Recommended on validation: {', '.join(dict.fromkeys(recommended))}{where}.")
    run = shlex.join(model or [str(folder / f"seed-{first['seed']}" / "run")])
    has_both = any(len(requirements_of(name).used) > 1 for name in results["settings"]["systems"])
    strategy, other = ("bidia", "--similarity edit") if has_both else ("vbs", "--strategy longest")
    test = shlex.quote(str(data / "test.jsonl"))
    by = "" if has_both else f" --strategy {strategy}"
    tell(NEXT.format(out=folder, run=run, test=test, by=by, strategy=strategy, other=other), style=None)


def _show_example(example: Mapping[str, Any]) -> None:
    """Shows every system's reply, the two beams, and the pair that won."""

    def make_list(texts: Iterable[str]) -> NBest:
        return NBest(tuple(Hypothesis(text, tuple(text.split()), None, 0, None) for text in texts))

    beams = Beams(
        example["id"],
        example["source"],
        tuple(example.get("references") or filter(None, [example["reference"]])),
        make_list(example["regular"]),
        make_list(example["reverse"]),
    )
    show(samples_panel("A source they disagree on", [example]))
    winners = {}
    if example.get("pair"):
        row, column = example["pair"]
        winners[example["similarity"]] = Ranked(beams.regular[row], Direction.REGULAR, row, 0.0, column)
    show(beams_table("The two beams, and the pair that won", beams, winners))
