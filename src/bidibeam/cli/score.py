"""`bidibeam score`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.lists import (
    DIRECTION_HELP,
    DIRECTIONS,
    file_options,
    from_option,
    list_reader,
    reverse_option,
)
from bidibeam.cli.options import device_option

if TYPE_CHECKING:
    from bidibeam.api.scoring import ListScorer
    from bidibeam.hypotheses import Beams
    from bidibeam.interchange.lists import ListReader

BATCH_SIZE = 32


@click.command()
@click.argument("input_file", metavar="FILE")
@click.option(
    "--model",
    metavar="MODEL",
    help="Who scores: a run, a Hugging Face model's folder or its name on the Hub, a CTranslate2 folder.  "
    "[default: the small model that comes with bidibeam]",
)
@click.option(
    "--direction",
    type=DIRECTIONS,
    help="The only direction of the model that scores; or what a Hugging Face model is whose config does not "
    "say.  [default: all that it has]",
)
@click.option(
    "-o", "--out", "out_file", metavar="OUT", default="-", help="Where to; - is stdout.  [default: -]"
)
@click.option("--overwrite", is_flag=True, help="Replace the numbers that are there already, too.")
@click.option(
    "--length-penalty",
    type=float,
    default=0.6,
    show_default=True,
    help="Exponent a of the formula by which a log-probability becomes a score.",
)
@click.option(
    "--length-formula",
    type=click.Choice(["gnmt", "power"]),
    default="gnmt",
    show_default=True,
    help="What it is divided by: (5+|Y|)^a / 6^a, the paper's; or |Y|^a, Hugging Face's.",
)
@from_option
@reverse_option
@click.option("--list-direction", type=DIRECTIONS, help=DIRECTION_HELP)
@file_options
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=BATCH_SIZE,
    show_default=True,
    help="Sources scored at once.",
)
@device_option
def score(
    input_file: str,
    model: str | None,
    direction: str | None,
    out_file: str,
    device: str | None,
    *,
    overwrite: bool,
    length_penalty: float,
    length_formula: str,
    batch_size: int,
    **flags: Any,
) -> None:
    """Add a model's log-probabilities to n-best lists from anywhere.

    FILE is a file of lists in any format that `bidibeam convert` reads, or - for stdin; OUT gets JSON lines
    (docs/nbest.md). The model's own direction decides what it adds: to a list that was written in the same
    direction "log_prob", "score" and the "length" between them, to a list of the other direction
    "other_log_prob". So a reverse model completes regular lists for `bidibeam rerank --strategy bidis`, which
    then needs no model. Texts are tokenised by the model's own tokenizer; the end token counts. Numbers that
    are there already stay, unless --overwrite. Nothing is written unless all of it can be.

    \b
    bidibeam score beams.jsonl --model bart-reverse --out scored.jsonl
    bidibeam score marian.nbest --sources test.src --model runs/first --out scored.jsonl
    bidibeam score - --model facebook/bart-base --direction regular < lists.jsonl > scored.jsonl
    """  # noqa: D301
    from bidibeam.cli.console import track
    from bidibeam.cli.models import ModelChoice
    from bidibeam.cli.output import check_not_input, write_lists
    from bidibeam.errors import SettingsError
    from bidibeam.hypotheses import Direction
    from bidibeam.interchange.formats import create_format, settings_of
    from bidibeam.search.settings import SearchSettings

    settings = SearchSettings(length_penalty=length_penalty)  # which refuses what is no exponent
    flags["direction"] = flags.pop("list_direction")
    reader = list_reader(input_file, flags, known=("direction",))
    check_not_input(out_file, reader.files)
    if "direction" in reader.settings and "direction" not in settings_of(reader.format_name):
        raise SettingsError(
            f"The format {reader.format_name} says itself whose its lists are: leave out --list-direction."
        )
    lists = list(track(_check_sources(reader, input_file), None, "reading", lines=reader.first_file))

    from bidibeam.api.scoring import ListScorer  # brings PyTorch, which takes seconds to load
    from bidibeam.search.length import LENGTH_PENALTIES

    loaded = ModelChoice(model, None, device, None, trust_remote_code=False).load()
    directions = loaded.directions if direction is None else (Direction(direction),)
    penalty = LENGTH_PENALTIES.create(length_formula, settings.length_penalty)
    scorer = ListScorer(loaded, directions, penalty, overwrite=overwrite)
    began = time.perf_counter()
    scored = track(scorer.score(lists, batch_size), len(lists), "scoring")
    write_lists(create_format("jsonl", {}), scored, out_file)
    _tell(scorer, len(lists), time.perf_counter() - began)


def _check_sources(reader: ListReader, name: str) -> Iterator[Beams]:
    """The lists, as long as each has a source; all are read before a model is loaded."""
    from bidibeam.errors import InputError

    is_empty = True
    for _, beams in reader:
        is_empty = False
        if not beams.source.strip():
            raise InputError(
                f"{name}: the list with the id {beams.id!r} has no source, and a model reads that first; "
                "give the sources by --sources FILE."
            )
        yield beams
    if is_empty:
        raise InputError(f"{name} holds no lists, so there is nothing to score.")


def _tell(scorer: ListScorer, sources: int, took_s: float) -> None:
    """Say what was added, on stderr."""
    from bidibeam.cli.console import console, counted

    told = [
        f"{' and '.join(names)} of {number:,} {direction.value} hypothes{'is' if number == 1 else 'es'}"
        for (direction, names), number in scorer.written.items()
    ]
    models = " and ".join(f"{scorer.label} ({direction.value})" for direction in scorer.directions)
    sentence = f"{counted(sources, 'source')} in {took_s:.1f} s: {', '.join(told)}, by {models}."
    if not told:
        sentence = f"Nothing was missing that {models} could add; --overwrite replaces what is there."
    console.print(sentence, style="dim", soft_wrap=True)
