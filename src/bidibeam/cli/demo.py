"""`bidibeam demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bidibeam.data.prepared import PreparedData
    from bidibeam.decoding.decoder import Answer
    from bidibeam.scores import Score

CONVERSATIONS = 2000
"""The fixed slice of the default corpus: chosen by hash, so always the same."""
SOURCES = 400
SAMPLES = 10


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
    answers, scores = _decoded(out / "run", data)
    _show(out, answers, scores)


def _prepared(folder: Path) -> PreparedData:
    """The slice, made now unless it is there."""
    from bidibeam.cli.prepare import prepare_shown, show_summary
    from bidibeam.data.prepare import PrepareSettings
    from bidibeam.data.prepared import INFO, PreparedData

    settings = PrepareSettings(limit=CONVERSATIONS, vocabulary_size=5000)
    if (folder / INFO).is_file():
        data = PreparedData.open(folder)
        show_summary(data)
        return data
    return prepare_shown(settings, None, folder)


def _decoded(run: Path, data: PreparedData) -> tuple[list[Answer], list[Score]]:
    from itertools import islice

    from bidibeam.assembly import load_decoder, load_run
    from bidibeam.cli.decode import watched
    from bidibeam.evaluation.evaluate import evaluate
    from bidibeam.hypotheses import Beams

    examples = [
        Beams(example["id"], example["source"], example["reference"])
        for example in islice(data.examples("test"), SOURCES)
    ]
    decoder = load_decoder(load_run(run, device="cpu"))
    answers = list(watched(decoder.answers(examples), len(examples)))
    replies = [answer.text for answer in answers]
    return answers, evaluate(replies, [line.reference for line in examples], data.tokenizer)


def _show(out: Path, answers: list[Answer], scores: list[Score]) -> None:
    from bidibeam.cli.console import console
    from bidibeam.cli.info import progress_of
    from bidibeam.files import write_json
    from bidibeam.reporting.tables import Sample, facts_table, samples_panel, scores_table

    progress = progress_of(out / "run")
    console.print(facts_table("Training, at its best evaluation", progress))
    console.print(scores_table(f"Vanilla beam search on {len(answers)} held-out sources", scores))
    chosen = answers[:: max(1, len(answers) // SAMPLES)][:SAMPLES]
    samples = [Sample(answer.beams.source, answer.text, answer.beams.reference) for answer in chosen]
    console.print(samples_panel("Sample replies", samples))
    results: dict[str, Any] = {
        "training": progress,
        "sources": len(answers),
        "scores": {score.name: {"value": score.value, "signature": str(score.signature)} for score in scores},
    }
    write_json(out / "results.json", results)
    console.print(
        f"The numbers are in {out / 'results.json'}. What to try next:\n"
        f"  bidibeam chat {out / 'run'}                                   talk to it\n"
        f"  echo 'how are you?' | bidibeam decode {out / 'run'} --beam-size 50 --n-best beams.jsonl\n"
        f"  bidibeam decode {out / 'run'} {out / 'data/test.jsonl'} --direction reverse\n"
        "  bidibeam prepare tsv --source your-pairs.tsv --out data      use your own pairs\n"
        "  bidibeam prepare --help                                      and other corpora",
        highlight=False,
        soft_wrap=True,
    )
