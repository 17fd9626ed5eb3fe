"""Distances beside POT's and beside scipy's; the closest pair beside the whole matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from math import inf, log1p
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog  # type: ignore[import-untyped]

from bidibeam.hypotheses import Hypothesis
from bidibeam.similarities import closeness, transport
from bidibeam.similarities.points import squared_distance, squared_distances
from bidibeam.similarities.spaces import WordVectors

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix

    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

FORMS = [closeness.SIMILARITY, closeness.RATIO, closeness.LITERAL_MIN]
compiling = settings(deadline=None)  # the first example may wait for the compiler

Bag = list[int]
bags = st.lists(st.integers(0, 29), min_size=1, max_size=20)
few_words = st.lists(st.integers(0, 3), min_size=1, max_size=9)
unit_bags = st.integers(1, 12).flatmap(
    lambda size: st.tuples(*[st.lists(st.integers(0, 29), min_size=size, max_size=size, unique=True)] * 2)
)
seeds = st.integers(0, 2**32 - 1)
logarithms = pytest.mark.parametrize("logarithmic", [False, True], ids=["count", "log"])


def space_of(seed: int, *, dimension: int = 6, words: int = 30) -> WordVectors:
    generator = np.random.default_rng(seed)
    matrix = generator.normal(scale=10 ** generator.uniform(-3, 3), size=(words, dimension))
    return WordVectors([str(word) for word in range(words)], matrix)


def hypotheses(lists: Sequence[Bag]) -> list[Hypothesis]:
    return [Hypothesis("", tuple(map(str, each)), None, 1, None) for each in lists]


def distances(
    space: WordVectors, judged: Sequence[Bag], others: Sequence[Bag], *, logarithmic: bool = False
) -> Matrix:
    both = space.bags(
        hypotheses(judged), hypotheses(others), remove_stop_words=False, logarithmic=logarithmic
    )
    return transport.distances(*both)[0]


def closest(
    space: WordVectors, judged: Sequence[Bag], others: Sequence[Bag], penalties: Vector, form: int
) -> tuple[int, float, int]:
    """One comparison's place, counted row by row, its value, and the plans made."""
    sequences = [each.tokens for each in hypotheses([*judged, *others])]
    [row], [column], [value], plans = closeness.closest(
        space.bag(sequences, remove_stop_words=False),
        np.arange(len(sequences), dtype=np.int32),
        np.array([0, len(judged), len(sequences)], dtype=np.int32),
        np.concatenate([penalties, np.ones(len(others))]),
        form,
    )
    return int(row) * len(others) + int(column), float(value), plans


def costs_between(points: Matrix, other_points: Matrix) -> Matrix:
    costs: Matrix = np.linalg.norm(points[:, None] - other_points, axis=-1)
    return costs


def theirs(space: WordVectors, one: Bag, other: Bag, *, logarithmic: bool = False) -> float:
    """The same by POT."""
    masses, points = [], []
    for bag in (one, other):
        counts = Counter(bag)
        weights = np.array([log1p(count) if logarithmic else count for count in counts.values()], float)
        masses.append(weights / weights.sum())
        points.append(space.matrix[[*counts]])
    return float(ot.emd2(*masses, costs_between(*points)))


@logarithms
@given(seed=seeds, one=bags, other=bags)
@compiling
def test_it_equals_pot(seed: int, one: Bag, other: Bag, logarithmic: bool) -> None:
    space = space_of(seed)
    scale = float(np.abs(space.matrix).max())

    found = distances(space, [one], [other], logarithmic=logarithmic)[0, 0]

    expected = theirs(space, one, other, logarithmic=logarithmic)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * min(1.0, scale))


@given(seed=seeds, both=unit_bags)
@compiling
def test_words_that_occur_once_are_an_assignment(seed: int, both: tuple[Bag, Bag]) -> None:
    space = space_of(seed)
    costs = costs_between(space.matrix[both[0]], space.matrix[both[1]])
    expected = costs[linear_sum_assignment(costs)].mean()

    assert distances(space, [both[0]], [both[1]])[0, 0] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_it_equals_a_linear_programme() -> None:
    space = space_of(3)
    one, other = [0, 0, 1, 2, 3, 4, 4, 4], [1, 5, 5, 6, 7]
    supply, demand = np.array([2, 1, 1, 1, 3]) / 8, np.array([1, 2, 1, 1]) / 5
    costs = costs_between(space.matrix[:5], space.matrix[[1, 5, 6, 7]])
    rows, columns = np.repeat(np.eye(5), 4, axis=1), np.tile(np.eye(4), 5)

    plan = linprog(
        costs.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([supply, demand]), method="highs"
    )

    assert distances(space, [one], [other])[0, 0] == pytest.approx(plan.fun, rel=1e-9)


def test_it_equals_the_arithmetic() -> None:
    space = WordVectors(["0", "1", "2", "3"], np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 10.0], [6.0, 8.0]]))

    assert distances(space, [[0]], [[1]]).item() == 5.0
    assert distances(space, [[0, 1]], [[1, 2]]).item() == 5.0  # half of it stays, half goes from 0 to 2
    assert distances(space, [[0]], [[1, 2, 2]]).item() == pytest.approx(5 / 3 + 20 / 3)
    assert distances(space, [[0, 3]], [[0, 0, 1, 2]]).item() == pytest.approx(5 / 4 + np.sqrt(40) / 4)


@logarithms
@given(seed=seeds, one=bags, other=bags, order=st.randoms())
@compiling
def test_equal_bags_are_at_distance_zero_and_equally_far_from_others(
    seed: int, one: Bag, other: Bag, order: Random, logarithmic: bool
) -> None:
    shuffled = list(one)
    order.shuffle(shuffled)

    found = distances(space_of(seed), [one, shuffled], [shuffled, other], logarithmic=logarithmic)

    assert found[:, 0].tolist() == [0.0, 0.0]
    assert found[0, 1] == found[1, 1]


def test_bags_in_proportion_are_at_distance_zero() -> None:
    one, others = [1, 2, 2, 7], [[1, 2, 2, 7] * 3, [2] * 6 + [7, 1] * 3]
    assert distances(space_of(0), [one], others).tolist() == [[0.0, 0.0]]

    once = list(range(7))
    found = distances(space_of(0), [once], [once * times for times in range(2, 9)], logarithmic=True)
    assert found.tolist() == [[0.0] * 7]


def test_words_with_equal_or_nearly_equal_vectors_are_no_trouble() -> None:
    matrix = np.ones((4, 300))
    matrix[2:] += [[1e-9], [2e-9]]
    space = WordVectors(["0", "1", "2", "3"], matrix)

    found = distances(space, [[0]], [[1], [2], [3], [2, 3]])

    near = np.sqrt(300) * 1e-9
    assert found[0].tolist() == [0.0, *(pytest.approx(near * k, rel=1e-6) for k in (1, 2, 1.5))]


def test_a_bag_without_words_is_far_from_all_but_its_twins() -> None:
    found = distances(space_of(0), [[99], [], [1]], [[99], [98], [], [1, 99]])

    assert found.tolist() == [[0, inf, inf, inf], [inf, inf, 0, inf], [inf, inf, inf, 0]]


@logarithms
@given(
    seed=seeds, judged=st.lists(bags, min_size=1, max_size=4), others=st.lists(bags, min_size=1, max_size=4)
)
@compiling
def test_a_bound_is_never_above_the_distance(
    seed: int, judged: list[Bag], others: list[Bag], logarithmic: bool
) -> None:
    space = space_of(seed)
    both = space.bags(
        hypotheses(judged), hypotheses(others), remove_stop_words=False, logarithmic=logarithmic
    )
    exact = [[theirs(space, one, other, logarithmic=logarithmic) for other in others] for one in judged]
    slack = 1e-9 * np.abs(space.matrix).max()

    bounds = transport.bounds(*both)

    assert (bounds <= transport.distances(*both)[0]).all()
    assert (bounds <= np.array(exact) + slack).all()


def test_a_bound_is_worth_something() -> None:
    space = space_of(0)
    generator = np.random.default_rng(0)
    both = space.bags(
        *(hypotheses(generator.integers(0, 30, size=(9, 8)).tolist()) for _ in range(2)),
        remove_stop_words=False,
    )

    assert (transport.bounds(*both) / transport.distances(*both)[0]).mean() > 0.8


@pytest.mark.parametrize("form", FORMS)
@given(
    seed=seeds,
    judged=st.lists(st.one_of(few_words, bags), min_size=1, max_size=6),
    others=st.lists(st.one_of(few_words, bags), min_size=1, max_size=6),
    penalties=st.lists(st.sampled_from([0.0, 1e-4, 0.3, 0.5, 1.0]), min_size=6, max_size=6),
)
@compiling
def test_the_closest_is_the_first_highest_of_all_bit_for_bit(
    seed: int, judged: list[Bag], others: list[Bag], penalties: list[float], form: int
) -> None:
    space, others = space_of(seed), [*others, judged[-1]]
    weights = np.array(penalties[: len(judged)])

    both = space.bags(hypotheses(judged), hypotheses(others), remove_stop_words=False)
    matrix = closeness.closeness(transport.distances(*both)[0], weights, form)
    place, value, plans = closest(space, judged, others, weights, form)

    assert place == matrix.argmax()
    assert value == matrix.max()
    assert plans <= matrix.size


def test_many_comparisons_of_some_of_the_bags_do_not_disturb_each_other() -> None:
    space, generator = space_of(4, words=12), np.random.default_rng(4)
    pool = [generator.integers(0, 14, size=size).tolist() for size in generator.integers(0, 6, size=30)]
    different = list(map(list, dict.fromkeys(map(tuple, pool))))
    bags = space.bag([each.tokens for each in hypotheses(different)], remove_stop_words=False)
    penalties = generator.choice([0.2, 0.5, 1.0], size=len(different))
    lists = [generator.integers(0, len(different), size=size) for size in generator.integers(1, 6, size=40)]

    *found, plans = closeness.closest(
        bags,
        np.concatenate(lists).astype(np.int32),
        np.cumsum([0, *map(len, lists)]).astype(np.int32),
        penalties,
        closeness.SIMILARITY,
    )

    for row, column, value, judged, others in zip(*found, lists[::2], lists[1::2], strict=True):
        both = distances(space, [different[bag] for bag in judged], [different[bag] for bag in others])
        matrix = closeness.closeness(both, penalties[judged], closeness.SIMILARITY)
        assert (int(row), int(column)) == divmod(int(matrix.argmax()), len(others))
        assert value == matrix.max()
    assert (
        0
        < plans
        < sum(len(judged) * len(others) for judged, others in zip(lists[::2], lists[1::2], strict=True))
    )


@pytest.mark.parametrize("seed", range(25))
def test_the_closest_is_that_of_an_exhaustive_search_by_pot(seed: int) -> None:
    space, generator = space_of(seed, dimension=20), np.random.default_rng(seed)
    judged, others = (
        [generator.integers(0, 30, size=size).tolist() for size in generator.integers(1, 15, size=7)]
        for _ in range(2)
    )
    penalties = np.minimum(1, np.exp(1 - 12 / np.array([len(each) for each in judged])))

    place, value, plans = closest(space, judged, others, penalties, closeness.SIMILARITY)

    exact = np.array([theirs(space, one, other) for one, other in product(judged, others)])
    expected = np.round(np.repeat(penalties, 7) / (1 + exact), 10)
    assert place == expected.argmax()
    assert value == pytest.approx(expected.max(), abs=1e-9)
    assert plans < 49


def test_few_pairs_need_a_plan_where_beams_agree_in_part() -> None:
    space, generator = space_of(1, dimension=50, words=200), np.random.default_rng(1)
    stems = generator.integers(0, 200, size=(5, 12))
    judged, others = (
        [
            np.where(
                generator.random(12) < 0.4, generator.integers(0, 200, size=12), stems[number % 5]
            ).tolist()
            for number in range(25)
        ]
        for _ in range(2)
    )

    both = space.bags(hypotheses(judged), hypotheses(others), remove_stop_words=False)
    *_, plans = closest(space, judged, others, np.ones(25), closeness.SIMILARITY)

    assert 0 < plans < 0.05 * 25 * 25
    assert transport.distances(*both)[1] == 25 * 25


def test_many_words_on_both_sides_are_no_trouble() -> None:
    space, generator = space_of(2, words=300), np.random.default_rng(2)
    one, other = generator.integers(0, 300, size=400).tolist(), generator.integers(0, 300, size=350).tolist()

    assert distances(space, [one], [other]).item() == pytest.approx(theirs(space, one, other), rel=1e-9)


def test_points_are_as_far_there_as_back_and_equal_ones_not_at_all() -> None:
    points = np.random.default_rng(0).normal(size=(3, 301))
    expected = ((points[:, np.newaxis] - points) ** 2).sum(axis=2)

    found = squared_distances(points, points.copy())

    assert found == pytest.approx(expected, rel=1e-14)
    assert found.tolist() == found.T.tolist()
    assert found.diagonal().tolist() == [0.0] * 3
    assert squared_distance(points, 0, points, 1) == found[0, 1]
