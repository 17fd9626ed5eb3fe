"""Pairs of texts to pairs of token ids, which of them are kept, and statistics of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bidibeam.data.conversations import SPLITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bidibeam.data.conversations import Pair
    from bidibeam.data.tokenization import Tokenizer

REASONS = ("empty_source", "empty_response", "source_too_long", "response_too_long")
"""Why a pair is dropped; the first that applies is the one counted."""

PERCENTILES = (5, 25, 50, 75, 90, 95, 99)

CHUNK = 8192  # texts encoded at a time: enough to keep every core busy, few enough to need little memory


@dataclass(frozen=True, slots=True)
class EncodedPairs:
    """Pairs as numbers of texts, and texts as places in one array of tokens."""

    tokens: NDArray[np.int32]  # (tokens,), ids of all distinct texts, one after the other
    starts: NDArray[np.int64]  # (texts,), where each begins
    lengths: NDArray[np.int64]  # (texts,)
    sources: NDArray[np.int64]  # (pairs,), the number of the text
    responses: NDArray[np.int64]  # (pairs,)
    splits: NDArray[np.int8]  # (pairs,), index into `SPLITS`
    reasons: NDArray[np.int8]  # (pairs,), 0 for a pair that is kept, else 1 + the index into `REASONS`

    def is_in(self, split: str) -> NDArray[np.bool_]:
        """(pairs,), which pairs are in a split."""
        return np.equal(self.splits, SPLITS.index(split))

    def count_drops(self, split: str) -> dict[str, int]:
        """How many pairs of a split are dropped, by reason."""
        counts = np.bincount(self.reasons[self.is_in(split)], minlength=len(REASONS) + 1)
        return {reason: int(counts[index]) for index, reason in enumerate(REASONS, start=1)}


def encode_pairs(
    pairs: Sequence[Pair],
    splits: Sequence[str],
    tokenizer: Tokenizer,
    source_tokenizer: Tokenizer | None = None,
    *,
    max_source_length: int,
    max_response_length: int,
    progress: Callable[[int, int], None],
) -> EncodedPairs:
    """Encodes every distinct text once and marks the pairs that are empty or too long.

    Sources that have a tokenizer of their own are other texts than responses. `progress` is called with the
    number of distinct texts encoded, and of all.
    """
    numbers: dict[tuple[Tokenizer, str], int] = {}
    reader = source_tokenizer or tokenizer
    sources = np.array([numbers.setdefault((reader, pair.source), len(numbers)) for pair in pairs], np.int64)
    responses = np.array(
        [numbers.setdefault((tokenizer, pair.response), len(numbers)) for pair in pairs], np.int64
    )
    chunks: list[NDArray[np.int32]] = []
    counts: list[int] = []
    for reader, group in groupby(numbers, key=itemgetter(0)):
        texts = [text for _, text in group]
        for begin in range(0, len(texts), CHUNK):
            encoded = reader.encode_batch(texts[begin : begin + CHUNK])
            counts += map(len, encoded)
            chunks.append(np.fromiter(chain.from_iterable(encoded), np.int32))
            progress(len(counts), len(numbers))
    lengths = np.array(counts, np.int64)
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
        tokens=np.concatenate(chunks),
        starts=np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64),
        lengths=lengths,
        sources=sources,
        responses=responses,
        splits=np.array([SPLITS.index(split) for split in splits], np.int8),
        reasons=reasons.astype(np.int8),
    )


def describe_pairs(pairs: EncodedPairs, tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns what `stats.json` says about pairs and words."""
    kept = pairs.reasons == 0
    return {
        "pairs": {name: int(np.sum(kept & pairs.is_in(name))) for name in SPLITS},
        "dropped": {name: pairs.count_drops(name) for name in SPLITS},
        "lengths": {
            "before_limits": _describe_lengths(pairs, pairs.reasons >= 0),
            "after_limits": _describe_lengths(pairs, kept),
        },
        "coverage": {
            name: _measure_coverage(pairs, kept & pairs.is_in(name), tokenizer.unknown_id) for name in SPLITS
        },
    }


def count_rewritten(
    pairs: Sequence[Pair], splits: Sequence[str], encoded: EncodedPairs, tokenizer: Tokenizer
) -> dict[str, Any]:
    """Counts by split the references of lone pairs that the tokenizer writes otherwise, and shows the first.

    No reply can equal those. Case does not count where the tokenizer keeps none.
    """
    found: dict[str, Any] = {name: {"count": 0, "references": 0} for name in SPLITS[1:]}
    for pair, name, reason in zip(pairs, splits, encoded.reasons.tolist(), strict=True):
        if name not in found or reason or not pair.is_lone:
            continue
        counts, text = found[name], pair.response
        written = tokenizer.text(tokenizer.tokens(tokenizer.encode(text)))
        counts["references"] += 1
        if written != (text if tokenizer.is_cased else text.lower()):
            counts["count"] += 1
            counts.setdefault("first", [text, written])
    return found


def _describe_lengths(pairs: EncodedPairs, chosen: NDArray[np.bool_]) -> dict[str, dict[str, float]]:
    described = {}
    for name, texts in (("source", pairs.sources[chosen]), ("response", pairs.responses[chosen])):
        lengths = pairs.lengths[texts]
        shares = np.percentile(lengths, PERCENTILES, method="inverted_cdf")
        described[name] = {
            "mean": round(float(lengths.mean()), 2),
            **{f"p{share}": int(value) for share, value in zip(PERCENTILES, shares, strict=True)},
            "max": int(lengths.max()),
        }
    return described


def _measure_coverage(pairs: EncodedPairs, chosen: NDArray[np.bool_], unknown_id: int) -> dict[str, float]:
    """Returns the share of running words that the vocabulary holds."""
    seen = np.concatenate([[0], np.cumsum(pairs.tokens == unknown_id)])
    unknown = seen[pairs.starts + pairs.lengths] - seen[pairs.starts]  # (texts,)
    shares = {}
    for name, texts in (("source", pairs.sources[chosen]), ("response", pairs.responses[chosen])):
        running = int(pairs.lengths[texts].sum())
        shares[name] = round(1 - int(unknown[texts].sum()) / running, 6) if running else 1.0
    return shares
