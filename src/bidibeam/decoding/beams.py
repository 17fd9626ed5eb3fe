"""A live model's hypotheses: the door where token ids in writing order become text in reading order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from bidibeam.data.batching import pad_sources
from bidibeam.data.tokenization import Tokenizer
from bidibeam.decoding.rescoring import contenders
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interpreter import uncollected
from bidibeam.protocols import SequenceScorer, StepScorer
from bidibeam.search.beam import find
from bidibeam.search.found import FoundSequence
from bidibeam.search.settings import SearchSettings, VocabularyRoles

MOST_SPELLINGS = 1 << 16
"""Replies whose spelling is kept."""


@dataclass(frozen=True)
class Search:
    """One beam search, for one direction or for both side by side.

    Attributes:
        scorer: The model; for several directions it reads every source once for each, the first's first.
        directions: Its writing orders.
        settings: How to search.
    """

    scorer: StepScorer[Any]
    directions: tuple[Direction, ...]
    settings: SearchSettings


@dataclass(frozen=True)
class SearchGenerator:
    """Fills in hypotheses by beam search.

    Args:
        tokenizer: Text to ids and back.
        searches: What to search; each direction at most once.
        opinions: By direction, a model whose opinion of the other direction's hypotheses is wanted
            (`other_log_prob`).
        other_weight: If not None, only the reply is wanted, and it is that of `Needs.other_weight`: opinions
            are asked for those hypotheses alone that can be it.
        max_source_length: Longer sources keep their last tokens only, as the nearest to the reply.
        device: Where the scorers compute.
    """

    tokenizer: Tokenizer
    searches: tuple[Search, ...]
    opinions: Mapping[Direction, SequenceScorer] = field(default_factory=dict)
    other_weight: float | None = None
    max_source_length: int | None = None
    device: torch.device | str = "cpu"
    _spellings: dict[tuple[int, ...], tuple[tuple[str, ...], str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        """Search for every source in one batch, and keep their order."""
        return self.begin(beams)()

    def begin(self, beams: Sequence[Beams]) -> Callable[[], list[Beams]]:
        """Search; what is returned spells out what was found, in whichever thread calls it."""
        if not beams:
            return list
        encoded = self.tokenizer.encode_batch([line.source for line in beams])
        if self.max_source_length is not None:
            encoded = [ids[-self.max_source_length :] for ids in encoded]
        sources = pad_sources(encoded).to(self.device)  # (sources, length)
        found = [
            find(
                search.scorer,
                sources.repeat(len(search.directions), 1),  # (directions * sources, length)
                search.settings,
                self._roles(search.settings),
            )
            for search in self.searches
        ]

        def finish() -> list[Beams]:
            filled = list(beams)
            with uncollected():
                for search, here in zip(self.searches, found, strict=True):
                    sequences = here.sequences()
                    for index, direction in enumerate(search.directions):
                        lines = sequences[index * len(beams) : (index + 1) * len(beams)]
                        nbests = self._nbests(sources, lines, direction)
                        filled = [
                            line.having(direction, nbest) for line, nbest in zip(filled, nbests, strict=True)
                        ]
            return filled

        return finish

    def _roles(self, settings: SearchSettings) -> VocabularyRoles:
        tokenizer = self.tokenizer
        forbidden = {tokenizer.pad_id, tokenizer.start_id}
        if not settings.allow_unknown:
            forbidden.add(tokenizer.unknown_id)
        return VocabularyRoles(tokenizer.start_id, tokenizer.end_id, frozenset(forbidden))

    def _distinct(self, sequences: Sequence[FoundSequence], direction: Direction) -> _Distinct:
        """One hypothesis a text, its best sequence's; several sequences of subwords may spell the same."""
        merged: dict[str, Hypothesis] = {}
        first: list[FoundSequence] = []
        for sequence in sequences:
            written, log_prob, length, score, finished = sequence
            tokens, text = self._spelled(direction.arrange(written))
            known = merged.get(text)
            if known is None:
                merged[text] = Hypothesis(text, tokens, log_prob, length, score, finished)
                first.append(sequence)
            else:
                merged[text] = known._replace(multiplicity=known.multiplicity + 1)
        return _Distinct(tuple(merged.values()), first)

    def _spelled(self, ids: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
        """Tokens and text of ids in reading order; sources have many replies in common, so they are kept."""
        known = self._spellings.get(ids)
        if known is None:
            tokens = self.tokenizer.tokens(ids)
            known = tuple(tokens), self.tokenizer.text(tokens)
            if len(self._spellings) >= MOST_SPELLINGS:
                self._spellings.clear()
            self._spellings[ids] = known
        return known

    def _nbests(
        self, sources: torch.Tensor, found: Sequence[Sequence[FoundSequence]], own: Direction
    ) -> list[NBest]:
        """The hypotheses, with what the other direction makes of each as a whole reply, if that is wanted."""
        written = [self._distinct(line, own) for line in found]
        scorer = self.opinions.get(own.other)
        if scorer is None:
            return [NBest(line.hypotheses) for line in written]
        opinions = self._opinions(scorer, sources, [line.sequences for line in written], own)
        return [_nbest(line.hypotheses, heard) for line, heard in zip(written, opinions, strict=True)]

    def _opinions(
        self,
        scorer: SequenceScorer,
        sources: torch.Tensor,
        found: Sequence[Sequence[FoundSequence]],
        own: Direction,
    ) -> Sequence[Sequence[float | None]]:
        end = self.tokenizer.end_id

        def turned(sequence: FoundSequence, count: int | None = None) -> tuple[int, ...]:
            tokens = sequence.tokens
            if count is not None and len(tokens) > count:  # its last tokens are the other's first
                return own.rearrange(tokens[-count:])
            return (*own.rearrange(tokens), end)[:count]

        if self.other_weight is None or self.other_weight < 0:
            return scorer.log_probs(sources, [[turned(sequence) for sequence in line] for line in found])
        return contenders(scorer, sources, found, turned, self.other_weight)


def _nbest(hypotheses: Sequence[Hypothesis], opinions: Sequence[float | None]) -> NBest:
    return NBest(
        tuple(
            hypothesis if opinion is None else hypothesis._replace(other_log_prob=opinion)
            for hypothesis, opinion in zip(hypotheses, opinions, strict=True)
        )
    )


class _Distinct(NamedTuple):
    """Hypotheses and the sequences that they were made of."""

    hypotheses: tuple[Hypothesis, ...]
    sequences: list[FoundSequence]
