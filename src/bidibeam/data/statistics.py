"""What there is to know about prepared pairs: drops, lengths, coverage, and which words stand where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bidibeam.data.splits import SPLITS

if TYPE_CHECKING:
    from bidibeam.data.encoding import EncodedPairs
    from bidibeam.data.tokenization import Tokenizer

POSITIONS = 10
COMMONEST = 50
PERCENTILES = (5, 25, 50, 75, 90, 95, 99)


def describe(pairs: EncodedPairs, tokenizer: Tokenizer) -> dict[str, Any]:
    """Everything that `stats.json` says about pairs and words."""
    kept = pairs.reasons == 0
    return {
        "pairs": {name: int(np.sum(kept & pairs.within(name))) for name in SPLITS},
        "dropped": {name: pairs.drops(name) for name in SPLITS},
        "lengths": {
            "before_limits": _lengths(pairs, pairs.reasons >= 0),
            "after_limits": _lengths(pairs, kept),
        },
        "coverage": {
            name: _coverage(pairs, kept & pairs.within(name), tokenizer.unknown_id) for name in SPLITS
        },
        "positions": _positions(pairs, kept & pairs.within("train"), tokenizer),
    }


def _lengths(pairs: EncodedPairs, chosen: NDArray[np.bool_]) -> dict[str, dict[str, float]]:
    sides = {"source": pairs.source_lengths[chosen], "response": pairs.response_lengths[chosen]}
    return {
        side: {
            "mean": round(float(lengths.mean()), 2),
            **{f"p{share}": value for share, value in zip(PERCENTILES, _nearest(lengths), strict=True)},
            "max": int(lengths.max()),
        }
        for side, lengths in sides.items()
    }


def _nearest(lengths: NDArray[np.int64]) -> list[int]:
    return [int(value) for value in np.percentile(lengths, PERCENTILES, method="inverted_cdf")]


def _coverage(pairs: EncodedPairs, chosen: NDArray[np.bool_], unknown_id: int) -> dict[str, float]:
    """The share of running words that the vocabulary holds, on each side."""
    seen = np.concatenate([[0], np.cumsum(pairs.tokens == unknown_id)])
    unknown = seen[pairs.starts + pairs.lengths] - seen[pairs.starts]  # (texts,)
    shares = {}
    for side, texts in (("source", pairs.sources[chosen]), ("response", pairs.responses[chosen])):
        running = int(pairs.lengths[texts].sum())
        shares[side] = round(1 - int(unknown[texts].sum()) / running, 6) if running else 1.0
    return shares


def _positions(pairs: EncodedPairs, chosen: NDArray[np.bool_], tokenizer: Tokenizer) -> dict[str, Any]:
    """How often the commonest tokens of training responses stand 1st, 2nd ... from the left and the right."""
    texts = pairs.responses[chosen]
    starts, lengths = pairs.starts[texts], pairs.lengths[texts]
    times = np.bincount(texts, minlength=len(pairs.lengths))  # (texts,)
    counts = np.bincount(pairs.tokens, np.repeat(times, pairs.lengths), tokenizer.vocabulary_size)
    counts[: tokenizer.end_id + 1] = 0
    top = [int(i) for i in np.lexsort((np.arange(len(counts)), -counts))[:COMMONEST] if counts[i]]
    sides: dict[str, list[list[int]]] = {"left": [], "right": []}
    totals = []
    for position in range(1, POSITIONS + 1):
        long_enough = lengths >= position
        totals.append(int(long_enough.sum()))
        places = {"left": starts + position - 1, "right": starts + lengths - position}
        for side, where in places.items():
            found = np.bincount(pairs.tokens[where[long_enough]], minlength=tokenizer.vocabulary_size)
            sides[side].append([int(found[i]) for i in top])
    return {
        "of": "training responses",
        "words": tokenizer.tokens(top),
        "counts": [int(counts[i]) for i in top],
        "responses_at_least_this_long": totals,
        "from_left": sides["left"],
        "from_right": sides["right"],
    }
