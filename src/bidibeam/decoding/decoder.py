"""Beams plus a choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, NBest
from bidibeam.protocols import BeamGenerator, Selection


@dataclass(frozen=True, slots=True)
class Answer:
    """A source's hypotheses, and the ranking that a strategy made of them."""

    beams: Beams
    ranking: NBest

    @property
    def text(self) -> str:
        """The reply; empty where nothing was found."""
        return self.ranking.best.text if len(self.ranking) else ""


@dataclass(frozen=True)
class Decoder:
    """Answers sources.

    Args:
        generator: Where hypotheses come from.
        selection: The strategy that chooses among them.
        batch_size: Sources searched at once; replies do not depend on it.
    """

    generator: BeamGenerator
    selection: Selection
    batch_size: int = 32

    def decode(self, sources: Sequence[str]) -> list[NBest]:
        """Every source's hypotheses, the reply first.

        Raises:
            InputError: If `sources` is one string, which would be answered letter by letter.
        """
        if isinstance(sources, str):
            raise InputError(f"Give a list of sources, not one string: [{sources!r}].")
        beams = [Beams(id=str(number), source=source) for number, source in enumerate(sources, start=1)]
        return [answer.ranking for answer in self.answers(beams)]

    def answers(self, beams: Iterable[Beams]) -> Iterator[Answer]:
        """Answer a stream of sources in order, a batch at a time."""
        stream = iter(beams)
        while batch := list(islice(stream, self.batch_size)):
            for line in self.generator.generate(batch):
                yield Answer(line, self.selection.rank(line))
