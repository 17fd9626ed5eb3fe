"""What a search found: hypotheses, always in reading order, whichever way they were written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from bidibeam.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")


class Direction(StrEnum):
    """The order in which a model writes a reply."""

    REGULAR = "regular"
    REVERSE = "reverse"

    @property
    def other(self) -> Direction:
        """The opposite direction."""
        return Direction.REVERSE if self is Direction.REGULAR else Direction.REGULAR

    def arrange(self, tokens: Sequence[T]) -> list[T]:
        """Reading order to this direction's writing order, or back: the two are the same step."""
        return list(tokens) if self is Direction.REGULAR else list(reversed(tokens))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One possible reply.

    Attributes:
        text: The reply as a person would read it.
        tokens: The same reply as tokens, in reading order, without start or end tokens.
        log_prob: Its log-probability under the direction that wrote it, end token included.
        length: The number of tokens the score was normalised by.
        score: The length-normalised log-probability: what the search ranked by.
        finished: Whether the model ended it, or the maximum length cut it off.
        other_log_prob: Its log-probability under the other direction, where that was computed.
        multiplicity: How many of the search's token sequences read as this same text.
    """

    text: str
    tokens: tuple[str, ...]
    log_prob: float
    length: int
    score: float
    finished: bool
    other_log_prob: float | None = None
    multiplicity: int = 1


@dataclass(frozen=True, slots=True)
class NBest:
    """The hypotheses for one source, best first."""

    hypotheses: tuple[Hypothesis, ...] = ()

    def __iter__(self) -> Iterator[Hypothesis]:
        return iter(self.hypotheses)

    def __len__(self) -> int:
        return len(self.hypotheses)

    @property
    def best(self) -> Hypothesis:
        """The first hypothesis."""
        if not self.hypotheses:
            raise InputError("The n-best list is empty, so it has no best hypothesis: widen the beam.")
        return self.hypotheses[0]

    def reranked(self, scores: Sequence[float]) -> NBest:
        """The same hypotheses, highest of `scores` first; ties keep their order."""
        order = sorted(range(len(self.hypotheses)), key=lambda index: -scores[index])
        return NBest(tuple(self.hypotheses[index] for index in order))

    def distinct(self) -> NBest:
        """One hypothesis a text, the better-ranked of each; `multiplicity` counts those merged."""
        merged: dict[str, Hypothesis] = {}
        for hypothesis in self.hypotheses:
            first = merged.get(hypothesis.text)
            merged[hypothesis.text] = (
                hypothesis
                if first is None
                else replace(first, multiplicity=first.multiplicity + hypothesis.multiplicity)
            )
        return NBest(tuple(merged.values()))


@dataclass(frozen=True, slots=True)
class Beams:
    """All that was found for one source: what an n-best file holds on one line."""

    id: str
    source: str
    reference: str | None = None
    regular: NBest = field(default_factory=NBest)
    reverse: NBest = field(default_factory=NBest)

    def of(self, direction: Direction) -> NBest:
        """The hypotheses that one direction wrote."""
        return self.regular if direction is Direction.REGULAR else self.reverse

    def having(self, direction: Direction, hypotheses: NBest) -> Beams:
        """The same source with one direction's hypotheses filled in."""
        if direction is Direction.REGULAR:
            return replace(self, regular=hypotheses)
        return replace(self, reverse=hypotheses)
