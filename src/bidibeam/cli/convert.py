"""`bidibeam convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bidibeam.cli import options
from bidibeam.cli.console import format_count, note, show, tell
from bidibeam.cli.inputs import take_lists
from bidibeam.cli.output import check_not_input, write_lists
from bidibeam.hypotheses import Direction
from bidibeam.interchange.formats import (
    FORMATS,
    OF_HYPOTHESES,
    OF_SOURCES,
    create_format,
    format_for,
    settings_of,
)
from bidibeam.interchange.lists import Conversion

WRITTEN = {"direction", "per_source"}
"""Settings that say something of what is written too."""


@click.command()
@click.argument("input_file", metavar="INPUT")
@options.lists
@options.directions
@options.option("--ranked", "jsonl: the order and scores of the ranking, not of the search.", bool)
@options.option(
    "--to to_format",
    f"How to write them: {', '.join(FORMATS.names())}.  [default: as the ending of --out tells; jsonl]",
    "FORMAT",
)
@options.out
def convert(input_file: str, to_format: str | None, out_file: str, **flags: Any) -> None:
    """Read and write n-best lists as other tools do.

    INPUT is a file, plain, .gz or .xz, or - for stdin: our own JSON lines (jsonl), Moses n-best lists
    (moses), the output of fairseq-generate (fairseq), flat text with N lines per source (mbrs) or responses
    of the OpenAI API with `n` choices (openai). All but ours hold one list per source, that of the regular
    direction unless --direction says otherwise. docs/nbest.md tells what each can carry. Nothing is written
    unless all of it can be.

    \b
    bidibeam convert marian.nbest --log-prob F0 --sources test.src -o lists.jsonl
    bidibeam convert l2r.out --reverse r2l.out -o lists.jsonl.gz
    bidibeam convert lists.jsonl --to mbrs > hypotheses.txt
    bidibeam convert ranked.jsonl --ranked -o ranked.nbest
    """  # noqa: D301
    name = to_format or ("jsonl" if out_file == "-" else format_for(out_file))
    known = settings_of(name) & WRITTEN
    reader = take_lists(input_file, flags, known=known, allow_empty=True)
    check_not_input(out_file, reader.files)
    settings = {key: value for key, value in reader.settings.items() if key in known}
    target = create_format(name, settings)
    direction = settings.get("direction", Direction.REGULAR) if "direction" in known else None
    conversion = Conversion(direction, dropped={*OF_SOURCES, *OF_HYPOTHESES} - {*target.carries})
    is_there = out_file != "-" and Path(out_file).is_file()
    write_lists(target, conversion.count(reader), out_file)
    hypotheses = format_count(conversion.hypotheses, "hypothesis", "hypotheses")
    tell(f"{format_count(conversion.sources, 'source')}, {hypotheses}, from {reader.format_name} to {name}.")
    count = conversion.other_direction
    if conversion.direction is not None and count:
        other = conversion.direction.other.value
        show(
            f"Note: {count:,} of the sources {'has' if count == 1 else 'have'} {other} hypotheses too, but "
            f"{name} holds one list per source; --direction {other} writes those.",
            style="dim",
        )
    lost = [key for key in (*OF_SOURCES, *OF_HYPOTHESES) if key in conversion.lost]
    if lost:
        last = f"{', '.join(lost[:-1])} and {lost[-1]}" if len(lost) > 1 else lost[0]
        note(f"{name} has no place for {last}; that was dropped.")
    if is_there:
        tell(f"Replaced {out_file}, which was there already.")
