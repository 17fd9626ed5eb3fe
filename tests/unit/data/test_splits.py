from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data.conversations import Conversation, Utterance
from bidibeam.data.splits import assign, in_order, position
from bidibeam.errors import CorpusError


def conversations(ids: list[str]) -> list[Conversation]:
    return [Conversation(identifier, (Utterance("a", f"text {identifier}"),)) for identifier in ids]


def test_shares_are_97_1_and_2_percent() -> None:
    counts = Counter(assign(map(str, range(100_000)), seed=0).values())

    assert counts["train"] == pytest.approx(97_000, abs=300)
    assert counts["validation"] == pytest.approx(1_000, abs=150)
    assert counts["test"] == pytest.approx(2_000, abs=200)


def test_other_shares_take_their_keys_from_training() -> None:
    keys = list(map(str, range(20_000)))
    usual, larger = assign(keys, 0), assign(keys, 0, validation_share=0.1)

    assert Counter(larger.values())["validation"] == pytest.approx(2_000, abs=150)
    assert [key for key in keys if larger[key] == "test"] == [key for key in keys if usual[key] == "test"]
    assert all(larger[key] == "validation" for key in keys if usual[key] == "validation")


def test_positions_never_change_between_versions() -> None:
    assert position("L194", seed=0) == pytest.approx(0.19586161074130914, abs=1e-12)
    assert position("L194", seed=1) != position("L194", seed=0)


@given(st.sets(st.text(), min_size=3), st.randoms(use_true_random=False), st.integers(0, 9))
def test_order_does_not_matter(keys: set[str], random: Any, seed: int) -> None:
    shuffled = sorted(keys)
    random.shuffle(shuffled)

    assert assign(shuffled, seed) == assign(sorted(keys), seed)


def test_adding_keys_moves_no_other() -> None:
    before = assign(map(str, range(2_000)), seed=3)
    after = assign(map(str, range(4_000)), seed=3)

    assert {key: after[key] for key in before} == before


@given(st.sets(st.text(), min_size=3, max_size=12), st.integers(0, 9))
def test_no_split_is_empty_however_few_the_keys(keys: set[str], seed: int) -> None:
    assert set(assign(keys, seed).values()) == {"train", "validation", "test"}


@pytest.mark.parametrize("share", [(0.0, 0.9), (0.97, 0.98), (0.98, 1.0), (0.97, 1.0)])
def test_nor_however_they_fall(share: tuple[float, float]) -> None:
    keys = [key for key in map(str, range(2_000)) if share[0] <= position(key, 0) < share[1]][:3]

    assert sorted(assign(keys, 0).values()) == ["test", "train", "validation"]


def test_fewer_than_three_keys_cannot_be_split() -> None:
    with pytest.raises(
        CorpusError, match=r"^2 conversations cannot be split into train, validation, test: at"
    ):
        assign(["a", "b", "a"], seed=0)


@given(st.lists(st.text(max_size=3)), st.randoms(use_true_random=False))
def test_the_order_of_the_corpus_is_forgotten(ids: list[str], random: Any) -> None:
    shuffled = conversations(ids)
    random.shuffle(shuffled)

    assert in_order(shuffled, seed=0) == in_order(conversations(ids), seed=0)


def test_a_limit_takes_whole_ids_and_a_larger_one_takes_more() -> None:
    everything = conversations(["a", "b", "c", "d"] * 2)

    two, three = (in_order(everything, seed=0, limit=limit) for limit in (2, 3))

    assert len(two) == 4
    assert len({conversation.id for conversation in two}) == 2
    assert three[:4] == two
    assert in_order(everything, seed=0, limit=9) == in_order(everything, seed=0)


def test_a_limit_does_not_favour_a_split() -> None:
    chosen = in_order(conversations([str(index) for index in range(5_000)]), seed=0, limit=1_000)

    assert Counter(assign((said.id for said in chosen), seed=0).values())["train"] == pytest.approx(
        970, abs=25
    )
