"""N-best lists as other tools write them: a format a file, each read into `Beams` and written from them."""

from __future__ import annotations

from abc import abstractmethod
from typing import IO, TYPE_CHECKING, ClassVar, Protocol

from bidibeam.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bidibeam.hypotheses import Beams
    from bidibeam.interchange.lines import LineSource


class Format(Protocol):
    """One way to write n-best lists down. What can be set is what the class takes when it is made.

    Attributes:
        endings: How names of such files end.
        has_tokens: Whether a file gives tokens beside its texts; None if some do. Without them, the tokens of
            a hypothesis are the words of its text.
        carries: What a file has a place for, of what is known about a source.
    """

    endings: ClassVar[tuple[str, ...]]
    has_tokens: ClassVar[bool | None]
    carries: ClassVar[tuple[str, ...]] = ("id", "source", "reference")

    @staticmethod
    @abstractmethod
    def looks_like(lines: Sequence[str]) -> bool:
        """Whether the first lines of a file, blank ones left out, can only be of this format."""

    @abstractmethod
    def read_numbered(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[tuple[int, Beams]]:
        """Read a file one source at a time, each with the number of its first line.

        Args:
            source: The file.
            allow_empty: Whether a source may have no hypotheses at all.

        Raises:
            InputError: With file and line, if something in it cannot be used.
        """

    @abstractmethod
    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write all sources, in order.

        Raises:
            InputError: If the format has no way to write one.
        """

    def read(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[Beams]:
        """Read a file one source at a time; see `read_numbered`."""
        return (beams for _, beams in self.read_numbered(source, allow_empty=allow_empty))


FORMATS: Registry[Format] = Registry(
    "n-best format",
    group="bidibeam.formats",
    locations={
        "jsonl": "bidibeam.interchange.formats.jsonl:Jsonl",
        "moses": "bidibeam.interchange.formats.moses:Moses",
        "fairseq": "bidibeam.interchange.formats.fairseq:Fairseq",
        "mbrs": "bidibeam.interchange.formats.mbrs:Mbrs",
        "openai": "bidibeam.interchange.formats.openai:OpenAI",
    },
)
"""Every format, by the name that `--from` and `--to` use."""
