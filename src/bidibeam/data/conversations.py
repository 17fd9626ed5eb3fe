"""Conversations, the (source, response) pairs they give, and the split that each goes to."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING
from unicodedata import normalize

from bidibeam.data.words import well_formed
from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SPLITS = ("train", "validation", "test")
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
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

    Attributes:
        id: Decides the split, where there is no official one.
        utterances: What was said.
        alternatives: What else the last of them might have been: further references.
        split: The official split: "train", "validation" or the name of a test set; "" if there is none.
        is_lone: Whether this is a pair that belongs to no conversation. Its id follows from its source, and
            held-out pairs of one source are one item with several references.
    """

    id: str
    utterances: tuple[Utterance, ...]
    alternatives: tuple[str, ...] = ()
    split: str = ""
    is_lone: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """A text and the reply to it; `index` is its place in the conversation, from 0.

    The last three are as in `Conversation`.
    """

    conversation_id: str
    index: int
    source: str
    response: str
    alternatives: tuple[str, ...] = ()
    split: str = ""
    is_lone: bool = False

    @property
    def responses(self) -> tuple[str, ...]:
        """The reply and what else it might have been."""
        return (self.response, *self.alternatives)


def tidy(texts: Iterable[str]) -> str:
    """Joins texts by single spaces, letters composed (NFC), as tokenizers write them.

    Stray white space is gone, and so are characters that no file can hold, or that control a terminal.
    """
    return normalize("NFC", well_formed(" ".join(CONTROLS.sub(" ", " ".join(texts)).split())))


def turn_pairs(conversation: Conversation) -> Iterator[Pair]:
    """Yields pairs of a turn and the next speaker's turn; a turn is all that a speaker says in a row."""
    turns = groupby(conversation.utterances, key=lambda utterance: utterance.speaker)
    yield from _pair_up(conversation, [tidy(said.text for said in turn) for _, turn in turns])


def utterance_pairs(conversation: Conversation) -> Iterator[Pair]:
    """Yields pairs of an utterance and the next one, whoever said it."""
    yield from _pair_up(conversation, [tidy([said.text]) for said in conversation.utterances])


def _pair_up(conversation: Conversation, texts: Sequence[str]) -> Iterator[Pair]:
    others = tuple(tidy([text]) for text in conversation.alternatives)
    for index, (source, response) in enumerate(pairwise(texts)):
        alternatives = others if index == len(texts) - 2 else ()
        yield Pair(
            conversation.id, index, source, response, alternatives, conversation.split, conversation.is_lone
        )


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
    splits: Sequence[str] = SPLITS,
    what: str = "conversations",
) -> dict[str, str]:
    """Returns the split of each key, by hash: it depends on the key and the seed alone.

    Adding or reordering keys moves no other key, with one exception: where a split would be empty, the first
    key is for training and the last ones for validation and test. A larger share for validation takes keys
    from training alone. `splits` are those to be made, "train" among them; `what` is split, in messages.
    """
    positions = {key: hash_position(key, seed) for key in keys}
    if len(positions) < len(splits):
        raise CorpusError(
            f"{len(positions)} {what} cannot be split into {', '.join(splits)}: at least {len(splits)} are "
            "needed (or split by pair)."
        )
    test_from = 1 - test_share * ("test" in splits)
    validation_from = test_from - validation_share * ("validation" in splits)
    found = {
        key: "train" if place < validation_from else "validation" if place < test_from else "test"
        for key, place in positions.items()
    }
    ranked = sorted(found, key=lambda key: (positions[key], key))
    found[ranked[0]] = "train"
    for name in reversed(splits[1:]):
        last = ranked.pop()
        if name not in found.values():
            found[last] = name
    return found


def order_conversations(
    conversations: Iterable[Conversation], seed: int, limit: int | None = None
) -> list[Conversation]:
    """Sorts conversations so that their corpus' order does not matter, and keeps `limit` ids at most.

    A larger limit adds conversations and takes none away. Lone pairs of one source, its references, keep the
    corpus' order among themselves.
    """
    ranked = sorted(
        conversations, key=lambda each: (hash_position(each.id, ~seed), () if each.is_lone else (each,))
    )
    if limit is None:
        return ranked
    kept = set(list(dict.fromkeys(conversation.id for conversation in ranked))[:limit])
    return [conversation for conversation in ranked if conversation.id in kept]
