"""`bidibeam demo`."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bidibeam.data.prepared import PreparedData
    from bidibeam.decoding.decoder import Answer
    from bidibeam.scores import Score

SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "regular": ("regular", {}),
    "reverse": ("reverse", {}),
    "regular, 6+ tokens": ("regular", {"min_length": 6}),
}
"""Which decoder answers, and how it is searched where that is not the paper's way."""

WHY = (
    "Likelihood prefers short, safe replies, so the paper's settings mostly answer with one word; a minimum "
    "length makes the model say more. The signatures of all scores are in results.json.\n"
)
NEXT = """\
The numbers are in {results}. What to try next:
  talk to it          {program} chat {run}
  see every beam      {program} decode {run} {test} --n-best beams.jsonl
  use your own pairs  {program} prepare tsv --source pairs.tsv --out data
  learn more          {program} --help
"""

CONVERSATIONS = 2000
"""The fixed slice of the default corpus: chosen by hash, so always the same."""
SOURCES = 400
SAMPLES = 10


@dataclass(frozen=True)
class System:
    """One way of decoding: what it answered, how good that was, and what was set."""

    answers: list[Answer]
    scores: list[Score]
    search: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The scores with their signatures."""
        scores = {
            score.name: {"value": score.value, "signature": str(score.signature)} for score in self.scores
        }
        return {"search": self.search, "scores": scores}


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/demo"),
    show_default=True,
    help="Where data and run go; what is there already is not made again.",
)
def demo(out: Path) -> None:
    """Prepare, train, decode and score, on the default corpus.

    Takes a few minutes on two CPU cores. A demo that was interrupted goes on where it stopped.
    """
    from bidibeam.cli.console import console
    from bidibeam.cli.train import train_run
    from bidibeam.config import resolve

    console.rule("1. Prepare: a slice of the chitchat corpus", align="left")
    data = _prepared(out / "data")
    console.rule("2. Train: a regular and a reverse decoder, one encoder", align="left")
    train_run(data, out / "run", resolve(preset="demo"), resume=True)
    console.rule("3. Decode held-out sources with vanilla beam search", align="left")
    _show(out, data, _decoded(out / "run", data))


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


def _decoded(run: Path, data: PreparedData) -> dict[str, System]:
    """Every system's replies to the same held-out sources, and their scores."""
    from itertools import islice

    from bidibeam.assembly import load_decoder, load_run
    from bidibeam.cli.decode import watched
    from bidibeam.evaluation.evaluate import evaluate
    from bidibeam.hypotheses import Beams
    from bidibeam.search.settings import SearchSettings

    examples = [
        Beams(example["id"], example["source"], example["reference"])
        for example in islice(data.examples("test"), SOURCES)
    ]
    loaded = load_run(run)
    systems = {}
    for name, (direction, search) in SYSTEMS.items():
        decoder = load_decoder(loaded, direction=direction, settings=SearchSettings(**search))
        answers = list(watched(decoder.answers(examples), len(examples), name))
        replies = [answer.text for answer in answers]
        scores = evaluate(replies, [line.reference for line in examples], data.tokenizer)
        systems[name] = System(answers, scores, search)
    return systems


def _show(out: Path, data: PreparedData, systems: dict[str, System]) -> None:
    from bidibeam._version import __version__
    from bidibeam.cli.console import console
    from bidibeam.cli.info import progress_of
    from bidibeam.files import write_json
    from bidibeam.reporting.tables import Sample, facts_table, samples_panel, values_table

    progress = progress_of(out / "run")
    console.print(facts_table("Training, at its best evaluation", progress))
    first = next(iter(systems.values()))
    headers = [score.name for score in first.scores]
    rows = [(name, [score.value for score in system.scores]) for name, system in systems.items()]
    count = len(first.answers)
    console.print(values_table(f"Vanilla beam search on {count} held-out sources", headers, rows))
    console.print(WHY)
    samples = [
        Sample(
            first.answers[index].beams.source,
            {name: system.answers[index].text for name, system in systems.items()},
            first.answers[index].beams.reference,
        )
        for index in range(0, count, max(1, count // SAMPLES))
    ]
    console.print(samples_panel("Sample replies", samples[:SAMPLES]))
    results = {name: system.as_json() for name, system in systems.items()}
    signature = {"bidibeam": __version__, "preset": "demo", "data": data.info}
    write_json(
        out / "results.json",
        {"signature": signature, "training": progress, "sources": count, "systems": results},
    )
    run, test = out / "run", out / "data" / "test.jsonl"
    program = "bidibeam" if shutil.which("bidibeam") else sys.argv[0]
    told = NEXT.format(results=out / "results.json", run=run, test=test, program=program)
    console.print(told, soft_wrap=True)
