"""`bidibeam demo`."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bidibeam.assembly import Run
    from bidibeam.data.prepared import PreparedData
    from bidibeam.decoding.decoder import Answer
    from bidibeam.hypotheses import Beams
    from bidibeam.scores import Score, Signature

SYSTEMS = {
    "the regular beam": ("vbs", "vbs-tuned", "bidis"),
    "a beam in each direction": ("bidia bleu_t", "bidia wmd_t"),
}
"""What is searched, and who chooses among what was found: a strategy, and a similarity where it has one."""

WHY = (
    "All systems see as many hypotheses. Likelihood (vbs) prefers short, safe replies; vbs-tuned has its "
    "length settings tuned, bidis its lambda; bidia answers with what both directions agree on. Compare "
    "bidia with vbs-tuned: the rest of its gain over vbs is length. Signatures are in results.json.\n"
)
NEXT = """\
The numbers are in {results}, the tuning curves in {plot}. What to try next:
  talk to it          {program} chat {run}
  see every beam      {program} decode {run} {test} --n-best beams.jsonl > replies.txt
  choose differently  {program} rerank beams.jsonl --similarity edit > replies.txt
  use your own pairs  {program} prepare tsv --source pairs.tsv --out data
  learn more          {program} --help
"""

BEAM_SIZE = 50
"""N_B, the hypotheses that each system may choose from: 50 regular ones, or 25 in each direction."""
CONVERSATIONS = 2000
"""The fixed slice of the default corpus: chosen by hash, so always the same."""
SOURCES = 400
SAMPLES = 3


@dataclass(frozen=True)
class System:
    """One way of decoding: what it answered, how good that was, and what was set."""

    answers: list[Answer]
    scores: list[Score]
    signature: Signature

    def as_json(self) -> dict[str, Any]:
        """The scores with their signatures."""
        scores = {
            score.name: {"value": score.value, "signature": str(score.signature)} for score in self.scores
        }
        return {"signature": str(self.signature), "scores": scores}


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/demo"),
    show_default=True,
    help="Where data and run go; what is there already is not made again.",
)
def demo(out: Path) -> None:
    """Prepare, train, tune, decode and score, on the default corpus.

    Takes a few minutes on two CPU cores. A demo that was interrupted goes on where it stopped.
    """
    from bidibeam.assembly import load_run
    from bidibeam.cli.console import console
    from bidibeam.cli.train import train_run
    from bidibeam.cli.tune import show_tuned, tune_run
    from bidibeam.config import resolve
    from bidibeam.search.settings import SearchSettings

    console.rule("1. Prepare: a slice of the chitchat corpus", align="left")
    data = _prepared(out / "data")
    console.rule("2. Train: a regular and a reverse decoder, one encoder", align="left")
    train_run(data, out / "run", resolve(preset="demo"), resume=True)
    run = load_run(out / "run")
    console.rule("3. Tune lambda and the length settings on validation sources", align="left")
    show_tuned(run.path, tune_run(run, data, SearchSettings(beam_size=BEAM_SIZE)))
    console.rule("4. Decode held-out sources with every strategy", align="left")
    _show(out, data, _decoded(run, data))


def _prepared(folder: Path) -> PreparedData:
    """The slice, made now unless it is there."""
    from bidibeam.cli.prepare import prepare_shown, show_summary
    from bidibeam.data.prepare import PrepareSettings
    from bidibeam.data.prepared import INFO, PreparedData
    from bidibeam.errors import SettingsError

    settings = PrepareSettings(limit=CONVERSATIONS, vocabulary_size=5000)
    if (folder / INFO).is_file():
        data = PreparedData.open(folder)
        if data.info["settings"] != asdict(settings):
            raise SettingsError(f"{folder} was made with other settings. Remove it, or choose another --out.")
        show_summary(data)
        return data
    return prepare_shown(settings, None, folder)


def _decoded(run: Run, data: PreparedData) -> dict[str, System]:
    """Every system's replies to the same held-out sources, and their scores."""
    from itertools import islice

    from bidibeam.assembly import load_decoder
    from bidibeam.cli.answering import warm_up, watched
    from bidibeam.cli.options import cores
    from bidibeam.evaluation.evaluate import evaluate
    from bidibeam.hypotheses import Beams
    from bidibeam.search.settings import SearchSettings
    from bidibeam.selection.settings import StrategySettings

    examples = [
        Beams(example["id"], example["source"], example["reference"])
        for example in islice(data.examples("test"), SOURCES)
    ]
    settings = SearchSettings(beam_size=BEAM_SIZE)
    systems = {}
    for searched, names in SYSTEMS.items():
        found: list[Beams] = []
        for name in names:
            strategy_name, _, similarity = name.partition(" ")
            strategy = StrategySettings(strategy_name, similarity=similarity or "bleu_t")
            decoder = load_decoder(run, strategy, settings=settings, workers=cores(), score_other=True)
            warm_up(decoder.ranker.selection)
            if not found:
                answers = watched(decoder.answers(examples), len(examples), f"searching {searched}")
                found = [answer.beams for answer in answers]
            ranked = decoder.ranker.answers(found)
            replies = [answer.text for answer in ranked]
            scores = evaluate(replies, [line.reference for line in examples], data.tokenizer)
            systems[name] = System(ranked, scores, decoder.signature)
    return systems


def _show(out: Path, data: PreparedData, systems: dict[str, System]) -> None:
    from bidibeam._version import __version__
    from bidibeam.cli.console import console
    from bidibeam.cli.info import progress_of
    from bidibeam.cli.tune import PLOT_FILE
    from bidibeam.files import write_json
    from bidibeam.reporting.tables import facts_table, values_table

    progress = progress_of(out / "run")
    console.print(facts_table("Training, at its best evaluation", progress))
    first = next(iter(systems.values()))
    headers = [score.name for score in first.scores]
    rows = [(name, [score.value for score in system.scores]) for name, system in systems.items()]
    count = len(first.answers)
    console.print(values_table(f"{count} held-out sources, N_B = {BEAM_SIZE}", headers, rows))
    console.print(WHY)
    for index in _telling(systems):
        _show_sample({name: system.answers[index] for name, system in systems.items()})
    results = {name: system.as_json() for name, system in systems.items()}
    signature = {"bidibeam": __version__, "preset": "demo", "data": data.info}
    write_json(
        out / "results.json",
        {"signature": signature, "training": progress, "sources": count, "systems": results},
    )
    run, test = out / "run", out / "data" / "test.jsonl"
    program = "bidibeam" if shutil.which("bidibeam") else sys.argv[0]
    told = NEXT.format(
        results=out / "results.json", plot=run / PLOT_FILE, run=run, test=test, program=program
    )
    console.print(told, soft_wrap=True)


def _telling(systems: dict[str, System]) -> list[int]:
    """The sources on which the systems disagree most, in their order."""
    replies = [system.answers for system in systems.values()]
    different = [len({answer.text for answer in answers}) for answers in zip(*replies, strict=True)]
    chosen = sorted(range(len(different)), key=lambda index: (-different[index], index))[:SAMPLES]
    return sorted(chosen)


def _show_sample(answers: dict[str, Answer]) -> None:
    """What every system replied, the two beams, and the pairs that won."""
    from bidibeam.cli.console import console
    from bidibeam.reporting.tables import Sample, beams_table, samples_panel

    *_, (_, both) = answers.items()
    beams = both.beams
    replies = {name: answer.text for name, answer in answers.items()}
    console.print(
        samples_panel("A source they disagree on", [Sample(beams.source, replies, beams.reference)])
    )
    winners = {
        name.removeprefix("bidia "): answer.ranking.entries[0]
        for name, answer in answers.items()
        if answer.ranking.entries and answer.ranking.entries[0].partner is not None
    }
    console.print(beams_table("The two beams, and the pair that won", beams, winners))
