"""N-best lists in any format and out of several files, read once; and what a format loses of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Literal

from bidibeam.data import words
from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams, Direction, NBest
from bidibeam.interchange.formats import (
    FORMATS,
    OF_HYPOTHESES,
    OF_SOURCES,
    Format,
    create_format,
    detect_format,
    make_hypothesis,
    settings_of,
)
from bidibeam.interchange.reading import read_references, read_signature, read_sources
from bidibeam.interchange.text_lines import Lines, describe, open_lines
from bidibeam.strategies.ranking import check_requirements

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Set

    from bidibeam.protocols import Requirements
    from bidibeam.scores import Signature

SPLITTING = frozenset({"tokens", "length"})
"""To compare these with words takes longer than to read and write them: the first of a list tells enough."""


@dataclass
class ListReader:
    """Reads n-best lists once, one source at a time; files are opened once something of them is asked for."""

    input_file: str  # - is stdin, here as below
    from_format: str | None = None  # without it, every file is looked at
    reverse_file: str | None = None  # the reverse lists, if they are in a file of their own
    sources_file: str | None = None
    references_file: str | None = None
    words: bool = False  # whether texts are split into words, whatever tokens there are
    settings: Mapping[str, Any] = field(default_factory=dict)  # direction, per_source, log_prob, ranked
    known: Collection[str] = ()  # settings that something else takes, so that the formats read need not
    allow_empty: bool = False  # whether a source may have no hypotheses at all

    def __post_init__(self) -> None:
        if self.reverse_file is not None and self.settings.get("direction") is Direction.REVERSE:
            raise SettingsError(
                f"With reverse_file {self.reverse_file} the lists of {self.input_file} are the regular ones: "
                "leave out `direction` reverse."
            )
        if self.files.count("-") > 1:
            raise SettingsError("Only one file can come from stdin, and - is given more than once.")

    @property
    def files(self) -> list[str]:
        """Every file that is read."""
        files = (self.input_file, self.reverse_file, self.sources_file, self.references_file)
        return [name for name in files if name is not None]

    @cached_property
    def written_by(self) -> Signature:
        """How the lists of the first file came about, as it says; to be asked before they are read."""
        return read_signature(self.first_file)

    @property
    def first_file(self) -> Lines:
        """The lines of the first file."""
        return self._opened[0][0]

    @property
    def format_name(self) -> str:
        """The format of the first file."""
        return self._opened[0][1]

    def __iter__(self) -> Iterator[Beams]:
        names = [lines.name for lines, _, _ in self._opened]
        lists, *reverse = (
            format_.read(lines, allow_empty=self.allow_empty) for lines, _, format_ in self._opened
        )
        if reverse:
            lists = join_directions(
                lists, *reverse, names=(names[0], names[1]), compare_sources=self.sources_file is None
            )
        if self.sources_file is not None:
            sources = (beams.source for beams in read_sources(self.sources_file))
            lists = fill_in(lists, sources, "source", names=(names[0], self.sources_file))
        if self.references_file is not None:
            references = read_references(self.references_file)
            lists = fill_in(lists, references, "reference", names=(names[0], self.references_file))
        return split_texts(lists) if self.words else lists

    def check(
        self, requirements: Requirements, strategy: str, lists: Iterable[Beams] | None = None
    ) -> Iterator[Beams]:
        """Each source's lists, or those of them that were read, which must hold what a strategy needs."""
        names = [lines.name for lines, _, _ in self._opened]
        for beams in self if lists is None else lists:
            try:
                check_requirements(beams, requirements, strategy)
            except InputError as error:
                place = f"{names[0]}, line {beams.line}" if len(names) == 1 else " and ".join(names)
                raise InputError(f"{place}: {error}") from error
            yield beams

    @cached_property
    def _opened(self) -> list[tuple[Lines, str, Format]]:
        """The files of lists, each with the name of its format and the format that reads it."""
        files = [self._open(self.input_file, self.settings)]
        if self.reverse_file is not None:
            files.append(self._open(self.reverse_file, {**self.settings, "direction": Direction.REVERSE}))
        if {format_.has_tokens for _, _, format_ in files} >= {True, False} and not self.words:
            first, second = (f"{lines.name} ({format_name})" for lines, format_name, _ in files)
            raise SettingsError(
                f"One of {first} and {second} gives tokens and the other does not, so that subwords would be "
                "compared with words. Say `words` to split the texts of both."
            )
        taken = {*self.known, *(key for _, format_name, _ in files for key in settings_of(format_name))}
        for key in self.settings:
            if key not in taken:
                names = [name for name in FORMATS.names() if key in settings_of(name)]
                raise SettingsError(
                    f"The format {files[0][1]} has no `{key}`; that is for {', '.join(names)}."
                )
        return files

    def _open(self, name: str, settings: Mapping[str, Any]) -> tuple[Lines, str, Format]:
        lines = open_lines(name)
        format_name = self.from_format or detect_format(lines, has_count="per_source" in settings)
        return lines, format_name, create_format(format_name, settings)


def join_directions(
    regular: Iterable[Beams],
    reverse: Iterable[Beams],
    *,
    names: tuple[str, str],
    compare_sources: bool = True,
) -> Iterator[Beams]:
    """Regular lists with the reverse lists of the same ids, in the order of the regular ones.

    Where both files are in the same order, one source is in memory at a time. Messages call the files by
    `names`; sources that both give must be the same if `compare_sources`.
    """
    waiting: dict[str, Beams] = {}
    rest = iter(reverse)
    for beams in regular:
        while beams.id not in waiting:
            other = next(rest, None)
            if other is None:
                raise _missing_source(beams, names)
            waiting[other.id] = other
        partner = waiting.pop(beams.id)
        place, other_place = f"{names[0]}, line {beams.line}", f"{names[1]}, line {partner.line}"
        if beams.reverse:
            raise InputError(f"{place}: source {beams.id!r} has reverse hypotheses already.")
        if partner.regular:
            raise InputError(
                f"{other_place}: source {partner.id!r} has regular hypotheses, but this file should have "
                "reverse ones only."
            )
        if compare_sources and beams.source and partner.source and beams.source != partner.source:
            raise InputError(
                f"{place}: the source is {describe(beams.source)}, but that of {other_place}, with the "
                f"same id, is {describe(partner.source)}. If they belong together, give the sources in a "
                "file of their own."
            )
        references = beams.references or partner.references
        source = beams.source or partner.source
        yield replace(beams, source=source, references=references, reverse=partner.reverse)
    for partner in chain(waiting.values(), rest):
        raise _missing_source(partner, names[::-1])


def _missing_source(beams: Beams, names: tuple[str, str]) -> InputError:
    return InputError(
        f"{names[1]} has no source with the id {beams.id!r}, but {names[0]} has, on line {beams.line}. "
        "Both must have the same sources, by id."
    )


def fill_in(
    lists: Iterable[Beams],
    texts: Iterable[str] | Iterable[tuple[str, ...]],
    what: Literal["source", "reference"],
    *,
    names: tuple[str, str],
) -> Iterator[Beams]:
    """Lists with their sources, or references, one for each, in order; `names` are the two files'."""
    count = counted = 0
    pairs: Iterable[tuple[Beams | None, Any]] = zip_longest(lists, texts)
    for beams, text in pairs:
        count, counted = count + (beams is not None), counted + (text is not None)
        if beams is not None and text is not None:
            yield replace(beams, source=text) if what == "source" else replace(beams, references=text)
    if count != counted:
        raise InputError(
            f"{names[1]} has {counted} {what}{'' if counted == 1 else 's'}, but {names[0]} has lists "
            f"for {count}. There must be one for each of them, in the same order."
        )


def split_texts(lists: Iterable[Beams]) -> Iterator[Beams]:
    """The same lists with the words of the texts as tokens, whatever tokens there were."""
    for beams in lists:
        for direction in Direction:
            hypotheses = (one._replace(tokens=tuple(words.split(one.text))) for one in beams.of(direction))
            beams = beams.with_hypotheses(direction, NBest(tuple(hypotheses)))
        yield beams


@dataclass
class Conversion:
    """What a format writes of lists, counted, and what it loses."""

    direction: Direction | None  # whose hypotheses are written; None for those of both
    dropped: Set[str]  # what the format has no place for, of sources and of hypotheses
    sources: int = 0
    hypotheses: int = 0
    other_direction: int = 0  # sources with hypotheses of the other direction, which are not written
    lost: set[str] = field(default_factory=set)  # what was known

    def count(self, lists: Iterable[Beams]) -> Iterator[Beams]:
        """The same lists, counted."""
        for beams in lists:
            if self.direction is None:
                written = (*beams.regular, *beams.reverse)
            else:
                written = beams.of(self.direction).hypotheses
                self.other_direction += bool(beams.of(self.direction.other))
            has_id = beams.id not in (str(self.sources), str(self.sources + 1))  # a number in order is no id
            known = zip(
                OF_SOURCES, (has_id, beams.source, beams.reference, beams.references[1:]), strict=True
            )
            self.lost.update(self.dropped & {key for key, value in known if value})
            for rank, one in enumerate(written):
                wanted = (self.dropped - self.lost - (SPLITTING if rank else frozenset())) & {*OF_HYPOTHESES}
                tokens = None if wanted & SPLITTING else ()
                plain = make_hypothesis(one.text, tokens=tokens, finished=one.finished)
                self.lost.update(key for key in wanted if getattr(one, key) != getattr(plain, key))
                if not one.finished:
                    self.lost.update(wanted & {"finished"})
            self.sources += 1
            self.hypotheses += len(written)
            yield beams
