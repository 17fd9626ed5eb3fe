"""References for what was read: those of a file, or those that the n-best lines bring along."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bidibeam.cli.inputs import Input


def with_references(inputs: Sequence[Input], references_file: str | None) -> list[Input]:
    """The same with a reference for every source: those of a file, or else those of the n-best lines.

    Raises:
        InputError: If one is missing, or all are empty; if there are not as many as replies, or if the
            inputs' sources differ.
    """
    lists = [each for each in inputs if each.has_lists]
    for each in inputs:
        _check_counts((inputs[0].file, len(inputs[0].beams)), (each.file, len(each.beams)))
    for each in lists:
        _check_same("source", each, lists[0])
    if references_file is None:
        references = _own_references(inputs[0].file, lists)
    else:
        references = _read_references(references_file)
        _check_counts(
            (inputs[0].file, len(inputs[0].beams)), (references_file, len(references)), "references"
        )
    _check_words(references_file or lists[0].file, references)
    return [
        replace(
            each,
            beams=[
                replace(beams, reference=reference)
                for beams, reference in zip(each.beams, references, strict=True)
            ],
        )
        for each in inputs
    ]


def _read_references(file: str) -> list[str]:
    from bidibeam.errors import InputError
    from bidibeam.interchange import replies

    references = replies.read_references(replies.whole(sys.stdin.buffer if file == "-" else Path(file)))
    if not references:
        raise InputError(f"{file} is empty; it must hold one reference for each reply.")
    return references


def _own_references(file: str, lists: Sequence[Input]) -> list[str]:
    """Those that the n-best files bring along; it is enough if one of them has a source's."""
    from bidibeam.errors import InputError

    if not lists:
        raise InputError(f"{file} holds replies and no references: give --references FILE, one a line.")
    for each in lists:
        _check_same("reference", each, lists[0])
    references = []
    for index, lines in enumerate(zip(*(each.beams for each in lists), strict=True)):
        found = next((beams.reference for beams in lines if beams.reference is not None), None)
        if found is None:
            raise InputError(
                f'{lists[0].place(index)}: source {lines[0].id!r} has no "reference", so its reply cannot be '
                "scored. Add it, or give --references FILE."
            )
        references.append(found)
    return references


def _check_words(file: str, references: Sequence[str]) -> None:
    """Refuse references without a single word among them; some of them may be empty."""
    from bidibeam.data.words import split
    from bidibeam.errors import InputError

    if not any(map(split, references)):
        raise InputError(
            f"Every reference of {file} is empty, so there is nothing to score replies by. Give --references "
            "FILE, one a line."
        )


def _check_counts(one: tuple[str, int], other: tuple[str, int], what: str = "replies") -> None:
    from bidibeam.cli.console import counted
    from bidibeam.errors import InputError

    if one[1] != other[1]:
        theirs = counted(other[1], "reply" if what == "replies" else what.removesuffix("s"), what)
        raise InputError(
            f"{one[0]} has {counted(one[1], 'reply', 'replies')}, but {other[0]} has {theirs}; line n of "
            "each must belong to the same source."
        )


def _check_same(key: str, one: Input, other: Input) -> None:
    """Refuse n-best files of which a source or reference differs; what is not said cannot differ."""
    from bidibeam.errors import InputError

    for index, (ours, theirs) in enumerate(zip(one.beams, other.beams, strict=True)):
        here, there = getattr(ours, key), getattr(theirs, key)
        if here and there and here != there:
            raise InputError(
                f"{one.place(index)}: its {key} is {here!r}, but {other.place(index)} has {there!r}. Systems "
                "are compared on the same sources in the same order."
            )
