"""What holds for every registered similarity; a new one is tested by being registered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from bidibeam.hypotheses import Hypothesis
from bidibeam.protocols import ClosestPairFinder, Similarity
from bidibeam.similarities import SIMILARITIES
from bidibeam.similarities.spaces import WordVectors
from bidibeam.work import counting

WORDS = [
    "i",
    "do",
    "n't",
    "know",
    "what",
    "you",
    "mean",
    "see",
    "at",
    "noon",
    ",",
    "friend",
    ".",
    "yes",
    "no",
]
SPACE = WordVectors(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 5)), "toy")

JUDGED = [
    "i do n't know what you mean .",
    "see you at noon then , my friend .",
    "i do n't know .",
    "yes .",
    "no no no no no no",
    "the friend",
    "word without vector",
]
OTHERS = [
    "i do n't know what you mean .",
    "do you know what i mean ?",
    "see you at noon , my friend .",
    "no no no",
    "at noon .",
]


def hypothesis(tokens: Sequence[str]) -> Hypothesis:
    return Hypothesis(" ".join(tokens), tuple(tokens), -1.0, len(tokens) + 1, -1.0)


def hypotheses(*texts: str) -> list[Hypothesis]:
    return [hypothesis(text.split()) for text in texts]


def random_hypotheses(seed: int, *, count: int, longest: int) -> list[Hypothesis]:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, longest + 1, size=count)
    return [hypothesis(generator.choice(WORDS, size=length).tolist()) for length in lengths]


JUDGED_HYPOTHESES, OTHER_HYPOTHESES = hypotheses(*JUDGED), hypotheses(*OTHERS)
EMPTY = hypothesis([])
LONG = [hypothesis(np.random.default_rng(seed).choice(WORDS, size=200).tolist()) for seed in range(3)]


@pytest.fixture(params=SIMILARITIES.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def similarity(name: str) -> Similarity:
    factory: Any = SIMILARITIES.get(name)
    needs_space = any(field.name == "space" for field in fields(factory))
    return SIMILARITIES.create(name, **({"space": SPACE} if needs_space else {}))


CASES = {
    "sentences": (JUDGED_HYPOTHESES, OTHER_HYPOTHESES),
    "some empty": ([EMPTY, *JUDGED_HYPOTHESES], [*OTHER_HYPOTHESES, EMPTY]),
    "both empty": ([EMPTY], [EMPTY]),
    "judged empty": ([EMPTY, EMPTY], OTHER_HYPOTHESES),
    "others empty": (JUDGED_HYPOTHESES, [EMPTY, EMPTY]),
    "one token": (hypotheses("yes", "no", "unheard"), hypotheses("no", "unheard-of")),
    "200 tokens": (LONG, [*LONG, *OTHER_HYPOTHESES]),
    "none judged": ([], OTHER_HYPOTHESES),
    "no others": (JUDGED_HYPOTHESES, []),
    "nothing": ([], []),
}


@pytest.mark.parametrize(("judged", "others"), CASES.values(), ids=CASES)
def test_a_matrix_of_numbers_from_zero_to_one(
    similarity: Similarity, judged: list[Hypothesis], others: list[Hypothesis]
) -> None:
    matrix = similarity.pairwise(judged, others)

    assert type(matrix) is np.ndarray
    assert matrix.shape == (len(judged), len(others))
    assert matrix.dtype == np.float64
    assert np.isfinite(matrix).all()
    assert ((matrix >= 0) & (matrix <= 1)).all()


def test_it_tells_hypotheses_apart(similarity: Similarity) -> None:
    matrix = similarity.pairwise(JUDGED_HYPOTHESES, OTHER_HYPOTHESES)

    assert len(np.unique(matrix)) > len(OTHERS)


def test_nothing_is_closer_than_the_same(similarity: Similarity) -> None:
    both = [*JUDGED_HYPOTHESES, *OTHER_HYPOTHESES, *LONG, EMPTY]

    matrix = similarity.pairwise(both, both)

    assert (matrix.diagonal() == matrix.max(axis=1)).all()


def test_another_order_of_hypotheses_is_the_same_order_of_entries(similarity: Similarity) -> None:
    judged, others = [*JUDGED_HYPOTHESES, EMPTY, *LONG], [*OTHER_HYPOTHESES, EMPTY]
    generator = np.random.default_rng(0)
    rows, columns = generator.permutation(len(judged)), generator.permutation(len(others))

    matrix = similarity.pairwise(judged, others)
    turned = similarity.pairwise([judged[row] for row in rows], [others[column] for column in columns])

    assert (turned == matrix[np.ix_(rows, columns)]).all()


def test_a_pair_scores_the_same_in_whatever_company(similarity: Similarity) -> None:
    matrix = similarity.pairwise(JUDGED_HYPOTHESES, OTHER_HYPOTHESES)

    alone = [
        [similarity.pairwise([one], [other]).item() for other in OTHER_HYPOTHESES]
        for one in JUDGED_HYPOTHESES
    ]

    assert alone == matrix.tolist()


def test_the_closest_pair_is_the_matrix_first_highest(similarity: Similarity) -> None:
    if not isinstance(similarity, ClosestPairFinder):
        pytest.skip("it has no shortcut")
    cases = [
        (random_hypotheses(seed, count=8, longest=6), random_hypotheses(1000 + seed, count=5, longest=6))
        for seed in range(100)
    ]
    cases += [(JUDGED_HYPOTHESES, OTHER_HYPOTHESES), ([EMPTY], [EMPTY]), ([EMPTY, EMPTY], [*LONG, EMPTY])]
    for judged, others in cases:
        twice = judged * 2, others * 2  # so that there are ties

        matrix = similarity.pairwise(*twice)
        closest = similarity.closest(*twice)

        assert (closest.judged, closest.other) == divmod(int(matrix.argmax()), len(twice[1]))
        assert closest.value == matrix.max()


def test_the_closest_pairs_of_many_are_the_closest_of_each(similarity: Similarity) -> None:
    together = getattr(similarity, "closest_pairs", None)
    if together is None:
        pytest.skip("it has no shortcut for many")
    assert isinstance(similarity, ClosestPairFinder)
    lists = [random_hypotheses(seed % 7, count=1 + seed % 5, longest=6) for seed in range(120)]
    lists += [JUDGED_HYPOTHESES, OTHER_HYPOTHESES, [EMPTY], [EMPTY, EMPTY], [*LONG, EMPTY], JUDGED_HYPOTHESES]
    comparisons = list(zip(lists[::2], lists[1::2], strict=True))

    alone = [similarity.closest(*each) for each in comparisons]

    assert together(comparisons) == alone
    assert together(comparisons[::-1]) == alone[::-1]
    assert together([]) == []
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(together, [comparisons[start::6] for start in range(6)])
        assert list(parts) == [alone[start::6] for start in range(6)]


def test_batches_of_sources_are_compared_in_several_threads(similarity: Similarity) -> None:
    assert getattr(similarity, "is_parallel", False)


def test_threads_do_not_disturb_each_other(similarity: Similarity) -> None:
    cases = [(random_hypotheses(seed, count=6, longest=20), OTHER_HYPOTHESES) for seed in range(40)]
    calls: list[Callable[..., Any]] = [similarity.pairwise]
    if isinstance(similarity, ClosestPairFinder):
        calls.append(similarity.closest)
    for call in calls:
        alone = [call(*case) for case in cases]

        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda case, call=call: call(*case), cases))

        assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


def test_compared_pairs_are_counted(similarity: Similarity) -> None:
    with counting() as work:
        similarity.pairwise(JUDGED_HYPOTHESES, OTHER_HYPOTHESES)

    assert work.compared_pairs == len(JUDGED) * len(OTHERS)


def test_the_signature_begins_with_the_registered_name(name: str, similarity: Similarity) -> None:
    assert str(getattr(similarity, "signature", "")).split("|")[0] == f"similarity:{name}"


def test_equal_settings_make_equal_similarities(name: str, similarity: Similarity) -> None:
    factory: Any = SIMILARITIES.get(name)

    again = factory(**{field.name: getattr(similarity, field.name) for field in fields(factory)})

    assert again == similarity
    assert getattr(again, "signature", None) == getattr(similarity, "signature", None)
