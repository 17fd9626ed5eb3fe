"""What analyses are made from: systems at several N_B, their scores, and what choosing again takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.errors import InputError
from bidibeam.evaluation.systems import System, split_words
from bidibeam.metrics import METRICS
from bidibeam.metrics.bleu import ORDER, corpus_bleu
from bidibeam.metrics.ngrams import count_ngrams
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.ranking import rank_all
from bidibeam.strategies.settings import StrategySettings

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Ranking

    Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

AGREEING = "bidia bleu_t"
"""The system whose two beams are looked into."""
SCORES = ("bleu", "length_ratio", "distinct-1", "distinct-2")


@dataclass(frozen=True, eq=False)
class Evidence:
    """Systems that answered the same sources, by name and N_B, and what is known of them besides."""

    systems: Mapping[str, Mapping[int, System]]
    max_length: int  # T, the most steps that the search took
    load_vectors: Callable[[], WordVectors] | None = None  # for similarities that need some; called once
    tuned: Mapping[int, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)  # by N_B, strategy
    workers: int = 1
    examples: int = 20
    bleu: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # known, also of absent systems
    absent: Mapping[str, str] = field(default_factory=dict)  # why a system is not there

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
        """The largest N_B there is."""
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
        """The system whose regular and reverse beams are looked into, at its largest N_B."""
        system = self.widest.get(AGREEING)
        if system is None:
            raise self.lack(AGREEING, "which needs a regular and a reverse beam.")
        if not any(len(line.regular) and len(line.reverse) for line in system.beams):
            raise InputError(f"No source has hypotheses of both directions in the beams of {AGREEING!r}.")
        return system

    @cached_property
    def references(self) -> list[Sequence[str]]:
        """The words of the references."""
        return next(iter(self.widest.values())).reference_words

    @cached_property
    def vectors(self) -> WordVectors:
        """The word vectors."""
        if self.load_vectors is None:
            raise InputError("There are no word vectors, and WMD compares by them.")
        return self.load_vectors()

    def lack(self, name: str, why: str = "which is not there.") -> InputError:
        """Returns the error of an analysis for want of a system."""
        return InputError(f"It needs the system {name!r}, {self.absent.get(name, why)}")

    def bleu_sizes(self, name: str) -> set[int]:
        """Returns every N_B at which a system's corpus BLEU is known or can be computed."""
        return {*self.bleu.get(name, {}), *self.systems.get(name, {})}

    def bleu_of(self, name: str, beam_size: int) -> float:
        """Returns a system's corpus BLEU: as it is known, or computed."""
        known = self.bleu.get(name, {}).get(beam_size)
        return (
            self.scores(self.systems[name][beam_size].replies, ["bleu"])["bleu"] if known is None else known
        )

    def statistics(self, replies: Sequence[str]) -> Array:
        """Returns each reply's statistics of BLEU, (sources, columns)."""
        return count_ngrams(list(map(split_words, replies)), self.references, ORDER).statistics

    def scores(self, replies: Sequence[str], names: Sequence[str] = SCORES) -> dict[str, float]:
        """Returns scores by name, to the last bit as the metrics of those names compute them."""
        words = list(map(split_words, replies))
        scores = {}
        for name in names:
            if name == "bleu":  # counting as sacreBLEU does takes longer
                scores[name] = float(corpus_bleu(self.statistics(replies).sum(axis=0, keepdims=True))[0])
            else:
                scores[name] = METRICS.create(name).score(words, self.references).value
        return scores

    def rank(
        self, settings: StrategySettings, beams: Sequence[Beams], *, replies_only: bool = False
    ) -> list[Ranking]:
        """Returns a strategy's rankings, or their first entries alone, with this T and these word vectors."""
        space = None if self.load_vectors is None else lambda: self.vectors
        strategy = settings.build(max_length=self.max_length, space=space)
        return rank_all(strategy, beams, workers=self.workers, replies_only=replies_only)
