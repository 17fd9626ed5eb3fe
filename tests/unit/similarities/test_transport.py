"""Distances beside POT's; the closest pair beside the whole matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf, log1p
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.similarities import transport
from bidibeam.similarities.word_vectors import Bags, WordVectors
from tests.unit.similarities.made import hypotheses

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix

FORMS = [transport.SIMILARITY, transport.RATIO, transport.LITERAL_MIN]

Bag = list[int]
bags = st.lists(st.integers(0, 29), min_size=1, max_size=20)
few_words = st.lists(st.integers(0, 3), min_size=1, max_size=9)
seeds = st.integers(0, 2**32 - 1)
logarithms = pytest.mark.parametrize("logarithmic", [False, True], ids=["count", "log"])


def make_space(seed: int, *, dimension: int = 6, words: int = 30) -> WordVectors:
    generator = np.random.default_rng(seed)
    matrix = generator.normal(scale=10 ** generator.uniform(-3, 3), size=(words, dimension))
    return WordVectors([str(word) for word in range(words)], matrix)


def make_bags(
    space: WordVectors, one: Sequence[Bag], other: Sequence[Bag], *, logarithmic: bool = False
) -> tuple[Bags, Bags]:
    lists = (hypotheses(*([*map(str, bag)] for bag in each)) for each in (one, other))
    return space.bags(*lists, remove_stop_words=False, logarithmic=logarithmic)


def measure(
    space: WordVectors, one: Sequence[Bag], other: Sequence[Bag], *, logarithmic: bool = False
) -> Matrix:
    return transport.measure_distances(*make_bags(space, one, other, logarithmic=logarithmic))[0]


def cost(points: Matrix, other_points: Matrix) -> Matrix:
    costs: Matrix = np.linalg.norm(points[:, None] - other_points, axis=-1)
    return costs


def measure_by_pot(space: WordVectors, one: Bag, other: Bag, *, logarithmic: bool = False) -> float:
    masses, points = [], []
    for bag in (one, other):
        counts = Counter(bag)
        weights = np.array([log1p(count) if logarithmic else count for count in counts.values()], float)
        masses.append(weights / weights.sum())
        points.append(space.matrix[[*counts]])
    return float(ot.emd2(*masses, cost(*points)))


@logarithms
@given(seed=seeds, one=bags, other=bags)
def test_it_equals_pot(seed: int, one: Bag, other: Bag, logarithmic: bool) -> None:
    space = make_space(seed)
    scale = float(np.abs(space.matrix).max())

    distance = measure(space, [one], [other], logarithmic=logarithmic).item()

    expected = measure_by_pot(space, one, other, logarithmic=logarithmic)
    assert distance == pytest.approx(expected, rel=1e-9, abs=1e-9 * min(1.0, scale))


def test_it_equals_pot_for_many_words_on_both_sides() -> None:
    space, generator = make_space(2, words=300), np.random.default_rng(2)
    one, other = (generator.integers(0, 300, size=size).tolist() for size in (400, 350))

    assert measure(space, [one], [other]).item() == pytest.approx(measure_by_pot(space, one, other), rel=1e-9)


def test_it_equals_the_arithmetic() -> None:
    space = WordVectors(["0", "1", "2", "3"], np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 10.0], [6.0, 8.0]]))

    assert measure(space, [[0]], [[1]]).item() == 5.0
    assert measure(space, [[0, 1]], [[1, 2]]).item() == 5.0  # half of it stays, half goes from 0 to 2
    assert measure(space, [[0]], [[1, 2, 2]]).item() == pytest.approx(5 / 3 + 20 / 3)
    assert measure(space, [[0, 3]], [[0, 0, 1, 2]]).item() == pytest.approx(5 / 4 + np.sqrt(40) / 4)


@logarithms
@given(seed=seeds, one=bags, other=bags, order=st.randoms())
def test_equal_bags_are_at_distance_zero_and_equally_far_from_others(
    seed: int, one: Bag, other: Bag, order: Random, logarithmic: bool
) -> None:
    shuffled = list(one)
    order.shuffle(shuffled)

    space = make_space(seed)
    distances = measure(space, [one, shuffled], [shuffled, other], logarithmic=logarithmic)

    assert distances[:, 0].tolist() == [0.0, 0.0]
    assert distances[0, 1] == distances[1, 1]
    whole = sorted(set(one))  # counts in proportion are equal shares
    assert measure(space, [whole], [whole * 3, whole * 7], logarithmic=logarithmic).tolist() == [[0.0, 0.0]]


def test_a_bag_without_words_is_far_from_all_but_its_twins() -> None:
    distances = measure(make_space(0), [[99], [], [1]], [[99], [98], [], [1, 99]])

    assert distances.tolist() == [[0, inf, inf, inf], [inf, inf, 0, inf], [inf, inf, inf, 0]]


@logarithms
@pytest.mark.parametrize("form", FORMS)
@given(
    seed=seeds,
    one=st.lists(st.one_of(few_words, bags), min_size=1, max_size=6),
    other=st.lists(st.one_of(few_words, bags), min_size=1, max_size=6),
    penalties=st.lists(st.sampled_from([0.0, 1e-4, 0.3, 0.5, 1.0]), min_size=6, max_size=6),
)
def test_the_closest_is_the_first_highest_of_all_bit_for_bit(
    seed: int, one: list[Bag], other: list[Bag], penalties: list[float], form: int, logarithmic: bool
) -> None:
    both = make_bags(make_space(seed), one, [*other, one[-1]], logarithmic=logarithmic)
    weights = np.array(penalties[: len(one)])

    matrix = transport.to_similarities(transport.measure_distances(*both)[0], weights, form)
    row, column, value, solved = transport.find_closest_pair(*both, weights, form)

    assert (row, column) == divmod(int(matrix.argmax()), matrix.shape[1])
    assert value == matrix.max()
    assert solved <= matrix.size
