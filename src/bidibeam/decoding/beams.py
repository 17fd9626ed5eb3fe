"""A live model's hypotheses: the door where token ids in writing order become text in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bidibeam.data.batching import pad_sources
from bidibeam.data.tokenization import Tokenizer
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.protocols import SequenceScorer, StepScorer
from bidibeam.search.beam import beam_search
from bidibeam.search.found import FoundSequence
from bidibeam.search.settings import SearchSettings, VocabularyRoles


@dataclass(frozen=True)
class SearchGenerator:
    """Fills in one direction's hypotheses by beam search.

    Args:
        tokenizer: Text to ids and back.
        scorer: The model that writes in this direction.
        direction: Its writing order.
        settings: How to search.
        other: The model of the other direction, if its opinion is wanted too (`other_log_prob`).
        max_source_length: Longer sources keep their last tokens only, as the nearest to the reply.
        device: Where the scorer computes.
    """

    tokenizer: Tokenizer
    scorer: StepScorer[Any]
    direction: Direction
    settings: SearchSettings
    other: SequenceScorer | None = None
    max_source_length: int | None = None
    device: torch.device | str = "cpu"

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        """Search for every source in one batch, and keep their order."""
        if not beams:
            return []
        encoded = self.tokenizer.encode_batch([line.source for line in beams])
        if self.max_source_length is not None:
            encoded = [ids[-self.max_source_length :] for ids in encoded]
        sources = pad_sources(encoded).to(self.device)  # (sources, length)
        found = beam_search(self.scorer, sources, self.settings, self._roles())
        opinions = self._other_log_probs(sources, found)
        return [
            line.having(self.direction, self._nbest(sequences, log_probs))
            for line, sequences, log_probs in zip(beams, found, opinions, strict=True)
        ]

    def _roles(self) -> VocabularyRoles:
        tokenizer = self.tokenizer
        forbidden = {tokenizer.pad_id, tokenizer.start_id}
        if not self.settings.allow_unknown:
            forbidden.add(tokenizer.unknown_id)
        return VocabularyRoles(tokenizer.start_id, tokenizer.end_id, frozenset(forbidden))

    def _other_log_probs(
        self, sources: torch.Tensor, found: Sequence[Sequence[FoundSequence]]
    ) -> Sequence[Sequence[float | None]]:
        """What the other direction makes of each sequence, as a whole reply."""
        if self.other is None:
            return [[None] * len(sequences) for sequences in found]
        own, other, end = self.direction, self.direction.other, self.tokenizer.end_id
        turned = [
            [[*other.arrange(own.arrange(sequence.tokens)), end] for sequence in sequences]
            for sequences in found
        ]
        return self.other.log_probs(sources, turned)

    def _nbest(self, sequences: Sequence[FoundSequence], others: Sequence[float | None]) -> NBest:
        hypotheses = []
        for sequence, other_log_prob in zip(sequences, others, strict=True):
            tokens = self.tokenizer.tokens(self.direction.arrange(sequence.tokens))
            hypotheses.append(
                Hypothesis(
                    text=self.tokenizer.text(tokens),
                    tokens=tuple(tokens),
                    log_prob=sequence.log_prob,
                    length=sequence.length,
                    score=sequence.score,
                    finished=sequence.finished,
                    other_log_prob=other_log_prob,
                )
            )
        return NBest(tuple(hypotheses)).distinct()
