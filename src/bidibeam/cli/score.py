"""`bidibeam score`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import Any

import click

from bidibeam.cli import options
from bidibeam.cli.console import format_count, tell, track
from bidibeam.cli.inputs import load_model, note_unknown, take_lists
from bidibeam.cli.output import check_not_input, write_lists
from bidibeam.cli.sharing import take_places
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
@options.processes
@options.devices
@options.loading
@options.device_map
def score(
    input_file: str,
    model: str | None,
    direction: str | None,
    out_file: str,
    *,
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
    from bidibeam.api.recipes import ModelRecipe, ScorerRecipe
    from bidibeam.search.settings import SearchSettings

    settings = SearchSettings(length_penalty=length_penalty)  # which refuses what is no exponent
    places = take_places(flags)
    loading = {name: flags.pop(name) for name in ("device", "dtype", "trust_remote_code", "device_map")}
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

    places.use_threads()
    loaded = load_model(model, **loading)
    directions = loaded.directions if direction is None else (Direction(direction),)
    source = ModelRecipe(model, options=loading, threads=places.threads)
    recipe = ScorerRecipe(source, directions, length_formula, settings.length_penalty, overwrite)
    scorer = recipe.make(loaded)
    began = time.perf_counter()
    with places.share(lambda each: scorer.score_batches(each, batch_size), recipe, batch_size) as share:
        scored = chain.from_iterable(map(scorer.collect, share(lists)))
        write_lists(create_format("jsonl", {}), track(scored, len(lists), "scoring"), out_file)
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
