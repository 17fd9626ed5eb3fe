"""What to answer: sources from lines of text, or from JSON lines with ids and references."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams
from bidibeam.interchange.lines import LineSource, describe, name_of, numbered_lines, parse_object

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_sources(source: LineSource) -> Iterator[Beams]:
    """Sources to answer, one at a time, in order, with no hypotheses yet.

    A file whose name ends in .jsonl (or .jsonl.gz, .jsonl.xz) holds an object a line, `{"source"}`, and
    where there is one "id" and "reference". Anything else is text, one source a line; a blank line is an
    empty source, so that line n of the answers belongs to line n of the input. A source without an id has
    its line number for one.

    Raises:
        InputError: With file and line, if it is not UTF-8, or not such an object.
    """
    is_json = is_jsonl(name_of(source))
    for number, line in numbered_lines(source):
        if not is_json:
            yield Beams(id=str(number), source=line)
        elif line.strip():
            place = f"{name_of(source)}, line {number}"
            yield _from_object(parse_object(line, place), number, place)


def is_jsonl(name: str) -> bool:
    """Whether a name says that the file holds JSON lines."""
    path = Path(name)
    return (path.stem if path.suffix in (".gz", ".xz") else path.name).endswith(".jsonl")


def _from_object(value: dict[str, Any], number: int, place: str) -> Beams:
    identifier = number if value.get("id") is None else value["id"]
    if type(identifier) not in (str, int):
        raise InputError(
            f'{place}: "id" must be a string or a whole number, received {describe(identifier)}.'
        )
    if "source" not in value:
        raise InputError(f'{place}: the field "source" is missing; it must be a string.')
    reference = value.get("reference")
    for key, text in (("source", value["source"]), ("reference", reference)):
        if not isinstance(text, str) and not (key == "reference" and text is None):
            raise InputError(f'{place}: "{key}" must be a string, received {describe(text)}.')
    return Beams(id=str(identifier), source=value["source"], reference=reference)
