"""Reads what commands are given: sources, references and replies, as text, tables or JSON lines."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from bidibeam.data import words
from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, NBest
from bidibeam.interchange.formats import create_format, make_hypothesis, recognise_format
from bidibeam.interchange.nbest import parse_beams
from bidibeam.interchange.on_disk import IdsOnDisk, OnDisk
from bidibeam.interchange.text_lines import (
    JsonObject,
    Lines,
    LineSource,
    guess_object,
    has_ending,
    open_lines,
)
from bidibeam.scores import Signature
from bidibeam.strategies.ranking import check_requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bidibeam.protocols import Requirements


def read_sources(source: LineSource, *, skip_blank: bool = True) -> Iterator[Beams]:
    """Sources to answer, one at a time, in order, with no hypotheses yet.

    A file whose name ends in .jsonl (or .jsonl.gz, .jsonl.xz) holds an object a line, `{"source"}`, and
    where there is one "id" and "reference" (or "response", as in training data). One that ends in .tsv has
    the source and its reference in the first two columns. Anything else is text, one source a line; a blank
    line is an empty source, so that line n of the answers belongs to line n of the input. A source without
    an id has its line number for one. What has no ending, such as a stream, holds objects if its first line
    is one with a "source": the first that is not blank or, if `skip_blank` is False, so that no line is read
    ahead, the very first.
    """
    lines = open_lines(source)
    is_json = has_ending(lines.name, ".jsonl")
    if not PurePath(lines.name).suffix:
        is_json = isinstance(guess_object(lines.peek(skip_blank=skip_blank)).get("source"), str)
    if is_json:
        for entry in lines.objects():
            yield parse_source(entry)
        return
    is_table = has_ending(lines.name, ".tsv")
    for number, line in lines:
        text, *columns = line.split("\t") if is_table else [line]
        yield Beams(str(number), text, references=(columns[0],) if columns and columns[0] else ())


def parse_source(entry: JsonObject) -> Beams:
    """The source that an object holds; the number of its line is its id if it has no other."""
    return Beams(entry.get_id(), entry.require("source", str), _get_references(entry))


def with_distinct_ids(sources: Iterable[Beams]) -> Iterator[Beams]:
    """The same sources, as long as no two have the same id: an n-best file could not tell them apart."""
    ids = IdsOnDisk()
    for beams in sources:
        if ids.find_earlier(beams.id, beams.line) is not None:
            raise InputError(
                f"The id {beams.id!r} is that of two sources, and an n-best file must tell them apart. Give "
                "each its own, or none: then its line number is its id."
            )
        yield beams


def read_references(source: LineSource) -> Iterator[tuple[str, ...]]:
    """What people answered, source by source: a line of text each, or "reference" or "response" of an object.

    Of a file whose name ends in .tsv (or .tsv.gz, .tsv.xz) it is the second column, as where sources are
    read. A line that has none is refused, and so is a line of text with a tab.
    """
    lines = open_lines(source)
    is_table = has_ending(lines.name, ".tsv")
    if not is_table and _holds_objects(lines, "references", "reference", "response"):
        for entry in lines.objects():
            if not (references := _get_references(entry)):
                raise InputError(f'{entry.place}: there is no "reference".')
            yield references
        return
    for number, line in lines:
        place, columns = lines.place(number), line.split("\t")
        if is_table and len(columns) == 1:
            raise InputError(
                f"{place}: there is no tab, and of a .tsv file the reference is the second column. Add it, "
                "or name the file .txt if it holds references alone."
            )
        if not is_table and len(columns) > 1:
            raise InputError(
                f"{place} holds a tab, so it may be more than a reference. Of a file whose name ends in .tsv "
                "the second column is read; otherwise give the references alone: cut -f2 takes them out of a "
                "table."
            )
        yield (columns[1] if is_table else line,)


def _holds_objects(lines: Lines, *keys: str) -> bool:
    """Whether a file's name says that it holds JSON, or its first line is an object with one of the keys."""
    return has_ending(lines.name, ".jsonl") or any(key in guess_object(lines.peek()) for key in keys)


def _get_references(entry: JsonObject) -> tuple[str, ...]:
    return entry.get_references("reference" if "reference" in entry.fields else "response")


NOT_KNOWN = Signature(())


@dataclass(frozen=True)
class Replies:
    """A file of replies or n-best lists, read whole; what it does not say is 0, empty or None."""

    file: str
    beams: Sequence[Beams]  # with all hypotheses if those were asked for, or else the reply alone, on disk
    has_lists: bool  # whether it is an n-best file
    beam_size: int  # N_B
    signature: Signature  # how its replies came about
    written_by: Signature = NOT_KNOWN  # how its lists came about, as their first line says

    @property
    def weights(self) -> frozenset[str]:
        """The fingerprints of the networks that wrote the lists; none where that is not known."""
        return read_weights(self.written_by)

    def place(self, index: int) -> str:
        """What a message calls a source."""
        return f"{self.file}, line {self.beams[index].line}"

    def check(self, requirements: Requirements, strategy: str) -> None:
        """Refuse a source that has not what a strategy needs, with file and line."""
        for index, beams in enumerate(self.beams):
            try:
                check_requirements(beams, requirements, strategy)
            except InputError as error:
                raise InputError(f"{self.place(index)}: {error}") from error


def read_replies(file: str, *, whole_lists: bool = False) -> Replies:
    """Read a file of replies, - for stdin, with all hypotheses of n-best lists if `whole_lists`.

    A line of text is a reply, a blank one an empty reply. Of n-best lists it is the first of the ranking that
    stands beside them or else, where nothing has ranked them, the first regular hypothesis. A line that does
    not fit, or was ranked otherwise than the first one, is refused, and so is an empty file. Lists of other
    tools are told by their first lines.
    """
    digest = hashlib.blake2b()
    lines = open_lines(file, digest)
    has_objects = _holds_objects(lines, *Direction)
    foreign = None if has_objects else recognise_format(lines)
    has_lists = has_objects or foreign is not None
    written_by = read_signature(lines) if has_objects else NOT_KNOWN
    beam_size, ranked_by = 0, ""
    beams: Sequence[Beams]
    if not has_lists:
        beams = OnDisk(Beams(str(number), "", regular=_as_list(line), line=number) for number, line in lines)
    elif whole_lists:
        beams = list(create_format(foreign or "jsonl", {}).read(lines))
    elif foreign is not None:
        beams = firsts = OnDisk[Beams]()
        for each in create_format(foreign, {}).read(lines):
            firsts.add(replace(each, regular=NBest(each.regular.hypotheses[:1])))
            beam_size = max(beam_size, len(each.regular))
    else:
        beams, beam_size, ranked_by = _read_first_places(lines)
    if not beams:
        raise InputError(f"{file} is empty; it must hold one reply a line, or n-best lists.")
    name = f"{PurePath(file).name}@{digest.hexdigest()[:8]}"
    return Replies(
        file, beams, has_lists, beam_size, Signature.parse(ranked_by).extended(file=name), written_by
    )


def read_signature(lines: Lines) -> Signature:
    """How an n-best file came about, as the ranking on its first line says; empty where it does not."""
    try:
        return Signature.parse(guess_object(lines.peek())["ranking"]["signature"])
    except (KeyError, TypeError, AttributeError):
        return NOT_KNOWN


def read_weights(signature: Signature) -> frozenset[str]:
    """The fingerprints of the networks that a signature tells of."""
    weights = set((signature.get("model") or "").rpartition("@")[2].split("+"))  # AB, AB+CD, or NAME@AB
    for direction in Direction:
        name, at, fingerprint = (signature.get(direction) or "").rpartition("@")  # NAME@AB, or NAME alone
        if name and at:
            weights.add(fingerprint)
    return frozenset(weights - {""})


def _read_first_places(lines: Lines) -> tuple[OnDisk[Beams], int, str]:
    """The reply of each of n-best lists, the most hypotheses that one has, and what ranked them."""
    replies: OnDisk[Beams] = OnDisk()
    beam_size, ranked_by = 0, ""
    for entry in lines.objects():
        lists = {direction.value: entry.fields.get(direction) for direction in Direction}
        firsts = {key: items[:1] if isinstance(items, list) else items for key, items in lists.items()}
        beams = parse_beams(replace(entry, fields={**entry.fields, **firsts}))  # the others need not be read
        regular, signature = beams.regular, ""
        if entry.fields.get("ranking") is not None:
            regular, signature = _read_best(JsonObject(entry.require("ranking", dict), entry.place))
        if not replies:
            ranked_by = signature
        if signature != ranked_by:
            raise InputError(
                f"{entry.place}: its replies were ranked by {signature or 'nothing'}, but those of line "
                f"{replies[0].line} by {ranked_by or 'nothing'}. Give each system a file of its own."
            )
        replies.add(replace(beams, regular=regular, reverse=NBest()))
        beam_size = max(beam_size, sum(len(items) for items in lists.values() if items is not None))
    return replies, beam_size, ranked_by


def _read_best(ranking: JsonObject) -> tuple[NBest, str]:
    """The reply that a ranking begins with, and the ranking's signature."""
    signature = ranking.get("signature", str) or "an unknown strategy"
    replies: list[Any] = ranking.get("replies", list) or []
    if not replies:
        return NBest(), signature
    text = replies[0].get("text") if isinstance(replies[0], dict) else None
    if not isinstance(text, str):
        raise InputError(f'{ranking.place}: the first of "replies" in its "ranking" has no "text".')
    return _as_list(text), signature


def _as_list(text: str) -> NBest:
    return NBest((make_hypothesis(text),))


def with_references(files: Sequence[Replies], references_file: str | None = None) -> list[Replies]:
    """The same with a reference for every source: those of a file, or else those of the n-best lines.

    Refused if one is missing or all are empty, if there are not as many as replies, or if the files' sources
    differ.
    """
    first, lists = files[0], [each for each in files if each.has_lists]
    for each in files:
        _check_counts(first, each.file, len(each.beams), ("reply", "replies"))
    for each in lists[1:]:
        _check_same("source", each, lists[0])
    if references_file is None:
        references = OnDisk(_own_references(first.file, lists))
    else:
        references = OnDisk(read_references(references_file))
        if not references:
            raise InputError(f"{references_file} is empty; it must hold one reference for each reply.")
        _check_counts(first, references_file, len(references), ("reference", "references"))
    if not any(words.split(text) for texts in references for text in texts):
        raise InputError(
            f"Every reference of {references_file or lists[0].file} is empty, so there is nothing to score "
            "replies by. Give references_file, one a line."
        )
    completed = []
    for each in files:
        pairs = zip(each.beams, references, strict=True)
        keep: Any = type(each.beams)  # a list, or on disk
        with_them = keep(replace(beams, references=texts) for beams, texts in pairs)
        completed.append(replace(each, beams=with_them))
    return completed


def _own_references(file: str, lists: Sequence[Replies]) -> Iterator[tuple[str, ...]]:
    """Those that the n-best files bring along; it is enough if one of them has a source's."""
    if not lists:
        raise InputError(f"{file} holds replies and no references: give references_file, one a line.")
    for each in lists[1:]:
        _check_same("references", each, lists[0])
    for index, lines in enumerate(zip(*(each.beams for each in lists), strict=True)):
        found = next((beams.references for beams in lines if beams.references), ())
        if not found:
            raise InputError(
                f'{lists[0].place(index)}: source {lines[0].id!r} has no "reference", so its reply cannot be '
                "scored. Add it, or give references_file."
            )
        yield found


def _check_counts(first: Replies, file: str, count: int, nouns: tuple[str, str]) -> None:
    ours = len(first.beams)
    if ours != count:
        raise InputError(
            f"{first.file} has {ours:,} {'reply' if ours == 1 else 'replies'}, but {file} has {count:,} "
            f"{nouns[count != 1]}; line n of each must belong to the same source."
        )


def _check_same(key: str, one: Replies, other: Replies) -> None:
    """Refuse n-best files of which a source or reference differs; what is not said cannot differ."""
    for index, (ours, theirs) in enumerate(zip(one.beams, other.beams, strict=True)):
        here, there = getattr(ours, key), getattr(theirs, key)
        if here and there and here != there:
            verb = (
                f"{key} is" if isinstance(here, str) else "reference is" if len(here) == 1 else f"{key} are"
            )
            told = [
                repr(each) if isinstance(each, str) else ", ".join(map(repr, each)) for each in (here, there)
            ]
            raise InputError(
                f"{one.place(index)}: its {verb} {told[0]}, but {other.place(index)} has {told[1]}. Systems "
                "are compared on the same sources in the same order."
            )
