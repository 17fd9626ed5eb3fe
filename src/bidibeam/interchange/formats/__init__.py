"""N-best lists as other tools write them: a format a file, each read into `Beams` and written from them."""

from __future__ import annotations

import inspect
import json
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, ClassVar, Protocol, cast

from bidibeam.data import words
from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.text_lines import LineSource, has_ending, open_lines
from bidibeam.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bidibeam.interchange.on_disk import IdsOnDisk

LONGEST = 1_000_000
"""The most tokens that a hypothesis can have."""
OF_SOURCES = ("id", "source", "reference", "other references")
OF_HYPOTHESES = ("tokens", "log_prob", "other_log_prob", "length", "score", "finished")
"""What may be known besides texts."""
PEEKED = 200
"""Lines that detection looks at: a decoder may have begun with its log."""


class Format(Protocol):
    """One way to write n-best lists down. What can be set is what the class takes when it is made."""

    endings: ClassVar[tuple[str, ...]]  # how names of such files end
    has_tokens: ClassVar[bool | None]  # beside texts; None if some files do; else tokens are a text's words
    carries: ClassVar[tuple[str, ...]] = (*OF_SOURCES, *OF_HYPOTHESES)  # what a file has a place for

    @staticmethod
    @abstractmethod
    def looks_like(lines: Sequence[str]) -> bool:
        """Whether the first lines of a file, blank ones left out, can only be of this format."""

    @abstractmethod
    def read(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[Beams]:
        """Read a file one source at a time, each with the number of its first line.

        What cannot be used is refused with file and line; so are sources without hypotheses, unless allowed.
        """

    @abstractmethod
    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write all sources, in order; one that the format has no way to write is refused."""


@dataclass(frozen=True)
class OneDirection(Format):
    """A format of one list per source: that of `direction`, which no file says itself."""

    direction: Direction = Direction.REGULAR

    def make_beams(self, id_: str, hypotheses: Iterable[Hypothesis], *, line: int) -> Beams:
        """A source with that list."""
        return Beams(id_, "", line=line).with_hypotheses(self.direction, NBest(tuple(hypotheses)))

    def list_to_write(self, beams: Beams) -> NBest:
        """That list; refused if it is empty and the other direction's is not."""
        other = self.direction.other
        if not beams.of(self.direction) and beams.of(other):
            raise InputError(
                f"Source {beams.id!r} has {other.value} hypotheses only, where {self.direction.value} ones "
                f"are to be written. Choose the direction {other.value} to write those."
            )
        return beams.of(self.direction)


FORMATS: Registry[Format] = Registry(
    "n-best format",
    group="bidibeam.formats",
    locations={
        "jsonl": "bidibeam.interchange.nbest:Jsonl",
        "moses": "bidibeam.interchange.formats.moses:Moses",
        "fairseq": "bidibeam.interchange.formats.fairseq:Fairseq",
        "mbrs": "bidibeam.interchange.formats.mbrs:Mbrs",
        "openai": "bidibeam.interchange.formats.openai:OpenAI",
    },
)
"""Every format by its name."""


def settings_of(format_name: str) -> set[str]:
    """What can be set of a format."""
    return set(inspect.signature(FORMATS.get(format_name)).parameters)


def create_format(format_name: str, settings: Mapping[str, Any]) -> Format:
    """A format with those of the settings that it has."""
    known = settings_of(format_name)
    return FORMATS.create(format_name, **{key: value for key, value in settings.items() if key in known})


def recognise_format(source: LineSource) -> str | None:
    """The one format that a file's first lines can be of; None where they may be anything."""
    first = open_lines(source).peek(PEEKED)
    return next((name for name in FORMATS.names() if _class_of(name).looks_like(first)), None)


def detect_format(source: LineSource, *, has_count: bool = False) -> str:
    """The name of the format that a file is in.

    Lines decide where they can only be of one format, otherwise the ending. Text can be anything: it is
    flat text if it is known how many lines a source has. A file without lines has no lists in any format.
    `Lines` can be read from their beginning afterwards.
    """
    lines = open_lines(source)
    first, recognised = lines.peek(PEEKED), recognise_format(lines)
    candidates = [
        *([] if recognised is None else [recognised]),
        *(name for name in _formats_by_ending(lines.name) if has_count or name != "mbrs"),
        *(["jsonl"] if not first or first[0].lstrip().startswith("{") else []),
        *(["mbrs"] if has_count else []),
    ]
    if not candidates:
        raise InputError(
            f"{lines.name}: neither its name nor its first lines tell what format this is. Say it by "
            f"from_format: {', '.join(FORMATS.names())}; flat text, mbrs, needs per_source too."
        )
    return candidates[0]


def format_for(name: str) -> str:
    """The name of the format that a file is to be written in, by its ending."""
    names = _formats_by_ending(name)
    if not names:
        raise InputError(
            f"{name}: its name does not tell in what format to write it. Say it by to_format: "
            f"{', '.join(FORMATS.names())}."
        )
    return names[0]


def _formats_by_ending(name: str) -> list[str]:
    return [each for each in FORMATS.names() if has_ending(name, *_class_of(each).endings)]


def _class_of(name: str) -> type[Format]:
    return cast("type[Format]", FORMATS.get(name))


def make_hypothesis(
    text: str,
    *,
    tokens: tuple[str, ...] | None = None,
    log_prob: float | None = None,
    other_log_prob: float | None = None,
    length: int | None = None,
    score: float | None = None,
    finished: bool = True,
) -> Hypothesis:
    """A hypothesis of which not all is known; without tokens, they and the length are those of its words."""
    if tokens is None:
        tokens = tuple(words.split(text))
    length = len(tokens) + finished if length is None else length
    return Hypothesis(text, tokens, log_prob, length, score, finished, other_log_prob)


def check_source(beams: Beams, place: str, *, ids: IdsOnDisk | None, allow_empty: bool) -> None:
    """Refuse a source whose id an earlier line has, unless that was checked, or that has no hypotheses."""
    earlier = None if ids is None else ids.find_earlier(beams.id, beams.line)
    if earlier is not None:
        raise InputError(
            f"{place}: the id {json.dumps(beams.id, ensure_ascii=False)} stands on line {earlier} already. "
            "Give every source an id of its own, or leave all ids out."
        )
    if not (allow_empty or beams.regular or beams.reverse):
        raise InputError(
            f"{place}: the source with the id {json.dumps(beams.id, ensure_ascii=False)} has no hypotheses. "
            "Give it at least one, or leave the line out."
        )


def one_line(text: str) -> str:
    """A text as a file of lines can hold it: line breaks become spaces."""
    return " ".join(words.well_formed(text).splitlines())


def parse_finite(text: str) -> float | None:
    """The finite number that a text spells, or None if it spells something else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def spell_number(value: float, beams: Beams) -> str:
    """A finite number with all its digits, so that it is read back as it was."""
    if not math.isfinite(value):
        raise not_finite(beams)
    return repr(float(value))


def not_finite(beams: Beams) -> InputError:
    """What is raised for a number that no file can hold."""
    return InputError(
        f"The hypotheses for source {beams.id!r} hold a number that is not finite; "
        "an n-best file has no way to write one."
    )
