"""Pairs of conversations, and the splits they go to."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data.conversations import (
    Conversation,
    Pair,
    Utterance,
    assign_splits,
    hash_position,
    order_conversations,
    tidy,
    turn_pairs,
    utterance_pairs,
)
from bidibeam.data.corpora.files import make_pair
from bidibeam.errors import CorpusError

PAIRS: list[tuple[Any, list[tuple[str, str]], list[tuple[str, str]]]] = [
    (
        turn_pairs,
        [("ann", "Hello."), ("ann", "Tea?"), ("bob", "Please."), ("ann", "Here.")],
        [("Hello. Tea?", "Please."), ("Please.", "Here.")],
    ),
    (turn_pairs, [("ann", "Hello."), ("bob", "  "), ("ann", "Bob?")], [("Hello.", ""), ("", "Bob?")]),
    (turn_pairs, [("ann", "Hello."), ("ann", "Anyone?")], []),
    (
        utterance_pairs,
        [("ann", "Hello."), ("ann", "Tea?"), ("bob", "Please.")],
        [("Hello.", "Tea?"), ("Tea?", "Please.")],
    ),
]


@pytest.mark.parametrize(("pair_up", "said", "pairs"), PAIRS)
def test_pairs(pair_up: Any, said: list[tuple[str, str]], pairs: list[tuple[str, str]]) -> None:
    conversation = Conversation("c", tuple(Utterance(speaker, text) for speaker, text in said))

    assert list(pair_up(conversation)) == [Pair("c", index, *pair) for index, pair in enumerate(pairs)]


def test_tidy_leaves_single_spaces_and_text_that_can_be_written() -> None:
    assert tidy([" a\u00a0b\n", "\tc\x85", "half \ud83d pair"]) == "a b c half ? pair"


def conversations(ids: list[str]) -> list[Conversation]:
    return [Conversation(identifier, (Utterance("a", f"text {identifier}"),)) for identifier in ids]


def test_shares_are_97_1_and_2_percent_and_others_take_their_keys_from_training() -> None:
    keys = list(map(str, range(50_000)))
    usual, larger = assign_splits(keys, 0), assign_splits(keys, 0, validation_share=0.1)

    counts, others = Counter(usual.values()), Counter(larger.values())
    assert counts["train"] == pytest.approx(48_500, abs=250)
    assert counts["validation"] == pytest.approx(500, abs=100)
    assert others["validation"] == pytest.approx(5_000, abs=300)
    assert [key for key in keys if larger[key] == "test"] == [key for key in keys if usual[key] == "test"]
    assert all(larger[key] == "validation" for key in keys if usual[key] == "validation")


@pytest.mark.parametrize("missing", ["validation", "test"])
def test_only_the_splits_asked_for_are_made(missing: str) -> None:
    keys = list(map(str, range(2_000)))
    names = [name for name in ("train", "validation", "test") if name != missing]

    splits = assign_splits(keys, 0, validation_share=0.1, test_share=0.1, splits=names)

    assert Counter(splits.values())[names[1]] == pytest.approx(200, abs=50)
    assert set(splits.values()) == set(names)
    assert all(splits[key] == names[1] for key in keys if hash_position(key, 0) >= 0.9)
    assert sorted(assign_splits(keys[:2], 0, splits=names).values()) == sorted(names)
    with pytest.raises(CorpusError, match=rf"^1 sources cannot be split into train, {names[1]}: at least 2 "):
        assign_splits(["a"], 0, splits=names, what="sources")


def test_alternatives_are_those_of_the_last_pair() -> None:
    said = tuple(Utterance(speaker, speaker) for speaker in "aba")

    pairs = list(turn_pairs(Conversation("c", said, (" x ", "y"), split="test", is_lone=True)))

    assert [pair.alternatives for pair in pairs] == [(), ("x", "y")]
    assert {(pair.split, pair.is_lone) for pair in pairs} == {("test", True)}


def test_lone_pairs_of_one_source_keep_their_order() -> None:
    pairs = [make_pair("Tea?", text) for text in ("c", "a", "b")]

    ordered = order_conversations([pairs[0], *conversations(["x", "y"]), *pairs[1:]], seed=0)

    assert [each for each in ordered if each.is_lone] == pairs


def test_positions_never_change_between_versions() -> None:
    assert hash_position("L194", seed=0) == pytest.approx(0.19586161074130914, abs=1e-12)
    assert hash_position("L194", seed=1) != hash_position("L194", seed=0)


def test_adding_keys_moves_no_other() -> None:
    before = assign_splits(map(str, range(2_000)), seed=3)
    after = assign_splits(map(str, range(4_000)), seed=3)

    assert {key: after[key] for key in before} == before


@given(st.sets(st.text(), min_size=3, max_size=12), st.randoms(use_true_random=False), st.integers(0, 9))
def test_no_split_is_empty_however_few_the_keys_and_order_does_not_matter(
    keys: set[str], random: Any, seed: int
) -> None:
    shuffled = sorted(keys)
    random.shuffle(shuffled)

    splits = assign_splits(sorted(keys), seed)

    assert set(splits.values()) == {"train", "validation", "test"}
    assert assign_splits(shuffled, seed) == splits


@pytest.mark.parametrize("share", [(0.0, 0.9), (0.97, 0.98), (0.98, 1.0), (0.97, 1.0)])
def test_nor_however_they_fall(share: tuple[float, float]) -> None:
    keys = [key for key in map(str, range(2_000)) if share[0] <= hash_position(key, 0) < share[1]][:3]

    assert sorted(assign_splits(keys, 0).values()) == ["test", "train", "validation"]


def test_fewer_than_three_keys_cannot_be_split() -> None:
    with pytest.raises(CorpusError, match=r"^2 conversations cannot be split into train, validation, test:"):
        assign_splits(["a", "b", "a"], seed=0)


@given(st.lists(st.text(max_size=3)), st.randoms(use_true_random=False))
def test_the_order_of_the_corpus_is_forgotten(ids: list[str], random: Any) -> None:
    shuffled = conversations(ids)
    random.shuffle(shuffled)

    assert order_conversations(shuffled, seed=0) == order_conversations(conversations(ids), seed=0)


def test_a_limit_takes_whole_ids_and_a_larger_one_takes_more() -> None:
    everything = conversations(["a", "b", "c", "d"] * 2)

    two, three = (order_conversations(everything, seed=0, limit=limit) for limit in (2, 3))

    assert len(two) == 4
    assert len({conversation.id for conversation in two}) == 2
    assert three[:4] == two
    assert order_conversations(everything, seed=0, limit=9) == order_conversations(everything, seed=0)
