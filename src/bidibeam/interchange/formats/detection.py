"""Which format a file is in: by its first lines, or else by how its name ends."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from bidibeam.errors import InputError
from bidibeam.interchange.formats import FORMATS
from bidibeam.interchange.lines import LineSource, name_of, numbered_lines

if TYPE_CHECKING:
    from collections.abc import Generator

    from bidibeam.interchange.formats import Format

LOOKED_AT = 200
"""Lines that are looked at: a decoder may have begun with its log."""


def format_of(source: LineSource, *, has_count: bool = False) -> str:
    """The name of the format that a file is in.

    Lines decide where they can only be of one format, otherwise the ending. Text can be anything: it is
    flat text if it is known how many lines a source has. A file without lines has no lists in any format.

    Args:
        source: The file, or a stream that can be read again afterwards.
        has_count: Whether it is known how many hypotheses every source has.

    Raises:
        InputError: If it cannot be read, or cannot be told.
    """
    lines = _first_lines(source)
    classes = {name: cast("type[Format]", FORMATS.get(name)) for name in FORMATS.names()}
    by_ending = _by_ending(name_of(source))
    candidates = [
        *(name for name, kind in classes.items() if kind.looks_like(lines)),
        *(name for name in by_ending if has_count or name != "mbrs"),
        *(["jsonl"] if not lines or lines[0].lstrip().startswith("{") else []),
        *(["mbrs"] if has_count else []),
    ]
    if not candidates:
        raise InputError(
            f"{name_of(source)}: neither its name nor its first lines tell what format this is. Say it by "
            f"--from: {', '.join(classes)}; flat text, mbrs, needs --per-source N too."
        )
    return candidates[0]


def format_for(name: str) -> str:
    """The name of the format that a file is to be written in, by its ending.

    Raises:
        InputError: If no format has that ending.
    """
    found = _by_ending(name)
    if not found:
        raise InputError(
            f"{name}: its name does not tell in what format to write it. Say it by --to: "
            f"{', '.join(FORMATS.names())}."
        )
    return found[0]


def _by_ending(name: str) -> list[str]:
    path = PurePath(name)
    ending = PurePath(path.stem).suffix if path.suffix in (".gz", ".xz") else path.suffix
    return [each for each in FORMATS.names() if ending in cast("type[Format]", FORMATS.get(each)).endings]


def _first_lines(source: LineSource) -> list[str]:
    numbered = cast("Generator[tuple[int, str]]", numbered_lines(source))
    with closing(numbered):
        return list(islice((line for _, line in numbered if line.strip()), LOOKED_AT))
