"""What holds for every registered similarity; a new one is tested by being registered."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from bidibeam.hypotheses import Hypothesis
from bidibeam.protocols import ClosestPairFinder, Similarity
from bidibeam.similarities import SIMILARITIES
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.work import counting
from tests.unit.similarities.made import hypotheses, is_first_highest

WORDS = ["i", "do", "n't", "know", "what", "you", "mean", "see", "at", "noon", ",", "friend", "."]
WORDS += ["yes", "no"]
SPACE = WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 5)), "toy")

HYPOTHESES = hypotheses(
    "i do n't know what you mean .",
    "see you at noon then , my friend .",
    "i do n't know .",
    "yes .",
    "no no no no no no",
    "the friend",
    "word without vector",
)
REFERENCES = hypotheses(
    "i do n't know what you mean .",
    "do you know what i mean ?",
    "see you at noon , my friend .",
    "no no no",
    "at noon .",
)


def random_hypotheses(seed: int, *, count: int, longest: int) -> list[Hypothesis]:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, longest + 1, size=count)
    return hypotheses(*(generator.choice(WORDS, size=length).tolist() for length in lengths))


(EMPTY,) = hypotheses("")
LONG = hypotheses(*np.random.default_rng(0).choice(WORDS, size=(3, 200)).tolist())


@pytest.fixture(params=SIMILARITIES.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def similarity(name: str) -> Similarity:
    factory: Any = SIMILARITIES.get(name)
    given = {"space": SPACE, "max_length": 20}  # or T would be as long as the company
    return SIMILARITIES.create(
        name, **{each.name: given[each.name] for each in fields(factory) if each.name in given}
    )


CASES = {
    "sentences": (HYPOTHESES, REFERENCES),
    "some empty": ([EMPTY, *HYPOTHESES], [*REFERENCES, EMPTY]),
    "both empty": ([EMPTY], [EMPTY]),
    "hypotheses empty": ([EMPTY, EMPTY], REFERENCES),
    "references empty": (HYPOTHESES, [EMPTY, EMPTY]),
    "one token": (hypotheses("yes", "no", "unheard"), hypotheses("no", "unheard-of")),
    "200 tokens": (LONG, [*LONG, *REFERENCES]),
    "no hypotheses": ([], REFERENCES),
    "no references": (HYPOTHESES, []),
    "nothing": ([], []),
}


@pytest.mark.parametrize(("one", "other"), CASES.values(), ids=CASES)
def test_a_matrix_of_numbers_from_zero_to_one(
    similarity: Similarity, one: list[Hypothesis], other: list[Hypothesis]
) -> None:
    matrix = similarity.pairwise(one, other)

    assert type(matrix) is np.ndarray
    assert matrix.shape == (len(one), len(other))
    assert matrix.dtype == np.float64
    assert np.isfinite(matrix).all()
    assert ((matrix >= 0) & (matrix <= 1)).all()


def test_nothing_is_closer_than_the_same(similarity: Similarity) -> None:
    both = [*HYPOTHESES, *REFERENCES, *LONG, EMPTY]

    matrix = similarity.pairwise(both, both)

    assert (matrix.diagonal() == matrix.max(axis=1)).all()


def test_another_order_of_hypotheses_is_the_same_order_of_entries(similarity: Similarity) -> None:
    one, other = [*HYPOTHESES, EMPTY, *LONG], [*REFERENCES, EMPTY]
    generator = np.random.default_rng(0)
    rows, columns = generator.permutation(len(one)), generator.permutation(len(other))

    matrix = similarity.pairwise(one, other)
    turned = similarity.pairwise([one[row] for row in rows], [other[column] for column in columns])

    assert (turned == matrix[np.ix_(rows, columns)]).all()


def test_a_pair_scores_the_same_in_whatever_company(similarity: Similarity) -> None:
    matrix = similarity.pairwise(HYPOTHESES, REFERENCES)

    alone = [[similarity.pairwise([one], [other]).item() for other in REFERENCES] for one in HYPOTHESES]

    assert alone == matrix.tolist()


def test_the_closest_pair_is_the_matrix_first_highest(similarity: Similarity) -> None:
    if not isinstance(similarity, ClosestPairFinder):
        pytest.skip("it has no shortcut")
    cases = [
        (random_hypotheses(seed, count=8, longest=6), random_hypotheses(1000 + seed, count=5, longest=6))
        for seed in range(30)
    ]
    cases += [(HYPOTHESES, REFERENCES), ([EMPTY], [EMPTY]), ([EMPTY, EMPTY], [*LONG, EMPTY])]
    for one, other in cases:
        twice = one * 2, other * 2  # so that there are ties

        matrix = similarity.pairwise(*twice)
        closest = similarity.closest(*twice)

        assert is_first_highest(closest, matrix)


def test_threads_do_not_disturb_each_other(similarity: Similarity) -> None:
    cases = [(random_hypotheses(seed, count=6, longest=20), REFERENCES) for seed in range(20)]
    calls: list[Callable[..., Any]] = [similarity.pairwise]
    if isinstance(similarity, ClosestPairFinder):
        calls.append(similarity.closest)
    for call in calls:
        alone = [call(*case) for case in cases]

        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda case, call=call: call(*case), cases))

        assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


def test_signature_settings_and_counted_work(name: str, similarity: Similarity) -> None:
    factory: Any = SIMILARITIES.get(name)
    again = factory(**{field.name: getattr(similarity, field.name) for field in fields(factory)})
    with counting() as work:
        matrix = similarity.pairwise(HYPOTHESES, REFERENCES)

    assert len(np.unique(matrix)) > len(REFERENCES)  # it tells hypotheses apart
    assert work.compared_pairs == len(HYPOTHESES) * len(REFERENCES)
    assert getattr(similarity, "is_parallel", False)
    assert again == similarity
    assert str(getattr(similarity, "signature", "")).split("|")[0] == f"similarity:{name}"
