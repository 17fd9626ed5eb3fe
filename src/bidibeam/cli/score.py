"""`bidibeam score`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from bidibeam.cli import options
from bidibeam.cli.console import format_count, tell, track
from bidibeam.cli.inputs import load_model, note_unknown, take_lists
from bidibeam.cli.output import check_not_input, write_lists
from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange.formats import create_format, settings_of
from bidibeam.interchange.lists import ListReader


@click.command()
@click.argument("input_file", metavar="FILE")
@options.option(
    "--model",
    "Who scores: a run, a Hugging Face model's folder or its name on the Hub, a CTranslate2 folder.  "
    "[default: the small model that comes with bidibeam]",
    "MODEL",
)
@options.option(
    "--direction",
    "The only direction of the model that scores; or what a Hugging Face model is whose config does not say. "
    " [default: all that it has]",
    options.DIRECTION,
)
@options.out
@options.option("--overwrite", "Replace the numbers that are there already, too.", bool)
@options.length
@options.lists
@options.option("--list-direction", options.LIST_DIRECTION, options.DIRECTION)
@options.option("--batch-size", "Sources scored at once.", options.COUNT, 32)
@options.loading
@options.device_map
def score(
    input_file: str,
    model: str | None,
    direction: str | None,
    out_file: str,
    *,
    device: str | None,
    dtype: str | None,
    trust_remote_code: bool,
    device_map: str | None,
    overwrite: bool,
    length_penalty: float,
    length_formula: str,
    batch_size: int,
    **flags: Any,
) -> None:
    """Add a model's log-probabilities to n-best lists from anywhere.

    FILE is a file of lists in any format that `bidibeam convert` reads, or - for stdin; --out gets JSON lines
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
    from bidibeam.api.scoring import ListScorer
    from bidibeam.search.length import LENGTH_PENALTIES
    from bidibeam.search.settings import SearchSettings

    settings = SearchSettings(length_penalty=length_penalty)  # which refuses what is no exponent
    flags["direction"] = flags.pop("list_direction")
    reader = take_lists(input_file, flags, known=("direction",))
    check_not_input(out_file, reader.files)
    if "direction" in reader.settings and "direction" not in settings_of(reader.format_name):
        raise SettingsError(
            f"The format {reader.format_name} says itself whose its lists are: leave out --list-direction."
        )
    lists = list(track(_check_sources(reader), None, "reading", lines=reader.first_file))
    if not lists:
        raise InputError(f"{input_file} holds no lists, so there is nothing to score.")

    loaded = load_model(
        model, device=device, dtype=dtype, trust_remote_code=trust_remote_code, device_map=device_map
    )
    directions = loaded.directions if direction is None else (Direction(direction),)
    penalty = LENGTH_PENALTIES.create(length_formula, settings.length_penalty)
    scorer = ListScorer(loaded, directions, penalty, overwrite=overwrite)
    began = time.perf_counter()
    scored = track(scorer.score(lists, batch_size), len(lists), "scoring")
    write_lists(create_format("jsonl", {}), scored, out_file)
    took_s = time.perf_counter() - began
    told = [
        f"{' and '.join(names)} of {number:,} {written.value} hypothes{'is' if number == 1 else 'es'}"
        for (written, names), number in scorer.written.items()
    ]
    models = " and ".join(f"{scorer.label} ({each.value})" for each in scorer.directions)
    if told:
        tell(f"{format_count(len(lists), 'source')} in {took_s:.1f} s: {', '.join(told)}, by {models}.")
    else:
        tell(f"Nothing was missing that {models} could add; --overwrite replaces what is there.")
    is_unknown = loaded.find_unknown([beams.source for beams in lists])
    pairs = zip(lists, is_unknown, strict=True)
    note_unknown({f"source {beams.id}": beams.source for beams, is_so in pairs if is_so}, "sources")
    note_unknown(scorer.unknown, "hypotheses")


def _check_sources(reader: ListReader) -> Iterator[Beams]:
    """The lists, as long as each has a source; all are read before a model is loaded."""
    for beams in reader:
        if not beams.source.strip():
            raise InputError(
                f"{reader.input_file}: the list with the id {beams.id!r} has no source, and a model reads "
                "that first; give the sources by --sources FILE."
            )
        yield beams
