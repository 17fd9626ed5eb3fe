"""Moves of words beside POT's plans, and by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.similarities.transport import find_flows
from bidibeam.similarities.wmd import Wmd, WmdT
from bidibeam.similarities.word_vectors import WordVectors
from tests.unit.similarities.made import hypotheses

LINE = WordVectors(["paris", "london", "rome", "see"], np.array([[0.0, 3, 7, 100]]).T, "line")
bags = st.lists(st.integers(0, 11), min_size=1, max_size=9)


@given(seed=st.integers(0, 2**32 - 1), senders=st.integers(1, 7), receivers=st.integers(1, 7))
def test_flows_use_up_all_and_cost_what_pots_do(seed: int, senders: int, receivers: int) -> None:
    generator = np.random.default_rng(seed)
    costs = generator.uniform(0.1, 5.0, (senders, receivers))
    supply, demand = (generator.uniform(0.1, 1.0, size) for size in (senders, receivers))
    supply, demand = supply / supply.sum(), demand / demand.sum()

    flows = find_flows(costs, supply, demand)

    assert flows.sum(1) == pytest.approx(supply)
    assert flows.sum(0) == pytest.approx(demand)
    assert (flows * costs).sum() == pytest.approx((ot.emd(supply, demand, costs) * costs).sum())


@pytest.mark.parametrize("weights", ["count", "log"])
@given(seed=st.integers(0, 2**32 - 1), one=bags, other=bags)
def test_moves_are_an_optimal_transport_of_the_words_of_both(
    seed: int, one: list[int], other: list[int], weights: str
) -> None:
    matrix = np.random.default_rng(seed).normal(size=(12, 5))
    similarity = Wmd(WordVectors([f"w{word}" for word in range(12)], matrix), weights)  # type: ignore[arg-type]
    pair = hypotheses([f"w{word}" for word in one], [f"w{word}" for word in other])

    moves = similarity.moves(*pair)

    shares = Counter[str](), Counter[str]()
    for move in moves:
        shares[0][move.word] += move.share  # type: ignore[assignment]
        shares[1][move.other] += move.share  # type: ignore[assignment]
    for words, found in zip((one, other), shares, strict=True):
        mass = {
            f"w{word}": count if weights == "count" else np.log1p(count)
            for word, count in Counter(words).items()
        }
        expected = {word: value / sum(mass.values()) for word, value in mass.items()}
        assert found == pytest.approx(expected, abs=1e-9)
    distance = similarity.distances(pair[:1], pair[1:]).item()
    assert sum(move.share * move.distance for move in moves) == pytest.approx(distance, abs=1e-9)


def test_what_both_hold_stays_and_the_costliest_move_comes_first() -> None:
    pair = hypotheses(["see", "paris", "rome"], ["see", "london", "london"])

    moves = [*map(tuple, WmdT(LINE, max_length=9).moves(*pair))]

    third = pytest.approx(1 / 3)
    assert moves == [
        ("rome", "london", third, 4.0),
        ("paris", "london", third, 3.0),
        ("see", "see", third, 0.0),
    ]


def test_nothing_moves_from_or_to_what_has_no_vectors() -> None:
    known, unknown = hypotheses(["paris"], ["atlantis"])

    assert Wmd(LINE).moves(known, unknown) == Wmd(LINE).moves(unknown, known) == []
    assert [*map(tuple, Wmd(LINE).moves(known, known))] == [("paris", "paris", 1.0, 0.0)]
