"""Beams plus a choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, NBest, Ranking
from bidibeam.interpreter import uncollected
from bidibeam.protocols import BeamGenerator, Strategy
from bidibeam.scores import Signature
from bidibeam.strategies.choosing import choose_many, is_parallel, least_share
from bidibeam.workers import shared_out, workers

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Answer:
    """A source's hypotheses, and the ranking that a strategy made of them."""

    beams: Beams
    ranking: Ranking

    @property
    def text(self) -> str:
        """The reply; empty where nothing was found."""
        return self.ranking.text


@dataclass(frozen=True)
class Ranker:
    """Ranks what was found, on several cores where the strategy allows.

    Args:
        selection: The strategy.
        workers: Threads; the ranking does not depend on it.
        replies_only: Whether the first of each ranking is enough.
    """

    selection: Strategy
    workers: int = 1
    replies_only: bool = False

    def answers(self, batch: Sequence[Beams]) -> list[Answer]:
        """Rank each of a batch, in order."""
        with uncollected(), workers(self.workers if is_parallel(self.selection) else 1):
            if self.replies_only:
                return list(map(Answer, batch, choose_many(self.selection, batch)))
            return list(
                map(Answer, batch, shared_out(self.selection.rank, batch, least=least_share(self.selection)))
            )

    def stream(self, beams: Iterable[Beams], batch_size: int) -> Iterator[Answer]:
        """Rank a stream in order, a batch at a time."""
        stream = iter(beams)
        while batch := list(islice(stream, batch_size)):
            yield from self.answers(batch)


@dataclass(frozen=True)
class Decoder:
    """Answers sources.

    Args:
        generator: Where hypotheses come from.
        ranker: The strategy that chooses among them.
        signature: Strategy and search, for whoever reports the replies.
        batch_size: Sources searched at once; replies do not depend on it.
        ahead: Whether the next batch is searched while the last one is ranked: where a device searches, the
            interpreter has time for both. Answers then come two batches later, and three threads call the
            generator (`bidibeam.decoding.ahead`).
    """

    generator: BeamGenerator
    ranker: Ranker
    signature: Signature = field(default_factory=lambda: Signature(()))
    batch_size: int = 32
    ahead: bool = False

    def decode(self, sources: Sequence[str]) -> list[NBest]:
        """Every source's hypotheses, the reply first.

        Raises:
            InputError: If `sources` is one string, which would be answered letter by letter, or one of them
                is no string; or if the strategy chooses by a reference, which sources alone do not have.
        """
        if isinstance(sources, str):
            raise InputError(f"Give a list of sources, not one string: [{sources!r}].")
        sources = list(sources)
        for number, source in enumerate(sources, start=1):
            if not isinstance(source, str):
                raise InputError(f"Source {number} must be a string, not {source!r}.")
        if sources and self.ranker.selection.requirements.reference:
            name = dict(self.ranker.selection.signature.facts).get("strategy", "strategy")
            raise InputError(
                f"Source '1' has no reference, and the {name} chooses by it. Give `answers` Beams that have "
                "one each, or choose another strategy."
            )
        beams = [Beams(id=str(number), source=source) for number, source in enumerate(sources, start=1)]
        return [answer.ranking.nbest for answer in self.answers(beams)]

    def answers(self, beams: Iterable[Beams]) -> Iterator[Answer]:
        """Answer a stream of sources in order, a batch at a time."""
        return searched(self.generator, beams, self.batch_size, ahead=self.ahead, then=self.ranker.answers)


def searched(
    generator: BeamGenerator,
    sources: Iterable[Beams],
    batch_size: int,
    *,
    then: Callable[[Sequence[Beams]], Iterable[Result]],
    ahead: bool = False,
) -> Iterator[Result]:
    """Search for a stream of sources in order, a batch at a time, and make something of what was found.

    Args:
        generator: Where hypotheses come from.
        sources: The sources.
        batch_size: How many are searched at once.
        then: Takes a batch with its hypotheses; one result a source.
        ahead: As in `Decoder`.
    """
    stream = iter(sources)
    batches = iter(lambda: list(islice(stream, batch_size)), [])
    if not ahead:
        for batch in batches:
            yield from then(generator.generate(batch))
        return
    from bidibeam.decoding.ahead import searched_ahead  # imports torch, which ranking does without

    yield from searched_ahead(generator, batches, then)
