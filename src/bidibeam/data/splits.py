"""Train, validation and test, by hash: where a conversation goes depends on its id and the seed alone."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bidibeam.data.conversations import Conversation

SPLITS = ("train", "validation", "test")
TRAIN_SHARE, VALIDATION_SHARE = 0.97, 0.01
"""The paper's shares; what remains, 2 %, is for testing."""


def position(key: str, seed: int) -> float:
    """A number in [0, 1) that follows from a key and a seed, spread evenly over keys."""
    digest = hashlib.blake2b(f"{seed}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def assign(keys: Iterable[str], seed: int) -> dict[str, str]:
    """Which split each key belongs to: 97 % train, 1 % validation, 2 % test.

    Adding or reordering keys moves no other key, with one exception: where there are so few keys that a
    split would be empty, the first key is for training and the last ones for validation and test.

    Raises:
        CorpusError: If there are fewer than three keys, so that some split would be empty.
    """
    positions = {key: position(key, seed) for key in keys}
    if len(positions) < len(SPLITS):
        raise CorpusError(
            f"{len(positions)} conversations cannot be split into {', '.join(SPLITS)}: at least 3 are needed "
            "(or split by pair)."
        )
    splits = {key: _split_at(place) for key, place in positions.items()}
    ranked = sorted(splits, key=lambda key: (positions[key], key))
    splits[ranked[0]], splits[ranked[-1]] = "train", "test"
    if "validation" not in splits.values():
        splits[ranked[-2]] = "validation"
    return splits


def in_order(
    conversations: Iterable[Conversation], seed: int, limit: int | None = None
) -> list[Conversation]:
    """Conversations in an order that their corpus' order does not affect, of `limit` ids at most.

    A larger limit adds conversations and takes none away.
    """
    ranked = sorted(conversations, key=lambda conversation: (position(conversation.id, ~seed), conversation))
    if limit is None:
        return ranked
    kept = set(list(dict.fromkeys(conversation.id for conversation in ranked))[:limit])
    return [conversation for conversation in ranked if conversation.id in kept]


def _split_at(place: float) -> str:
    if place < TRAIN_SHARE:
        return "train"
    return "validation" if place < TRAIN_SHARE + VALIDATION_SHARE else "test"
