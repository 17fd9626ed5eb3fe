"""Flat text as mbrs reads and writes it: a hypothesis a line, the same number of lines for every source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, ClassVar

from bidibeam.errors import InputError, SettingsError
from bidibeam.interchange.formats import OneDirection, make_hypothesis, one_line
from bidibeam.interchange.text_lines import LineSource, open_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bidibeam.hypotheses import Beams, Hypothesis


@dataclass(frozen=True)
class Mbrs(OneDirection):
    """Texts alone, N lines a source: what `mbrs-generate` writes and `mbrs-decode -n N` reads.

    Args:
        per_source: N. To be read, a file needs it; written, it is the first source's unless given.
    """

    per_source: int | None = None

    endings: ClassVar[tuple[str, ...]] = (".txt",)
    has_tokens: ClassVar[bool | None] = False
    carries: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.per_source is not None and self.per_source < 1:
            raise SettingsError(f"per_source must be at least 1, not {self.per_source}.")

    @staticmethod
    def looks_like(lines: Sequence[str]) -> bool:  # noqa: ARG004
        """No: any text at all could be this."""
        return False

    def read(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[Beams]:  # noqa: ARG002
        """Read a file one source at a time, counted from 1; a blank line is an empty hypothesis."""
        lines = open_lines(source)
        if self.per_source is None:
            raise SettingsError(
                f"{lines.name}: flat text does not say how many hypotheses a source has. Say it by "
                "per_source."
            )
        number = 0
        hypotheses: list[Hypothesis] = []
        for number, line in lines:
            hypotheses.append(make_hypothesis(line))
            if len(hypotheses) == self.per_source:
                first = number - self.per_source + 1
                yield self.make_beams(str(number // self.per_source), hypotheses, line=first)
                hypotheses = []
        if hypotheses:
            raise InputError(
                f"{lines.name} has {number} lines, which is not a multiple of per_source, {self.per_source}."
            )

    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write one list of each source; all must have the same length."""
        wanted, whose = self.per_source, "per_source says"
        for each in beams:
            hypotheses = self.list_to_write(each)
            if wanted is None:
                wanted, whose = len(hypotheses), f"source {each.id!r} has"
            if len(hypotheses) != wanted or not hypotheses:
                raise InputError(
                    f"Source {each.id!r} has {len(hypotheses)} {self.direction.value} hypotheses, but "
                    f"{whose} {wanted or 'at least 1'}; in mbrs' flat text every source has the same number "
                    "of lines."
                )
            stream.writelines(f"{one_line(one.text)}\n" for one in hypotheses)
