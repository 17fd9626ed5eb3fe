"""N-best lists on their way in, in any format and from several files: what `rerank` and `convert` share."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bidibeam.cli.options import together
from bidibeam.interchange.formats import FORMATS

if TYPE_CHECKING:
    import io

    from bidibeam.api.tuned import TunedSettings
    from bidibeam.hypotheses import Beams
    from bidibeam.interchange.formats import Format
    from bidibeam.interchange.formats.joining import Numbered
    from bidibeam.protocols import Requirements

lists_options = together(
    [
        click.option(
            "--from",
            "from_format",
            metavar="FORMAT",
            help=f"How the lists are written: {', '.join(FORMATS.names())}.  [default: as their first lines "
            "or the file's ending tell]",
        ),
        click.option(
            "--reverse",
            "reverse_file",
            metavar="FILE",
            help="The reverse lists of the same sources, by id, where they are in a file of their own.",
        ),
        click.option(
            "--direction",
            type=click.Choice(["regular", "reverse"]),
            help="Whose hypotheses a file holds that has one list a source.  [default: regular]",
        ),
        click.option(
            "--per-source",
            type=click.IntRange(min=1),
            metavar="N",
            help="mbrs: how many hypotheses, a line each, every source has.",
        ),
        click.option("--log-prob", metavar="NAME", help="moses: the feature to read as log-probability."),
        click.option(
            "--sources",
            "sources_file",
            metavar="FILE",
            help="The sources, one a line, in the order of the lists.",
        ),
        click.option(
            "--references",
            "references_file",
            metavar="FILE",
            help="The references, in the same way; of a .tsv file its second column.",
        ),
        click.option(
            "--words", is_flag=True, help="Split the texts into words, whatever tokens the file gives."
        ),
    ]
)
"""The options of what is read."""

FLAGS = {
    "direction": "--direction",
    "per_source": "--per-source",
    "log_prob": "--log-prob",
    "ranked": "--ranked",
}
"""What a format's settings are called on the command line."""


@dataclass(frozen=True)
class Reading:
    """What a command was told of the lists that it is to read.

    Attributes:
        input_file: A path, or - for stdin.
        from_format: The name of the format; without it, every file is looked at.
        reverse_file: Where the reverse lists are, if in a file of their own.
        sources_file: Where the sources are.
        references_file: Where the references are.
        words: Whether texts are to be split into words, whatever tokens there are.
        settings: Settings of formats that were given.
    """

    input_file: str
    from_format: str | None = None
    reverse_file: str | None = None
    sources_file: str | None = None
    references_file: str | None = None
    words: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def taken(cls, input_file: str, flags: dict[str, Any]) -> Reading:
        """Take the flags out of a command's parameters.

        Raises:
            SettingsError: If they contradict each other.
        """
        from bidibeam.errors import SettingsError
        from bidibeam.hypotheses import Direction

        settings = {key: value for key in FLAGS if (value := flags.pop(key, None))}
        if "direction" in settings:
            settings["direction"] = Direction(settings["direction"])
        names = ("from_format", "reverse_file", "sources_file", "references_file", "words")
        reading = cls(input_file, **{name: flags.pop(name) for name in names}, settings=settings)
        if reading.reverse_file is not None and settings.get("direction") is Direction.REVERSE:
            raise SettingsError(
                f"With --reverse {reading.reverse_file} the lists of {input_file} are the regular ones: "
                "leave out --direction reverse."
            )
        if reading.files.count("-") > 1:
            raise SettingsError("Only one file can come from stdin, and - is given more than once.")
        return reading

    @property
    def files(self) -> list[str]:
        """Every file that is to be read."""
        files = (self.input_file, self.reverse_file, self.sources_file, self.references_file)
        return [name for name in files if name is not None]


class ListFile(NamedTuple):
    """A file of lists that can be read more than once."""

    source: Path | io.StringIO
    format_name: str
    format: Format

    @property
    def name(self) -> str:
        """What a message calls it."""
        return str(self.source if isinstance(self.source, Path) else self.source.name)

    def numbered(self, *, allow_empty: bool) -> Iterator[Numbered]:
        """Read it from its beginning."""
        if not isinstance(self.source, Path):
            self.source.seek(0)
        return self.format.read_numbered(self.source, allow_empty=allow_empty)


class Lists:
    """N-best lists that can be read twice; what comes through a pipe, named or not, is kept in memory.

    Args:
        reading: What was said about them.
        others: Settings that something else takes, so that the formats which are read need not.
        allow_empty: Whether a source may have no hypotheses at all.

    Raises:
        InputError: If a file cannot be read, or its format cannot be told.
        SettingsError: If a setting was given that none of the formats has.
    """

    def __init__(self, reading: Reading, *, others: Collection[str] = (), allow_empty: bool = False) -> None:
        from bidibeam.hypotheses import Direction

        self._reading = reading
        self._allow_empty = allow_empty
        self._regular = self._open(reading.input_file, reading.settings)
        self._reverse: ListFile | None = None
        if reading.reverse_file is not None:
            reverse = {**reading.settings, "direction": Direction.REVERSE}
            self._reverse = self._open(reading.reverse_file, reverse)
            self._check_tokens(self._reverse)
        self._check_settings(others)
        self._sources = _read_sources(reading.sources_file)
        self._references = _read_references(reading.references_file)
        self.words: set[str] = set()
        self.longest = 0
        self.count = 0

    @property
    def format_name(self) -> str:
        """The format of the first file."""
        return self._regular.format_name

    @property
    def model(self) -> str | None:
        """Who wrote the lists of the first file, as far as it says."""
        from bidibeam.interchange.replies import model_of

        return model_of(self._regular.source)

    def check(self, requirements: Requirements, strategy: str) -> None:
        """Read all of it once, so that nothing is written if some of it cannot be used.

        Raises:
            InputError: With file and line, if so.
        """
        from bidibeam.cli.console import track
        from bidibeam.errors import InputError
        from bidibeam.strategies.ranking import check_requirements

        for number, beams in track(self._numbered(), None, "checking"):
            try:
                check_requirements(beams, requirements, strategy)
            except InputError as error:
                raise InputError(f"{self._place(number)}: {error}") from error
            for hypothesis in (*beams.regular, *beams.reverse):
                self.words.update(hypothesis.tokens)
                self.longest = max(self.longest, len(hypothesis.tokens))
            self.count += 1

    def read(self) -> Iterator[Beams]:
        """Each source's lists."""
        return (beams for _, beams in self._numbered())

    def _numbered(self) -> Iterator[Numbered]:
        from bidibeam.interchange.formats.joining import filled, in_words, joined

        name, reading = self._regular.name, self._reading
        lists = self._regular.numbered(allow_empty=self._allow_empty)
        if self._reverse is not None:
            lists = joined(
                lists,
                self._reverse.numbered(allow_empty=self._allow_empty),
                names=(name, self._reverse.name),
                compare_sources=self._sources is None,
            )
        if self._sources is not None:
            lists = filled(lists, self._sources, "source", names=(name, str(reading.sources_file)))
        if self._references is not None:
            lists = filled(lists, self._references, "reference", names=(name, str(reading.references_file)))
        return in_words(lists) if reading.words else lists

    def _open(self, name: str, settings: Mapping[str, Any]) -> ListFile:
        from bidibeam.interchange.formats.detection import format_of

        source = opened(name)
        format_name = self._reading.from_format or format_of(source, has_count="per_source" in settings)
        return ListFile(source, format_name, build_format(format_name, settings))

    def _place(self, number: int) -> str:
        """What a message calls the source on a line, which is in two files if there are two."""
        name = self._regular.name
        return f"{name}, line {number}" if self._reverse is None else f"{name} and {self._reverse.name}"

    def _check_settings(self, others: Collection[str]) -> None:
        from bidibeam.errors import SettingsError

        read = [self._regular.format_name, *([self._reverse.format_name] if self._reverse else [])]
        taken = {*others, *(key for name in read for key in settings_of(name))}
        for key in self._reading.settings:
            if key not in taken:
                having = [name for name in FORMATS.names() if key in settings_of(name)]
                raise SettingsError(
                    f"The format {read[0]} has no {FLAGS[key]}; that is for {', '.join(having)}."
                )

    def _check_tokens(self, reverse: ListFile) -> None:
        from bidibeam.errors import SettingsError

        has_tokens = {file.format.has_tokens for file in (self._regular, reverse)}
        if has_tokens == {True, False} and not self._reading.words:
            raise SettingsError(
                f"One of {self._regular.name} ({self._regular.format_name}) and {reverse.name} "
                f"({reverse.format_name}) gives tokens and the other does not, so that subwords would be "
                "compared with words. Say --words to split the texts of both."
            )


def opened(name: str) -> Path | io.StringIO:
    """A file as it is, or all that a pipe holds; - is stdin.

    Raises:
        InputError: If it cannot be read.
    """
    from bidibeam.interchange.replies import whole

    if name == "-":
        return whole(sys.stdin.buffer)
    path = Path(name)
    return path if path.is_file() else whole(path)


def note_other_model(tuned: TunedSettings, file: str, model: str | None) -> None:
    """Say so if lists were written by another model than settings were tuned for, where both are known."""
    from bidibeam.cli.console import console

    weights = tuned.content.get("weights")
    if model is not None and weights is not None and model != weights:
        console.print(
            f"Note: {tuned.path} was tuned for another model ({weights}) than the one that wrote {file} "
            f"({model}).",
            style="dim",
            soft_wrap=True,
        )


def settings_of(format_name: str) -> set[str]:
    """What can be set of a format.

    Raises:
        UnknownNameError: If there is no such format.
    """
    import inspect

    return set(inspect.signature(FORMATS.get(format_name)).parameters)


def build_format(format_name: str, settings: Mapping[str, Any]) -> Format:
    """A format with those of the settings that it has.

    Raises:
        UnknownNameError: If there is no such format.
    """
    taken = settings_of(format_name)
    return FORMATS.create(format_name, **{key: value for key, value in settings.items() if key in taken})


def _read_sources(name: str | None) -> Sequence[str] | None:
    from bidibeam.interchange.sources import read_sources

    return None if name is None else [beams.source for beams in read_sources(opened(name))]


def _read_references(name: str | None) -> Sequence[str] | None:
    from bidibeam.interchange.replies import read_references, whole

    return None if name is None else read_references(whole(opened(name)))
