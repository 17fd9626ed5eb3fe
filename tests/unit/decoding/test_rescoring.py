"""Scoring only those hypotheses that can still win, and never losing the winner by it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.decoding.rescoring import BEGINNING, MARGIN, score_by_other
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked
from bidibeam.strategies.bidis import BidiS

END = 1
WEIGHTS = [0.0, 0.1, 1.0, 5.0]


@dataclass
class TableScorer:
    """A reverse model by the log-probability of each token after its prefix; it counts what it is asked."""

    seed: int
    values: Sequence[float]
    end_id: int = END
    whole: int = 0
    tokens: int = 0
    seen: set[tuple[str, tuple[int, ...]]] = field(default_factory=set)

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        raise NotImplementedError(texts)

    def log_probs(
        self,
        sources: Sequence[str],
        sequences: Sequence[Sequence[Sequence[int]]],
        *,
        first: int | None = None,
    ) -> list[list[float]]:
        assert len(sources) == len(sequences)
        return [
            [self.log_prob(source, arrange(tuple(ids))[:first]) for ids in line]
            for source, line in zip(sources, sequences, strict=True)
        ]

    def log_prob(self, source: str, written: tuple[int, ...]) -> float:
        self.whole += written[-1:] == (END,) and len(written) > BEGINNING
        for end in range(1, len(written) + 1):
            if (source, written[:end]) not in self.seen:
                self.seen.add((source, written[:end]))
                self.tokens += 1
        return sum(self.token(source, written[:end]) for end in range(1, len(written) + 1))

    def token(self, source: str, prefix: tuple[int, ...]) -> float:
        return random.Random(f"{self.seed} {source} {prefix}").choice(self.values)


def arrange(ids: tuple[int, ...]) -> tuple[int, ...]:
    assert ids[-1] == END
    return (*Direction.REVERSE.arrange(ids[:-1]), END)


def hypothesis(tokens: Sequence[int], log_prob: float, score: float, *, finished: bool = True) -> Hypothesis:
    ids = (*tokens, END) if finished else tuple(tokens)
    return Hypothesis(str(tokens), (), log_prob, len(ids), score, finished, ids=ids)


def random_list(chooser: random.Random, most: int, lengths: tuple[int, int]) -> NBest:
    """Different hypotheses, best first, finished ones before those cut off, with a penalty of 1 + |Y| / 4."""
    written = {
        tuple(chooser.choices(range(2, 6), k=chooser.randint(*lengths)))
        for _ in range(chooser.randint(0, most))
    }
    found = []
    for tokens in sorted(written):
        finished = chooser.random() < 0.7
        log_prob = -chooser.choice([0.0, 0.5, 1.0, 2.0, 3.0, 5.0])
        score = log_prob / (1 + (len(tokens) + finished) / 4)
        found.append(hypothesis(tokens, log_prob, score, finished=finished))
    return NBest(tuple(sorted(found, key=lambda each: (not each.finished, -(each.score or 0)))))


def score(scorer: TableScorer, lists: Sequence[NBest], weight: float | None = None) -> list[NBest]:
    return score_by_other(scorer, [str(number) for number in range(len(lists))], lists, weight=weight)


def other_log_probs(lists: Sequence[NBest]) -> list[list[float | None]]:
    return [[each.other_log_prob for each in nbest] for nbest in lists]


def winner(nbest: NBest, weight: float) -> Ranked | None:
    return next(iter(BidiS(weight).rank(Beams("1", "hi", regular=nbest))), None)


@pytest.mark.parametrize("weight", WEIGHTS)
@given(chooser=st.randoms(use_true_random=False), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_the_winner_is_that_of_scoring_all(chooser: random.Random, seed: int, weight: float) -> None:
    lists = [random_list(chooser, 8, (0, 5)) for _ in range(chooser.randint(1, 3))]
    scorer = TableScorer(seed, [-3.0, -1.0, -0.5, 0.0])

    few, every = score(scorer, lists, weight), score(scorer, lists)

    for some, whole in zip(few, every, strict=True):
        assert winner(some, weight) == winner(whole, weight)
        assert all(
            one.other_log_prob in (None, other.other_log_prob) for one, other in zip(some, whole, strict=True)
        )


@pytest.mark.parametrize(("weight", "share"), [(0.0, 0.25), (0.1, 0.45), (1.0, 0.8), (5.0, 0.8)])
def test_fewer_hypotheses_are_scored(weight: float, share: float) -> None:
    chooser = random.Random(0)
    lists = [random_list(chooser, 40, (4, 9)) for _ in range(30)]
    few, every = (TableScorer(0, [-3.0, -1.0, -0.5, -0.1]) for _ in range(2))

    score(few, lists, weight)
    score(every, lists)

    assert few.whole < share * every.whole
    assert few.tokens < share * every.tokens


def test_those_cut_off_are_scored_only_where_none_finished() -> None:
    cut_off = [hypothesis((5,), -0.1, -0.1, finished=False), hypothesis((6,), -0.2, -0.2, finished=False)]
    finished = hypothesis((2, 3), -9.0, -4.5)

    scored = score(TableScorer(0, [-1.0]), [NBest((finished, *cut_off)), NBest((*cut_off,))], 1.0)

    assert other_log_probs(scored) == [[-3.0, None, None], [-2.0, -2.0]]  # an end is added to those cut off


def test_a_source_without_hypotheses_is_asked_nothing() -> None:
    lists = [NBest(), NBest((hypothesis((2,), -1.0, -1.0),)), NBest()]

    assert other_log_probs(score(TableScorer(0, [-1.0]), lists, 1.0)) == [[], [-2.0], []]
    assert score(TableScorer(0, [-1.0]), [NBest()], 1.0) == [NBest()]


def test_rounding_does_not_lose_a_winner_however_much_it_weighs() -> None:
    """The winner's beginning comes out a little too low, and the rest of it is certain."""
    nbest = NBest(tuple(hypothesis((8, token, 9), -1.0, -1.0) for token in (2, 3, 4, 5)))
    exact = {2: -1.0, 3: -1.0 + MARGIN / 4, 4: -1.0 + MARGIN / 2, 5: -1.0 - MARGIN}

    class Rounding(TableScorer):
        def log_prob(self, source: str, written: tuple[int, ...]) -> float:  # noqa: ARG002
            is_low = written[1] == 4 and len(written) == BEGINNING
            return exact[written[1]] - 0.9 * MARGIN * is_low

    (scored,) = score(Rounding(0, []), [nbest], 100.0)

    best = winner(scored, 100.0)
    assert best is not None
    assert best.place == 2


def test_one_whose_beginning_rules_it_out_is_not_scored_whole() -> None:
    nbest = NBest(
        tuple(hypothesis((9, 9, token), -1.0 - token / 10, -1.0 - token / 10) for token in range(2, 6))
    )  # written from the right: token, 9, 9, end

    class Particular(TableScorer):
        def token(self, source: str, prefix: tuple[int, ...]) -> float:  # noqa: ARG002
            return -10.0 if prefix == (4,) else -0.25

    scorer = Particular(0, [])

    assert other_log_probs(score(scorer, [nbest], 1.0)) == [[-1.0, -1.0, None, -1.0]]
    assert scorer.whole == 3
    assert ("0", (4, 9)) in scorer.seen
    assert ("0", (4, 9, 9)) not in scorer.seen
