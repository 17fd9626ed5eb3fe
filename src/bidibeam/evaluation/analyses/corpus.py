"""Analyses that need prepared data alone: no model, and no list of hypotheses."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from bidibeam.data.words import split
from bidibeam.evaluation.analyses.constant import constant
from bidibeam.evaluation.analyses.positions import positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bidibeam.data.prepared import PreparedData

VALIDATION, TEST = "validation", "test"


class Track(Protocol):
    """Counts what goes by for whoever watches: the items, how many there are, and what is done with them."""

    def __call__(self, items: Iterable[Any], total: int | None, what: str) -> Iterable[Any]:
        """The same items."""
        ...


def untracked(items: Iterable[Any], total: int | None, what: str) -> Iterable[Any]:  # noqa: ARG001
    """The same items, with nobody watching."""
    return items


def positions_of(data: PreparedData, *, track: Track = untracked) -> dict[str, Any]:
    """Words at the first places of the training replies."""
    tokens = data.tokenizer.tokens
    replies = track(_training_ids(data), len(data.split("train")), "counting words")
    return positions(tokens(ids) for ids in replies)


def constant_of(
    data: PreparedData,
    *,
    validation_sources: int | None = None,
    sources: int | None = None,
    track: Track = untracked,
) -> dict[str, Any]:
    """What the best constant reply reaches; one with an unknown word is never tried.

    Args:
        data: The prepared data.
        validation_sources: How many sources choose it, the first ones; all by default.
        sources: How many judge it; all by default.
        track: Counts the training replies for whoever watches.
    """
    replies = track(_training_ids(data), len(data.split("train")), "counting replies")
    references = [
        [split(example["reference"]) for example in islice(data.examples(name), count)]
        for name, count in ((VALIDATION, validation_sources), (TEST, sources))
    ]
    return constant(counted_replies(data, replies), *references)


def counted_replies(data: PreparedData, replies: Iterable[Sequence[int]]) -> dict[tuple[str, ...], int]:
    """How often each reply occurs, as words; those with an unknown word are left out."""
    tokenizer, found = data.tokenizer, Counter[tuple[str, ...]]()
    for ids, count in Counter(map(tuple, replies)).items():
        if tokenizer.unknown_id not in ids:
            tokens = tokenizer.tokens(ids)
            found[tuple(tokens if tokenizer.kind == "word" else split(tokenizer.text(tokens)))] += count
    return found


def _training_ids(data: PreparedData) -> Iterator[list[int]]:
    pairs = data.split("train")
    for start, size in zip(pairs.response_start.tolist(), pairs.response_length.tolist(), strict=True):
        yield pairs.tokens[start : start + size].tolist()


CORPUS_ANALYSES: Mapping[str, Callable[..., dict[str, Any]]] = {
    "constant": constant_of,
    "positions": positions_of,
}
"""By name. Each is called with prepared data and `track`."""
