"""Beams written by hand, beams drawn at random, and a similarity that is a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from bidibeam.hypotheses import Beams, Hypothesis, NBest, Ranking

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix

PENALTY = 2.0
"""What hand-written hypotheses' log-probabilities were divided by."""


def hypothesis(
    text: str, score: float = -1.0, *, other: float | None = None, finished: bool = True
) -> Hypothesis:
    """A hypothesis whose score is its log-probability over 2."""
    words = tuple(text.split())
    return Hypothesis(text, words, PENALTY * score, len(words) + finished, score, finished, other)


def nbest(*found: Hypothesis | str) -> NBest:
    return NBest(tuple(each if isinstance(each, Hypothesis) else hypothesis(each) for each in found))


def beams(
    *regular: Hypothesis | str,
    reverse: Sequence[Hypothesis | str] = (),
    name: str = "1",
    reference: str | None = None,
) -> Beams:
    return Beams(name, "hi", () if reference is None else (reference,), nbest(*regular), nbest(*reverse))


def texts(ranking: Ranking) -> list[str]:
    return [entry.hypothesis.text for entry in ranking]


def scores(ranking: Ranking) -> list[float]:
    return [entry.score for entry in ranking]


@dataclass(frozen=True)
class Table:
    """Similarities by the two texts; 0 where the table is silent. It notes what it was asked."""

    values: Mapping[tuple[str, str], float]
    asked: list[tuple[int, int]] = field(default_factory=list, compare=False)

    def pairwise(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Matrix:
        self.asked.append((len(judged), len(others)))
        rows = [[self.values.get((one.text, other.text), 0.0) for other in others] for one in judged]
        return np.array(rows, dtype=np.float64)


def same_first_letter(judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> list[list[float]]:
    """A similarity as a user would write it."""
    return [[float(one.text[:1] == other.text[:1]) for other in others] for one in judged]


class SameFirstLetter:
    """The same as a class."""

    def pairwise(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> list[list[float]]:
        return same_first_letter(judged, others)


READY_MADE = SameFirstLetter()
"""The same as an object."""

WORDS = ["a", "b", "c", "d", "e"]

sentences = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


@st.composite
def random_hypotheses(draw: st.DrawFn) -> Hypothesis:
    """Few words and whole numbers, so that ties abound; it has all that a hypothesis may have."""
    return hypothesis(
        draw(sentences),
        -float(draw(st.integers(0, 4))),
        other=-float(draw(st.integers(0, 4))),
        finished=draw(st.booleans()),
    )


def random_nbests(smallest: int = 0) -> st.SearchStrategy[NBest]:
    found = st.lists(random_hypotheses(), min_size=smallest, max_size=5)
    return found.map(lambda hypotheses: NBest(tuple(hypotheses)))


def random_beams(smallest: int = 0) -> st.SearchStrategy[Beams]:
    return st.builds(
        Beams,
        id=st.integers(0, 99).map(str),
        source=sentences,
        references=st.lists(sentences, min_size=1, max_size=3).map(tuple),
        regular=random_nbests(smallest),
        reverse=random_nbests(smallest),
    )
