"""Replies that were chosen already, and references to compare them with: as text, or in JSON lines."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bidibeam.data import words
from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange import nbest
from bidibeam.interchange.fields import nullable
from bidibeam.interchange.lines import (
    LineSource,
    describe,
    has_ending,
    name_of,
    numbered_lines,
    parse_object,
)
from bidibeam.interchange.sources import columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Reply(NamedTuple):
    """One source's reply, as a file holds it.

    Attributes:
        number: The number of its line.
        beams: The source, and the reply as its only hypothesis; none where nothing was found.
        found: How many hypotheses there were to choose from; 0 where nobody knows.
        signature: How it was chosen, where the file says so.
    """

    number: int
    beams: Beams
    found: int = 0
    signature: str | None = None


def whole(source: LineSource) -> io.StringIO:
    """All text of a file or a pipe, unpacked, to be read more than once under the same name.

    Raises:
        InputError: If it cannot be read, or is not UTF-8.
    """
    stream = io.StringIO("".join(f"{line}\n" for _, line in numbered_lines(source)), newline="\n")
    stream.name = name_of(source)
    return stream


def is_nbest(stream: io.StringIO) -> bool:
    """Whether a file holds n-best lists: by its ending, .jsonl, or by its first object."""
    return _has_objects(stream, *Direction)


def read_replies(stream: io.StringIO) -> Iterator[Reply]:
    """The replies that a file holds, in order.

    A line of text is a reply, a blank one an empty reply. Of n-best lists it is the first of the ranking that
    stands beside them or else, where nothing has ranked them, the first regular hypothesis.

    Raises:
        InputError: With file and line, if it does not fit, or was ranked otherwise than the first line.
    """
    has_lists, first = is_nbest(stream), None
    for number, line in _lines(stream):
        if not has_lists:
            yield Reply(number, Beams(str(number), "", regular=_said(line)))
        elif line.strip():
            place = f"{stream.name}, line {number}"
            reply = _from_object(parse_object(line, place), number, place)
            first = first or reply
            if reply.signature != first.signature:
                raise InputError(
                    f"{place}: its replies were ranked by {reply.signature or 'nothing'}, but those of line "
                    f"{first.number} by {first.signature or 'nothing'}. Give each system a file of its own."
                )
            yield reply


def read_references(stream: io.StringIO) -> list[str]:
    """What people answered: a line of text each, or the "reference" (or "response") of an object a line.

    Of a file whose name ends in .tsv (or .tsv.gz, .tsv.xz) it is the second column, as where sources are
    read.

    Raises:
        InputError: With file and line, if one is missing, or a line of text holds a tab.
    """
    if has_ending(stream.name, ".tsv"):
        return [_second_column(line, f"{stream.name}, line {number}") for number, line in _lines(stream)]
    if not _has_objects(stream, "reference", "response"):
        number = first_tab(stream)
        if number is not None:
            raise InputError(
                f"{stream.name}, line {number} holds a tab, so it may be more than a reference. Of a file "
                "whose name ends in .tsv the second column is read; otherwise give the references alone: "
                "cut -f2 takes them out of a table."
            )
        return [line for _, line in _lines(stream)]
    references = []
    for number, line in _lines(stream):
        if line.strip():
            place = f"{stream.name}, line {number}"
            value = parse_object(line, place)
            key = "reference" if "reference" in value else "response"
            found = nullable(value, key, str, place)
            if found is None:
                raise InputError(f'{place}: there is no "reference".')
            references.append(found)
    return references


def first_tab(stream: io.StringIO) -> int | None:
    """The number of the first line that holds a tab, if one does."""
    return next((number for number, line in _lines(stream) if "\t" in line), None)


def model_of(source: LineSource) -> str | None:
    """The model that wrote an n-best file, as the ranking on its first line says; None where it does not.

    Raises:
        InputError: If the file cannot be read.
    """
    if isinstance(source, io.StringIO):
        source.seek(0)
    first = next((line for _, line in numbered_lines(source) if line.strip()), "")
    try:
        facts = json.loads(first)["ranking"]["signature"].split("|")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
    return next((value for key, _, value in (fact.partition(":") for fact in facts) if key == "model"), None)


def _second_column(line: str, place: str) -> str:
    reference = columns(line)[1]
    if reference is None:
        raise InputError(
            f"{place}: there is no tab, and of a .tsv file the reference is the second column. Add it, or "
            "name the file .txt if it holds references alone."
        )
    return reference


def _lines(stream: io.StringIO) -> Iterator[tuple[int, str]]:
    stream.seek(0)
    return numbered_lines(stream)


def _has_objects(stream: io.StringIO, *keys: str) -> bool:
    """Whether a file's name says that it holds JSON, or its first line is an object with one of the keys."""
    if ".jsonl" in Path(stream.name).suffixes[-2:]:
        return True
    first = next((line for _, line in _lines(stream) if line.strip()), "")
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and any(key in value for key in keys)


def _from_object(value: dict[str, Any], number: int, place: str) -> Reply:
    lists = {direction.value: value.get(direction) for direction in Direction}
    firsts = {key: items[:1] if isinstance(items, list) else items for key, items in lists.items()}
    beams = nbest.from_object({**value, **firsts}, number, place)  # what is not asked for need not be read
    found = sum(len(items) for items in lists.values() if items is not None)
    if value.get("ranking") is None:
        return Reply(number, beams.with_hypotheses(Direction.REVERSE, NBest()), found)
    regular, signature = _first_of(value["ranking"], place)
    return Reply(number, Beams(beams.id, beams.source, beams.reference, regular), found, signature)


def _first_of(ranking: object, place: str) -> tuple[NBest, str]:
    """The reply that a ranking begins with, and the ranking's signature."""
    if not isinstance(ranking, dict):
        raise InputError(f'{place}: "ranking" must be an object, received {describe(ranking)}.')
    signature = nullable(ranking, "signature", str, place) or "an unknown strategy"
    replies: list[object] = nullable(ranking, "replies", list, place) or []
    if not replies:
        return NBest(), signature
    first: Mapping[str, Any] = replies[0] if isinstance(replies[0], dict) else {}
    text = nullable(first, "text", str, place)
    if text is None:
        raise InputError(f'{place}: the first of "replies" in its "ranking" has no "text".')
    return _said(text), signature


def _said(text: str) -> NBest:
    tokens = tuple(words.split(text))
    return NBest((Hypothesis(text, tokens, None, len(tokens) + 1, None),))
