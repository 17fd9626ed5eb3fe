"""What one file has not: the other direction, the sources, the references, out of other files."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Literal

from bidibeam.data import words
from bidibeam.errors import InputError
from bidibeam.hypotheses import Direction, NBest
from bidibeam.interchange.lines import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bidibeam.hypotheses import Beams

Numbered = tuple[int, "Beams"]


def joined(
    regular: Iterable[Numbered],
    reverse: Iterable[Numbered],
    *,
    names: tuple[str, str],
    compare_sources: bool = True,
) -> Iterator[Numbered]:
    """Regular lists with the reverse lists of the same sources, in the order of the regular ones.

    Where both files are in the same order, one source is in memory at a time.

    Args:
        regular: Regular lists, with the numbers of their lines.
        reverse: Reverse lists.
        names: What messages call the two files.
        compare_sources: Whether sources that both files give must be the same.

    Raises:
        InputError: If the two have not the same ids, or one has the lists that the other should have.
    """
    waiting: dict[str, Numbered] = {}
    rest = iter(reverse)
    for number, beams in regular:
        while beams.id not in waiting:
            other = next(rest, None)
            if other is None:
                raise _lacks(beams.id, number, names)
            waiting[other[1].id] = other
        line, found = waiting.pop(beams.id)
        places = (f"{names[0]}, line {number}", f"{names[1]}, line {line}")
        yield number, _join(beams, found, places, compare_sources=compare_sources)
    for line, found in chain(waiting.values(), rest):
        raise _lacks(found.id, line, names[::-1])


def filled(
    lists: Iterable[Numbered],
    lines: Sequence[str],
    what: Literal["source", "reference"],
    *,
    names: tuple[str, str],
) -> Iterator[Numbered]:
    """Lists with their sources, or references, from another file, line n for the nth source.

    Args:
        lists: The lists, with the numbers of their lines.
        lines: The sources or references.
        what: Which of the two they are.
        names: What messages call the file of lists and that of lines.

    Raises:
        InputError: If there are more of the one than of the other.
    """
    count = 0
    for number, beams in lists:
        count += 1
        if count <= len(lines):
            text = lines[count - 1]
            yield number, replace(beams, source=text) if what == "source" else replace(beams, reference=text)
    if count != len(lines):
        raise InputError(
            f"{names[1]} has {len(lines)} {what}{'' if len(lines) == 1 else 's'}, but {names[0]} has lists "
            f"for {count}. There must be one for each of them, in the same order."
        )


def in_words(lists: Iterable[Numbered]) -> Iterator[Numbered]:
    """The same lists with the words of the texts as tokens, whatever tokens there were."""
    for number, beams in lists:
        regular, reverse = (
            NBest(tuple(each._replace(tokens=tuple(words.split(each.text))) for each in beams.of(direction)))
            for direction in Direction
        )
        yield number, replace(beams, regular=regular, reverse=reverse)


def _lacks(id_: str, number: int, names: tuple[str, str]) -> InputError:
    return InputError(
        f"{names[1]} has no source with the id {id_!r}, but {names[0]} has, on line {number}. "
        "Both must have the same sources, by id."
    )


def _join(regular: Beams, reverse: Beams, places: tuple[str, str], *, compare_sources: bool) -> Beams:
    if regular.reverse:
        raise InputError(f"{places[0]}: source {regular.id!r} has reverse hypotheses already.")
    if reverse.regular:
        raise InputError(
            f"{places[1]}: source {reverse.id!r} has regular hypotheses, but this file should have reverse "
            "ones only."
        )
    if compare_sources and regular.source and reverse.source and regular.source != reverse.source:
        raise InputError(
            f"{places[0]}: the source is {describe(regular.source)}, but that of {places[1]}, with the same "
            f"id, is {describe(reverse.source)}. If they belong together, give the sources in a "
            "file of their own."
        )
    return replace(
        regular,
        source=regular.source or reverse.source,
        reference=reverse.reference if regular.reference is None else regular.reference,
        reverse=reverse.reverse,
    )
