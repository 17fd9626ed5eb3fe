"""Train, validation and test, by hash: where a conversation goes depends on its id and the seed alone."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bidibeam.data.conversations import Conversation

SPLITS = ("train", "validation", "test")
VALIDATION_SHARE, TEST_SHARE = 0.01, 0.02
"""The paper's shares; what remains, 97 %, is for training."""


def position(key: str, seed: int) -> float:
    """A number in [0, 1) that follows from a key and a seed, spread evenly over keys."""
    digest = hashlib.blake2b(f"{seed}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def assign(
    keys: Iterable[str],
    seed: int,
    *,
    validation_share: float = VALIDATION_SHARE,
    test_share: float = TEST_SHARE,
) -> dict[str, str]:
    """Which split each key belongs to; what is neither for validation nor for testing is for training.

    Adding or reordering keys moves no other key, with one exception: where there are so few keys that a
    split would be empty, the first key is for training and the last ones for validation and test. A larger
    share for validation takes keys from training alone.

    Args:
        keys: What is to be split.
        seed: Another one gives another split.
        validation_share: Of all keys, above 0.
        test_share: Of all keys, above 0.

    Raises:
        CorpusError: If there are fewer than three keys, so that some split would be empty.
    """
    positions = {key: position(key, seed) for key in keys}
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
