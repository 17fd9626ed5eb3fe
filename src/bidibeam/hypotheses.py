"""What a search found: hypotheses, always in reading order, whichever way they were written."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bidibeam.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

Tokens = TypeVar("Tokens", list[int], list[str], tuple[int, ...], tuple[str, ...])


class Direction(StrEnum):
    """The order in which a model writes a reply."""

    REGULAR = "regular"
    REVERSE = "reverse"

    @property
    def other(self) -> Direction:
        """The opposite direction."""
        return Direction.REVERSE if self is Direction.REGULAR else Direction.REGULAR

    def arrange(self, tokens: Tokens) -> Tokens:
        """Reading order to this direction's writing order, or back: the two are the same step."""
        return tokens[:] if self is Direction.REGULAR else tokens[::-1]

    def arrange_ended(self, ids: tuple[int, ...], ends: Container[int]) -> tuple[int, ...]:
        """The same, but an end token stays last."""
        if ids and ids[-1] in ends:
            return (*self.arrange(ids[:-1]), ids[-1])
        return self.arrange(ids)


class Hypothesis(NamedTuple):
    """One possible reply. A list from elsewhere may know less of it than our own search does.

    A tuple, because searches make them by the ten thousand, and a frozen dataclass takes four times as long.

    Attributes:
        text: The reply as a person would read it.
        tokens: The same reply as tokens, in reading order, without start or end tokens.
        log_prob: Its log-probability under the direction that wrote it, end token included.
        length: |Y|, the number of tokens the score was normalised by.
        score: The length-normalised log-probability: what the search ranked by.
        finished: Whether the model ended it, or the maximum length cut it off.
        other_log_prob: Its log-probability under the other direction, where that was computed.
        multiplicity: How many of the search's token sequences read as this same text.
        ids: Its token ids in reading order, with the end token if the model wrote it; empty if read from a
            file.
    """

    text: str
    tokens: tuple[str, ...]
    log_prob: float | None
    length: int
    score: float | None
    finished: bool = True
    other_log_prob: float | None = None
    multiplicity: int = 1
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NBest:
    """The hypotheses for one source, best first."""

    hypotheses: tuple[Hypothesis, ...] = ()

    def __iter__(self) -> Iterator[Hypothesis]:
        return iter(self.hypotheses)

    def __len__(self) -> int:
        return len(self.hypotheses)

    def __getitem__(self, place: int) -> Hypothesis:
        return self.hypotheses[place]

    @property
    def best(self) -> Hypothesis:
        """The first hypothesis."""
        if not self.hypotheses:
            raise InputError(
                "The n-best list is empty, so it has no best hypothesis: widen the beam, or let the "
                "model allow more tokens."
            )
        return self.hypotheses[0]


@dataclass(frozen=True, slots=True)
class Beams:
    """All that was found for one source: what an n-best file holds on one line."""

    id: str
    source: str
    references: tuple[str, ...] = ()  # what people answered; any of them is right
    regular: NBest = field(default_factory=NBest)
    reverse: NBest = field(default_factory=NBest)
    line: int = field(default=0, compare=False, repr=False, kw_only=True)  # where a file has it, for messages

    def __post_init__(self) -> None:
        if not isinstance(self.references, tuple):
            raise TypeError(f"references must be a tuple of strings, not {self.references!r}")

    @property
    def reference(self) -> str | None:
        """The first reference; None if there is none."""
        return self.references[0] if self.references else None

    def of(self, direction: Direction) -> NBest:
        """The hypotheses that one direction wrote."""
        return self.regular if direction is Direction.REGULAR else self.reverse

    def with_hypotheses(self, direction: Direction, hypotheses: NBest) -> Beams:
        """The same source with one direction's hypotheses filled in."""
        regular, reverse = self.regular, self.reverse
        if direction is Direction.REGULAR:
            regular = hypotheses
        else:
            reverse = hypotheses
        return Beams(self.id, self.source, self.references, regular, reverse, line=self.line)


class Ranked(NamedTuple):
    """A hypothesis and what a strategy made of it."""

    hypothesis: Hypothesis
    direction: Direction  # whose beam it is from
    place: int  # in that beam, counted from 0
    score: float  # what the strategy ranked by; higher is better
    partner: int | None = None  # the place, in the other beam, of what it agrees with most, where asked


@dataclass(frozen=True, slots=True)
class Ranking:
    """A strategy's order of the hypotheses that may answer a source, the reply first."""

    entries: tuple[Ranked, ...] = ()

    def __iter__(self) -> Iterator[Ranked]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def text(self) -> str:
        """The reply; empty where nothing was found."""
        return self.entries[0].hypothesis.text if self.entries else ""

    @property
    def tied(self) -> int:
        """How many entries have the first one's score, itself included."""
        return sum(entry.score == self.entries[0].score for entry in self.entries)

    @property
    def nbest(self) -> NBest:
        """The hypotheses alone, in this order."""
        return NBest(tuple(entry.hypothesis for entry in self.entries))

    @classmethod
    def of(cls, entries: Iterable[Ranked]) -> Ranking:
        """Finished ones first, then those cut off; each by score, highest first; ties keep their order."""
        return cls(tuple(sorted(entries, key=lambda entry: (not entry.hypothesis.finished, -entry.score))))
