"""A model's log-probabilities, added to n-best lists from anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import torch

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest

if TYPE_CHECKING:
    from bidibeam.models.base import Model
    from bidibeam.protocols import LengthPenalty, SequenceScorer

OWN = ("log_prob", "score")
OTHER = ("other_log_prob",)


@dataclass
class ListScorer:
    """Adds what a model says of hypotheses, where it is missing.

    A list that was written in the direction that scores gets "log_prob", "score" and the "length" between
    them; a list of the other direction gets "other_log_prob". Texts are tokenised by the model's tokenizer.

    Attributes:
        model: The model.
        directions: Those of its directions that score.
        penalty: What a log-probability is divided by.
        overwrite: Whether numbers that are there are replaced.
        written: How many hypotheses got which numbers, by direction of the list.
    """

    model: Model
    directions: Sequence[Direction]
    penalty: LengthPenalty
    overwrite: bool = False
    written: Counter[tuple[Direction, tuple[str, ...]]] = field(default_factory=Counter)

    @property
    def label(self) -> str:
        """What tells the model from others: its name and fingerprint."""
        fingerprint = self.model.fingerprint
        return f"{self.model.name}@{fingerprint}" if fingerprint else self.model.name

    def score(self, lists: Iterable[Beams], batch_size: int) -> Iterator[Beams]:
        """The same lists with more numbers, a batch at a time.

        Raises:
            RunError: If the model does not have a direction.
            InputError: If a hypothesis has no token.
        """
        scorers = {direction: self.model.sequence_scorer(direction) for direction in self.directions}
        stream = iter(lists)
        while batch := list(islice(stream, batch_size)):
            for scoring, scorer in scorers.items():
                for direction in Direction:
                    batch = self._score_lists(batch, direction, scorer, is_own=scoring is direction)
            yield from batch

    def _score_lists(
        self, batch: list[Beams], direction: Direction, scorer: SequenceScorer, *, is_own: bool
    ) -> list[Beams]:
        """Score one direction's lists of a batch."""
        fields = OWN if is_own else OTHER
        places = [
            [
                place
                for place, one in enumerate(beams.of(direction))
                if self.overwrite or any(getattr(one, name) is None for name in fields)
            ]
            for beams in batch
        ]
        if not any(places):
            return batch
        found = [[beams.of(direction)[at] for at in line] for beams, line in zip(batch, places, strict=True)]
        encoded = iter(scorer.encode([one.text for line in found for one in line]))
        sequences = [[next(encoded) for _ in line] for line in found]
        self._check_tokens(batch, direction, places, sequences, special=set(scorer.encode([""])[0]))
        if is_own:  # what the other direction says is always said of a whole reply
            sequences = [
                [
                    ids if one.finished else _without_end(ids, scorer.end_id)
                    for ids, one in zip(*line, strict=True)
                ]
                for line in zip(sequences, found, strict=True)
            ]
        log_probs = scorer.log_probs([beams.source for beams in batch], sequences)
        scored = []
        for beams, line, values, ids in zip(batch, places, log_probs, sequences, strict=True):
            hypotheses = list(beams.of(direction))
            for place, value, tokens in zip(line, values, ids, strict=True):
                one = hypotheses[place]
                hypotheses[place] = (
                    self._with_score(one, value, len(tokens))
                    if is_own
                    else one._replace(other_log_prob=value)
                )
            scored.append(beams.with_hypotheses(direction, NBest(tuple(hypotheses))))
        self.written[direction, fields] += sum(map(len, places))
        return scored

    def _check_tokens(
        self,
        batch: Sequence[Beams],
        direction: Direction,
        places: Sequence[Sequence[int]],
        sequences: Sequence[Sequence[tuple[int, ...]]],
        *,
        special: set[int],
    ) -> None:
        """Refuse a text that has no more tokens than an empty one."""
        for beams, line, lists in zip(batch, places, sequences, strict=True):
            for place, ids in zip(line, lists, strict=True):
                if special.issuperset(ids):
                    raise InputError(
                        f"Source {beams.id!r}: the hypothesis {direction.value}[{place}], "
                        f"{beams.of(direction)[place].text!r}, has no token under the tokenizer of "
                        f"{self.label}; leave it out."
                    )

    def _with_score(self, one: Hypothesis, log_prob: float, length: int) -> Hypothesis:
        score = float(self.penalty.score(torch.tensor(log_prob, dtype=torch.float64), length))
        return one._replace(log_prob=log_prob, length=length, score=score)


def _without_end(ids: tuple[int, ...], end_id: int) -> tuple[int, ...]:
    """A sequence up to its last end token, as where a reply was cut off."""
    return ids[: len(ids) - 1 - ids[::-1].index(end_id)]
