"""Conversations, the (source, response) pairs they give, and the split that each goes to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from bidibeam.data.words import well_formed
from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SPLITS = ("train", "validation", "test")
VALIDATION_SHARE, TEST_SHARE = 0.01, 0.02
"""The paper's shares; what remains, 97 %, is for training."""


@dataclass(frozen=True, slots=True, order=True)
class Utterance:
    """What one speaker said at one go."""

    speaker: str
    text: str


@dataclass(frozen=True, slots=True, order=True)
class Conversation:
    """Utterances in the order they were said.

    Several conversations may share an id: they are branches or excerpts of one dialogue, and stay on one
    side of a split.
    """

    id: str
    utterances: tuple[Utterance, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and the reply to it; `index` is its place in the conversation, from 0."""

    conversation_id: str
    index: int
    source: str
    response: str


def tidy(texts: Iterable[str]) -> str:
    """Joins texts by single spaces, without stray white space or characters that no file can hold."""
    return well_formed(" ".join(" ".join(texts).split()))


def turn_pairs(conversation: Conversation) -> Iterator[Pair]:
    """Yields pairs of a turn and the next speaker's turn; a turn is all that a speaker says in a row."""
    turns = groupby(conversation.utterances, key=lambda utterance: utterance.speaker)
    yield from _pair_up(conversation.id, [tidy(said.text for said in turn) for _, turn in turns])


def utterance_pairs(conversation: Conversation) -> Iterator[Pair]:
    """Yields pairs of an utterance and the next one, whoever said it."""
    yield from _pair_up(conversation.id, [tidy([said.text]) for said in conversation.utterances])


def _pair_up(conversation_id: str, texts: Sequence[str]) -> Iterator[Pair]:
    for index, (source, response) in enumerate(pairwise(texts)):
        yield Pair(conversation_id, index, source, response)


PAIRINGS: dict[str, Callable[[Conversation], Iterator[Pair]]] = {
    "turns": turn_pairs,
    "utterances": utterance_pairs,
}


def hash_position(key: str, seed: int) -> float:
    """Returns a number in [0, 1) that follows from a key and a seed, spread evenly over keys."""
    digest = hashlib.blake2b(f"{seed}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def assign_splits(
    keys: Iterable[str],
    seed: int,
    *,
    validation_share: float = VALIDATION_SHARE,
    test_share: float = TEST_SHARE,
) -> dict[str, str]:
    """Returns the split of each key, by hash: it depends on the key and the seed alone.

    Adding or reordering keys moves no other key, with one exception: where a split would be empty, the first
    key is for training and the last ones for validation and test. A larger share for validation takes keys
    from training alone.
    """
    positions = {key: hash_position(key, seed) for key in keys}
    if len(positions) < len(SPLITS):
        raise CorpusError(
            f"{len(positions)} conversations cannot be split into {', '.join(SPLITS)}: at least 3 are needed "
            "(or split by pair)."
        )
    test_from = 1 - test_share
    validation_from = test_from - validation_share
    splits = {
        key: "train" if place < validation_from else "validation" if place < test_from else "test"
        for key, place in positions.items()
    }
    ranked = sorted(splits, key=lambda key: (positions[key], key))
    splits[ranked[0]], splits[ranked[-1]] = "train", "test"
    if "validation" not in splits.values():
        splits[ranked[-2]] = "validation"
    return splits


def order_conversations(
    conversations: Iterable[Conversation], seed: int, limit: int | None = None
) -> list[Conversation]:
    """Sorts conversations so that their corpus' order does not matter, and keeps `limit` ids at most.

    A larger limit adds conversations and takes none away.
    """
    ranked = sorted(conversations, key=lambda each: (hash_position(each.id, ~seed), each))
    if limit is None:
        return ranked
    kept = set(list(dict.fromkeys(conversation.id for conversation in ranked))[:limit])
    return [conversation for conversation in ranked if conversation.id in kept]
