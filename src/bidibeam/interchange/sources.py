"""What to answer: sources from lines of text, or from JSON lines with ids and references."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams
from bidibeam.interchange.fields import field, identifier, nullable
from bidibeam.interchange.lines import LineSource, has_ending, name_of, numbered_lines, parse_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def read_sources(source: LineSource) -> Iterator[Beams]:
    """Sources to answer, one at a time, in order, with no hypotheses yet.

    A file whose name ends in .jsonl (or .jsonl.gz, .jsonl.xz) holds an object a line, `{"source"}`, and
    where there is one "id" and "reference" (or "response", as in training data). One that ends in .tsv has
    the source and its reference in the first two columns. Anything else is text, one source a line; a blank
    line is an empty source, so that line n of the answers belongs to line n of the input. A source without
    an id has its line number for one. A stream has no ending: it holds objects if its first line is one with
    a "source".

    Raises:
        InputError: With file and line, if it is not UTF-8, or not such an object.
    """
    is_json, is_tsv = (has_ending(name_of(source), ending) for ending in (".jsonl", ".tsv"))
    for number, line in numbered_lines(source):
        if number == 1 and not isinstance(source, Path):
            is_json = is_json or _is_source(line)
        if is_tsv:
            text, reference = columns(line)
            yield Beams(id=str(number), source=text, reference=reference or None)
        elif not is_json:
            yield Beams(id=str(number), source=line)
        elif line.strip():
            place = f"{name_of(source)}, line {number}"
            yield _from_object(parse_object(line, place), number, place)


def columns(line: str) -> tuple[str, str | None]:
    """The source and the reference on a line of a table: its first two columns; None if it has but one."""
    source, *more = line.split("\t")
    return source, more[0] if more else None


def with_distinct_ids(sources: Iterable[Beams]) -> Iterator[Beams]:
    """The same sources, as long as no two have the same id: an n-best file could not tell them apart.

    Raises:
        InputError: At the second one.
    """
    seen: set[str] = set()
    for beams in sources:
        if beams.id in seen:
            raise InputError(
                f"The id {beams.id!r} is that of two sources, and an n-best file must tell them apart. Give "
                "each its own, or none: then its line number is its id."
            )
        seen.add(beams.id)
        yield beams


def _is_source(line: str) -> bool:
    """Whether a line is a JSON object with a source in it."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(value.get("source"), str)


def _from_object(value: dict[str, Any], number: int, place: str) -> Beams:
    return Beams(
        id=identifier(value, number, place),
        source=field(value, "source", str, place),
        reference=nullable(value, "reference" if "reference" in value else "response", str, place),
    )
