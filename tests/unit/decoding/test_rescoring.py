"""Asking about those hypotheses alone that can still win, and never losing the winner by it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bidibeam.decoding.rescoring import BEGINNING, MARGIN, contenders, turned
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked
from bidibeam.search.found import Columns, FoundSequence
from bidibeam.strategies.bidis import BidiS

END = 1
WEIGHTS = [0.0, 0.1, 1.0, 5.0]


@dataclass
class TableOpinion:
    """A model by the log-probability of each token after its prefix; it notes how many it was asked about."""

    seed: int
    values: Sequence[float]
    asked_whole: int = 0
    asked_tokens: int = 0
    seen: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    def log_probs(self, sources: Tensor, sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
        assert len(sources) == len(sequences)
        return [
            [self._log_prob(int(source), tuple(sequence)) for sequence in line]
            for source, line in zip(sources[:, 0].tolist(), sequences, strict=True)
        ]

    def _log_prob(self, source: int, sequence: tuple[int, ...]) -> float:
        self.asked_whole += sequence[-1:] == (END,) and len(sequence) > BEGINNING
        for end in range(1, len(sequence) + 1):
            if (source, sequence[:end]) not in self.seen:
                self.seen.add((source, sequence[:end]))
                self.asked_tokens += 1
        return sum(self.token(source, sequence[:end]) for end in range(1, len(sequence) + 1))

    def token(self, source: int, prefix: tuple[int, ...]) -> float:
        return random.Random(f"{self.seed} {source} {prefix}").choice(self.values)


def random_sequences(chooser: random.Random, most: int, lengths: tuple[int, int]) -> list[FoundSequence]:
    """Different sequences, best first, finished ones before those cut off, with a penalty of 1 + |Y| / 4."""
    written = {
        tuple(chooser.choices(range(2, 6), k=chooser.randint(*lengths)))
        for _ in range(chooser.randint(0, most))
    }
    found = []
    for tokens in sorted(written):
        finished = chooser.random() < 0.7
        log_prob = -chooser.choice([0.0, 0.5, 1.0, 2.0, 3.0, 5.0])
        length = len(tokens) + finished
        found.append(FoundSequence(tokens, log_prob, length, log_prob / (1 + length / 4), finished))
    return sorted(found, key=lambda each: (not each.finished, -each.score))


def columns_of(found: Sequence[Sequence[FoundSequence]]) -> Columns:
    """The same as columns."""
    flat = [sequence for line in found for sequence in line]
    stops = np.cumsum([len(sequence.tokens) for sequence in flat], dtype=np.int64)
    return Columns(
        written=np.array([token for sequence in flat for token in sequence.tokens], dtype=np.int64),
        starts=stops - np.array([len(sequence.tokens) for sequence in flat], dtype=np.int64),
        stops=stops,
        log_probs=np.array([sequence.log_prob for sequence in flat]),
        lengths=np.array([sequence.length for sequence in flat]),
        scores=np.array([sequence.score for sequence in flat]),
        finished=np.array([sequence.finished for sequence in flat], dtype=bool),
        ends=np.cumsum([len(line) for line in found], dtype=np.int64),
    )


def slowly_turned(sequence: FoundSequence, count: int | None = None) -> tuple[int, ...]:
    return (*Direction.REGULAR.rearrange(sequence.tokens), END)[:count]


def ask_about_all(
    scorer: TableOpinion, found: Sequence[Sequence[FoundSequence]]
) -> Sequence[Sequence[float | None]]:
    return scorer.log_probs(batch(found), [[slowly_turned(each) for each in line] for line in found])


def ask(
    scorer: TableOpinion, found: Sequence[Sequence[FoundSequence]], weight: float
) -> Sequence[Sequence[float | None]]:
    opinions = iter(contenders(scorer, batch(found), columns_of(found), weight, end=END))
    return [[next(opinions) for _ in line] for line in found]


def batch(found: Sequence[Sequence[FoundSequence]]) -> Tensor:
    return torch.arange(len(found)).unsqueeze(1)  # (sources, 1)


def winner(
    sequences: Sequence[FoundSequence], opinions: Sequence[float | None], weight: float
) -> Ranked | None:
    """What BidiS makes of them."""
    nbest = NBest(
        tuple(
            Hypothesis(str(each.tokens), (), each.log_prob, each.length, each.score, each.finished, opinion)
            for each, opinion in zip(sequences, opinions, strict=True)
        )
    )
    return next(iter(BidiS(weight).rank(Beams("1", "hi", regular=nbest))), None)


@given(chooser=st.randoms(use_true_random=False), most=st.sampled_from([None, 1, 2, 3]))
@settings(deadline=None, max_examples=60)
def test_what_the_other_direction_would_write_ends_where_ours_begins(
    chooser: random.Random, most: int | None
) -> None:
    found = [random_sequences(chooser, 6, (0, 5)) for _ in range(chooser.randint(1, 4))]
    columns = columns_of(found)
    chosen = np.flatnonzero([chooser.random() < 0.6 for _ in range(len(columns))])

    lines = turned(columns, chosen, end=END, most=most)

    places = set(chosen.tolist())
    numbers = itertools.count()
    expected = [[slowly_turned(each, most) for each in line if next(numbers) in places] for line in found]
    assert list(lines) == expected
    assert len(lines) == len(expected)
    assert lines[-1] == expected[-1]
    whole = turned(columns, end=END, most=most)
    assert list(whole) == [[slowly_turned(each, most) for each in line] for line in found]


@pytest.mark.parametrize("weight", WEIGHTS)
@given(chooser=st.randoms(use_true_random=False), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_the_winner_is_that_of_asking_about_all(chooser: random.Random, seed: int, weight: float) -> None:
    found = [random_sequences(chooser, 8, (0, 5)) for _ in range(chooser.randint(1, 3))]
    scorer = TableOpinion(seed, [-3.0, -1.0, -0.5, 0.0])

    some = ask(scorer, found, weight)
    whole = ask_about_all(scorer, found)

    for line, few, all_of_them in zip(found, some, whole, strict=True):
        assert winner(line, few, weight) == winner(line, all_of_them, weight)
        answered = [(value, whole_value) for value, whole_value in zip(few, all_of_them, strict=True)]
        assert all(value in (None, whole_value) for value, whole_value in answered)


@pytest.mark.parametrize(("weight", "share"), [(0.0, 0.25), (0.1, 0.45), (1.0, 0.8), (5.0, 0.8)])
def test_fewer_sequences_are_asked_about(weight: float, share: float) -> None:
    chooser = random.Random(0)
    found = [random_sequences(chooser, 40, (4, 9)) for _ in range(30)]
    few, everything = (TableOpinion(0, [-3.0, -1.0, -0.5, -0.1]) for _ in range(2))

    ask(few, found, weight)
    ask_about_all(everything, found)

    assert few.asked_whole < share * everything.asked_whole
    assert few.asked_tokens < share * everything.asked_tokens


def test_those_cut_off_are_asked_about_only_where_none_finished() -> None:
    cut_off = [FoundSequence((5,), -0.1, 1, -0.1, False), FoundSequence((6,), -0.2, 1, -0.2, False)]
    finished = FoundSequence((2, 3), -9.0, 3, -4.5, True)
    found = [[finished, *cut_off], cut_off]

    opinions = ask(TableOpinion(0, [-1.0]), found, 1.0)

    assert opinions == [[-3.0, None, None], [-2.0, -2.0]]


def test_a_source_for_which_nothing_was_found_is_asked_nothing() -> None:
    found = [[], [FoundSequence((2,), -1.0, 2, -1.0, True)], []]

    assert ask(TableOpinion(0, [-1.0]), found, 1.0) == [[], [-2.0], []]
    assert ask(TableOpinion(0, [-1.0]), [[]], 1.0) == [[]]


def test_rounding_does_not_lose_a_winner_however_much_it_weighs() -> None:
    """The winner's beginning comes out a little too low, and the rest of it is certain."""
    weight = 100.0
    found = [[FoundSequence((9, token, 8), -1.0, 4, -1.0, True) for token in (2, 3, 4, 5)]]
    exact = {2: -1.0, 3: -1.0 + MARGIN / 4, 4: -1.0 + MARGIN / 2, 5: -1.0 - MARGIN}

    class Rounding(TableOpinion):
        def _log_prob(self, source: int, sequence: tuple[int, ...]) -> float:  # noqa: ARG002
            whole = exact[sequence[1]]
            is_low = sequence[1] == 4 and len(sequence) == BEGINNING
            return whole - 0.9 * MARGIN * is_low

    opinions = ask(Rounding(0, []), found, weight)

    best = winner(found[0], opinions[0], weight)
    assert best is not None
    assert best.place == 2


def test_one_whose_beginning_already_rules_it_out_is_not_asked_about_whole() -> None:
    found = [
        [
            FoundSequence((9, 9, token), -1.0 - token / 10, 4, -1.0 - token / 10, True)
            for token in range(2, 6)  # written from the right: token, 9, 9, end
        ]
    ]

    class Particular(TableOpinion):
        def token(self, source: int, prefix: tuple[int, ...]) -> float:  # noqa: ARG002
            return -10.0 if prefix == (4,) else -0.25

    scorer = Particular(0, [])
    opinions = ask(scorer, found, 1.0)

    assert opinions == [[-1.0, -1.0, None, -1.0]]
    assert scorer.asked_whole == 3
    assert (0, (4, 9)) in scorer.seen
    assert (0, (4, 9, 9)) not in scorer.seen
