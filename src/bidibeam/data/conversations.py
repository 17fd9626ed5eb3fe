"""Conversations, and the (source, response) pairs they give."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


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
    """Join texts by single spaces, without stray white space or characters that no file can hold."""
    joined = " ".join(" ".join(texts).split())
    return joined if joined.isascii() else joined.encode("utf-8", "replace").decode("utf-8")


def turn_pairs(conversation: Conversation) -> Iterator[Pair]:
    """Pairs of a turn and the next speaker's turn; a turn is all that a speaker says in a row."""
    turns = [
        tidy(utterance.text for utterance in said)
        for _, said in groupby(conversation.utterances, key=lambda utterance: utterance.speaker)
    ]
    yield from _successive(conversation.id, turns)


def utterance_pairs(conversation: Conversation) -> Iterator[Pair]:
    """Pairs of an utterance and the next one, whoever said it."""
    yield from _successive(conversation.id, [tidy([said.text]) for said in conversation.utterances])


PAIRINGS: dict[str, Callable[[Conversation], Iterator[Pair]]] = {
    "turns": turn_pairs,
    "utterances": utterance_pairs,
}


def _successive(conversation_id: str, texts: Sequence[str]) -> Iterator[Pair]:
    for index, (source, response) in enumerate(pairwise(texts)):
        yield Pair(conversation_id, index, source, response)
