"""What analyses are made from: systems at several N_B, and what choosing again takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from bidibeam.errors import InputError
from bidibeam.evaluation.analyses.tally import Tally
from bidibeam.evaluation.systems import System
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.ranking import map_in_threads, rank_all
from bidibeam.strategies.settings import StrategySettings

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Ranking
    from bidibeam.protocols import Strategy

AGREEING = "bidia bleu_t"
"""The system whose two beams are looked into."""

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Evidence:
    """Systems that answered the same sources.

    Attributes:
        systems: By name and N_B.
        max_length: T, the most steps that the search took.
        space: Gives the word vectors, for similarities that need some; called at most once.
        tuned: By N_B and strategy, options that were tuned for it.
        workers: Threads that compare hypotheses; no result depends on it.
        examples: How many examples are wanted.
        bleu: By name and N_B, corpus BLEU that is known already, also where the system is not at hand.

    Raises:
        InputError: If not all systems answered the same sources, or none was answered.
    """

    systems: Mapping[str, Mapping[int, System]]
    max_length: int
    space: Callable[[], WordVectors] | None = None
    tuned: Mapping[int, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    workers: int = 1
    examples: int = 20
    bleu: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first: list[str] | None = None
        for name, sizes in self.systems.items():
            for beam_size, system in sizes.items():
                ids = [line.id for line in system.beams]
                first = ids if first is None else first
                if ids != first or len(system.rankings) != len(ids):
                    raise InputError(
                        f"The system {name} at N_B = {beam_size} answered other sources than the first one "
                        "did. Give lists of the same sources, in the same order."
                    )
        if not first:
            raise InputError("There are no systems, or no sources, to analyse.")

    @property
    def largest(self) -> int:
        """The largest N_B there is.

        Raises:
            InputError: If no system knows its own.
        """
        largest = max(chain.from_iterable(self.systems.values()))
        if largest < 1:
            raise InputError("No system says among how many hypotheses it chose, so N_B is unknown.")
        return largest

    @cached_property
    def widest(self) -> dict[str, System]:
        """Each system at the largest N_B that it has."""
        return {name: sizes[max(sizes)] for name, sizes in self.systems.items() if sizes}

    @cached_property
    def agreeing(self) -> System:
        """The system whose regular and reverse beams are looked into, at its largest N_B.

        Raises:
            InputError: If there is none, or it has no reverse beams.
        """
        system = self.widest.get(AGREEING)
        if system is None:
            raise InputError(f"It needs the system {AGREEING!r}, which needs a regular and a reverse beam.")
        if not any(len(line.regular) and len(line.reverse) for line in system.beams):
            raise InputError(f"No source has hypotheses of both directions in the beams of {AGREEING!r}.")
        return system

    @cached_property
    def tally(self) -> Tally:
        """Scores replies to the sources.

        Raises:
            InputError: If a reference is missing.
        """
        return Tally(self._any.reference_words)

    @cached_property
    def vectors(self) -> WordVectors:
        """The word vectors.

        Raises:
            InputError: If there are none.
        """
        if self.space is None:
            raise InputError("There are no word vectors, and WMD compares by them.")
        return self.space()

    def bleu_sizes(self, name: str) -> set[int]:
        """Every N_B at which a system's corpus BLEU is known or can be computed."""
        return {*self.bleu.get(name, {}), *self.systems.get(name, {})}

    def bleu_of(self, name: str, beam_size: int) -> float:
        """A system's corpus BLEU: as it is known, or computed.

        Raises:
            InputError: If it must be computed and a reference is missing.
        """
        known = self.bleu.get(name, {}).get(beam_size)
        return self.tally.bleu(self.systems[name][beam_size].replies) if known is None else known

    def build(self, settings: StrategySettings) -> Strategy:
        """The strategy, with T and the word vectors that there are."""
        space = None if self.space is None else lambda: self.vectors
        return settings.build(max_length=self.max_length, space=space)

    def choose(self, settings: StrategySettings, beams: Sequence[Beams]) -> list[str]:
        """The replies of a strategy, by its shortcut where it has one."""
        rankings = choose_all(self.build(settings), beams, workers=self.workers)
        return [ranking.text for ranking in rankings]

    def rank(self, settings: StrategySettings, beams: Sequence[Beams]) -> list[Ranking]:
        """The whole rankings of a strategy."""
        return rank_all(self.build(settings), beams, workers=self.workers)

    @property
    def _any(self) -> System:
        return next(iter(self.widest.values()))


def choose_all(selection: Strategy, beams: Sequence[Beams], *, workers: int = 1) -> list[Ranking]:
    """The reply of a strategy to every source, alone in its ranking, by its shortcut where it has one."""
    return rank_all(selection, beams, workers=workers, replies_only=True)


def spread(work: Callable[[Beams], Result], beams: Sequence[Beams], *, workers: int = 1) -> list[Result]:
    """Do the same for every source, in up to so many threads, and keep the order."""
    return map_in_threads(work, beams, workers)
