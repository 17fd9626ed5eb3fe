"""A model's log-probabilities, added to n-best lists from anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from bidibeam.api.decoders import default_search
from bidibeam.decoding.decoder import split_batches
from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, NBest
from bidibeam.models.base import check_fork
from bidibeam.search.length import LENGTH_PENALTIES

if TYPE_CHECKING:
    from bidibeam.models.base import Model
    from bidibeam.protocols import LengthPenalty, SequenceScorer
    from bidibeam.search.settings import SearchSettings

OWN = ("log_prob", "score")
OTHER = ("other_log_prob",)


def find_unknown_id(model: Model) -> int | None:
    """Returns the token that stands for words that a model does not know; None if it knows all."""
    tokenizer = model.tokenizer
    found: int | None = getattr(tokenizer, "unknown_id", getattr(tokenizer, "unk_token_id", None))
    return found


def find_foreign(lists: Iterable[Beams], model: Model) -> str | None:
    """Returns the first regular hypothesis with a word that a model does not know; None if there is none.

    A model that was trained on the same data as the one that wrote the lists knows all their words.
    """
    texts = dict.fromkeys(one.text for line in lists for one in line.regular)
    special, *rows = model.sequence_scorer(Direction.REGULAR).encode(["", *texts])
    unknown = {find_unknown_id(model)} - {*special}  # some have one token for the end and the unknown
    return next((text for text, ids in zip(texts, rows, strict=True) if unknown & {*ids}), None)


def use_control(
    lists: Sequence[Beams],
    control: Model,
    batch_size: int,
    *,
    search: SearchSettings | None = None,
    writer: Model | None = None,
) -> Iterator[Beams]:
    """The same lists with a second regular network in the reverse one's place.

    It scores the regular hypotheses ("other_log_prob"), and where there were reverse hypotheses, there are as
    many of its own, which the network that wrote the lists scores.

    Args:
        lists: The lists.
        control: The second network.
        batch_size: Sources at once.
        search: How the lists were searched, and the control searches; its defaults if nobody knows.
        writer: The model that wrote the lists; without it nobody scores what the control writes.
    """
    for line in lists:
        if not line.source:
            raise InputError(
                f"Source {line.id!r} has no text, and a control has to read it: add the sources."
            )
    check_fork(control)
    width = max((len(line.reverse) for line in lists), default=0)
    search = replace(search or default_search(control), beam_size=max(1, width))
    control.check_settings(search)
    penalty = LENGTH_PENALTIES.create(search.length_formula, search.length_penalty)
    scorer = ListScorer(control, (Direction.REGULAR,), penalty, overwrite=True)
    network = control.sequence_scorer(Direction.REGULAR)
    other = None if writer is None else ListScorer(writer, (Direction.REGULAR,), penalty)
    for start in range(0, len(lists), batch_size):
        batch = [replace(line, reverse=NBest()) for line in lists[start : start + batch_size]]
        batch = scorer.score_lists(batch, Direction.REGULAR, network, is_own=False)
        if width:
            found = control.n_best(Direction.REGULAR, [line.source for line in batch], search)
            pairs = zip(batch, found, strict=True)
            batch = [line.with_hypotheses(Direction.REVERSE, nbest) for line, nbest in pairs]
            if other is not None:
                scores = other.model.sequence_scorer(Direction.REGULAR)
                batch = other.score_lists(batch, Direction.REVERSE, scores, is_own=False)
        yield from batch


class Scored(NamedTuple):
    """A batch of lists with more numbers, how many hypotheses got which, and texts without a known token."""

    lists: list[Beams]
    written: Counter[tuple[Direction, tuple[str, ...]]]
    unknown: dict[str, str]


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
        unknown: Texts that were scored and hold no token that the model knows, by their places.
    """

    model: Model
    directions: Sequence[Direction]
    penalty: LengthPenalty
    overwrite: bool = False
    written: Counter[tuple[Direction, tuple[str, ...]]] = field(default_factory=Counter)
    unknown: dict[str, str] = field(default_factory=dict)

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
        for scored in self.score_batches(lists, batch_size):
            yield from self.collect(scored)

    def score_batches(self, lists: Iterable[Beams], batch_size: int) -> Iterator[Scored]:
        """The same, with what was done to each batch beside it, which is not kept here."""
        check_fork(self.model)
        yield from map(self.score_batch, split_batches(lists, batch_size))

    def score_batch(self, batch: Sequence[Beams]) -> Scored:
        """A batch with more numbers, and what was done to it."""
        lists, alone = list(batch), replace(self, written=Counter(), unknown={})
        for scoring in self.directions:
            scorer = self.model.sequence_scorer(scoring)
            for direction in Direction:
                lists = alone.score_lists(lists, direction, scorer, is_own=scoring is direction)
        return Scored(lists, alone.written, alone.unknown)

    def collect(self, scored: Scored) -> list[Beams]:
        """The lists of a batch that was scored here or elsewhere; what was done to them is kept."""
        self.written += scored.written
        self.unknown |= scored.unknown
        return scored.lists

    def score_lists(
        self, batch: list[Beams], direction: Direction, scorer: SequenceScorer, *, is_own: bool
    ) -> list[Beams]:
        """One direction's lists of a batch with the numbers of a scorer, which may be of that direction."""
        fields = OWN if is_own else OTHER
        wanted = [
            {
                place: one
                for place, one in enumerate(beams.of(direction))
                if self.overwrite or any(getattr(one, name) is None for name in fields)
            }
            for beams in batch
        ]
        if not any(wanted):
            return batch
        encoded = iter(scorer.encode([one.text for line in wanted for one in line.values()]))
        special, unknown_id = set(scorer.encode([""])[0]), find_unknown_id(self.model)
        sequences: list[list[tuple[int, ...]]] = [[] for _ in batch]
        for beams, line, rows in zip(batch, wanted, sequences, strict=True):
            for place, one in line.items():
                ids = next(encoded)
                if special.issuperset(ids):
                    raise InputError(
                        f"Source {beams.id!r}: the hypothesis {direction.value}[{place}], {one.text!r}, has "
                        f"no token under the tokenizer of {self.label}; leave it out."
                    )
                if {*ids} <= {*special, unknown_id}:
                    self.unknown[f"{direction.value}[{place}] of source {beams.id}"] = one.text
                if is_own and not one.finished:  # the other direction always speaks of a whole reply
                    ids = ids[: len(ids) - 1 - ids[::-1].index(scorer.end_id)]
                rows.append(ids)
        log_probs = scorer.log_probs([beams.source for beams in batch], sequences)
        scored = []
        for beams, line, values, rows in zip(batch, wanted, log_probs, sequences, strict=True):
            filled = list(beams.of(direction))
            for place, value, ids in zip(line, values, rows, strict=True):
                if is_own:
                    score = float(self.penalty.score(torch.tensor(value, dtype=torch.float64), len(ids)))
                    filled[place] = filled[place]._replace(log_prob=value, length=len(ids), score=score)
                else:
                    filled[place] = filled[place]._replace(other_log_prob=value)
            scored.append(beams.with_hypotheses(direction, NBest(tuple(filled))))
        self.written[direction, fields] += sum(map(len, wanted))
        return scored
