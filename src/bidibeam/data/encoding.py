"""Pairs of texts to pairs of token ids, each distinct text encoded once, and which pairs are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bidibeam.data.splits import SPLITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bidibeam.data.conversations import Pair
    from bidibeam.data.tokenization import Tokenizer

REASONS = ("empty_source", "empty_response", "source_too_long", "response_too_long")
"""Why a pair is dropped; the first that applies is the one counted."""

CHUNK = 8192  # texts encoded at a time: enough to keep every core busy, few enough to need little memory


@dataclass(frozen=True, slots=True)
class EncodedPairs:
    """Pairs as numbers of texts, and texts as places in one array of tokens.

    Attributes:
        tokens: (tokens,), ids of all distinct texts, one after the other.
        starts: (texts,), where each begins.
        lengths: (texts,).
        sources: (pairs,), the number of the text.
        responses: (pairs,).
        splits: (pairs,), index into `SPLITS`.
        reasons: (pairs,), 0 for a pair that is kept, otherwise 1 + the index into `REASONS`.
    """

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    sources: NDArray[np.int64]
    responses: NDArray[np.int64]
    splits: NDArray[np.int8]
    reasons: NDArray[np.int8]

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """(pairs,), in tokens."""
        return self.lengths[self.sources]

    @property
    def response_lengths(self) -> NDArray[np.int64]:
        """(pairs,), in tokens."""
        return self.lengths[self.responses]

    def within(self, split: str) -> NDArray[np.bool_]:
        """(pairs,), which pairs are in a split."""
        return np.equal(self.splits, SPLITS.index(split))

    def drops(self, split: str) -> dict[str, int]:
        """How many pairs of a split are dropped, by reason."""
        counts = np.bincount(self.reasons[self.within(split)], minlength=len(REASONS) + 1)
        return {reason: int(counts[index]) for index, reason in enumerate(REASONS, start=1)}


def encode_pairs(
    pairs: Sequence[Pair],
    splits: Sequence[str],
    tokenizer: Tokenizer,
    *,
    max_source_length: int,
    max_response_length: int,
    progress: Callable[[int, int], None],
) -> EncodedPairs:
    """Encode every text once and mark the pairs that are empty or too long.

    Args:
        pairs: All pairs.
        splits: The split of each.
        tokenizer: Turns text into ids.
        max_source_length: The longest source kept, in tokens.
        max_response_length: The longest response kept, in tokens, its end not counted.
        progress: Called with the number of distinct texts encoded, and of all.
    """
    numbers: dict[str, int] = {}
    sources = np.array([numbers.setdefault(pair.source, len(numbers)) for pair in pairs], np.int64)
    responses = np.array([numbers.setdefault(pair.response, len(numbers)) for pair in pairs], np.int64)
    tokens, lengths = _encode_texts(list(numbers), tokenizer, progress)
    reasons = np.select(  # the first that holds
        [
            lengths[sources] == 0,
            lengths[responses] == 0,
            lengths[sources] > max_source_length,
            lengths[responses] > max_response_length,
        ],
        range(1, len(REASONS) + 1),
        default=0,
    )
    return EncodedPairs(
        tokens=tokens,
        starts=np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64),
        lengths=lengths,
        sources=sources,
        responses=responses,
        splits=np.array([SPLITS.index(split) for split in splits], np.int8),
        reasons=reasons.astype(np.int8),
    )


def _encode_texts(
    texts: list[str], tokenizer: Tokenizer, progress: Callable[[int, int], None]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    chunks: list[NDArray[np.int32]] = []
    lengths: list[int] = []
    for begin in range(0, len(texts), CHUNK):
        encoded = tokenizer.encode_batch(texts[begin : begin + CHUNK])
        lengths += map(len, encoded)
        chunks.append(np.fromiter((token for ids in encoded for token in ids), np.int32))
        progress(min(begin + CHUNK, len(texts)), len(texts))
    return np.concatenate(chunks), np.array(lengths, np.int64)
