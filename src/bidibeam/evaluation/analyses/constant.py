"""Constant: what one and the same reply to every source scores, the least that a system should beat."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.data.words import detokenize
from bidibeam.errors import InputError, SettingsError
from bidibeam.evaluation.evaluate import WORDS
from bidibeam.evaluation.significance import ORDER, Resampling, bleu_of_sums, interval, resampled_bleu
from bidibeam.metrics import METRICS
from bidibeam.similarities.bleu import count_matches, number_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Sized

    Words = tuple[str, ...]
    Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

SHORT = 4
"""A reference of so many words at most is called short: one of as many is a single 4-gram."""
AT_ONCE = 50
"""Replies that are compared with all references in one call, which bounds memory."""


def constant(
    replies: Mapping[Words, int],
    validation: Sequence[Sequence[str]],
    test: Sequence[Sequence[str]],
    *,
    commonest: int = 100,
    parts: int = 20,
    shown: int = 10,
) -> dict[str, Any]:
    """Give every source the same reply: that with the highest corpus BLEU on validation, scored on test.

    It is chosen among the commonest replies of training, and the commonest of them followed by each other or
    by themselves. Of equal ones the first is chosen: single ones before joined ones, commoner before rarer.

    Args:
        replies: How often each reply was given in training, as words.
        validation: References to choose by, as words.
        test: References to be judged by.
        commonest: How many replies are tried as they are.
        parts: How many of them are joined in pairs, in either order.
        shown: How many of the best on validation are told, the chosen one among them.

    Raises:
        SettingsError: If a number is below 1.
        InputError: If there are no replies, or no references in a split.
    """
    _check_numbers(commonest=commonest, parts=parts, shown=shown)
    _check_given({"training replies": replies, "validation pairs": validation, "test pairs": test})
    tried = candidates(replies, commonest=commonest, parts=parts)
    by_validation = bleus(tried, validation)
    best = np.argsort(-by_validation, kind="stable")[:shown].tolist()
    judged = {
        place: {"validation_bleu": float(by_validation[place]), **_judged(tried[place], replies, test)}
        for place in dict.fromkeys([*best, 0])
    }
    return {
        "candidates": {"tried": len(tried), "commonest": commonest, "parts": parts},
        "validation_sources": len(validation),
        "chosen": judged[best[0]],
        "runners_up": [judged[place] for place in best[1:]],
        "most_common": judged[0],
        "references": _about(test),
        "signature": _signature(),
    }


def _check_numbers(**numbers: int) -> None:
    for name, value in numbers.items():
        if value < 1:
            raise SettingsError(f"{name} must be at least 1, not {value}.")


def _check_given(given: Mapping[str, Sized]) -> None:
    for what, found in given.items():
        if not found:
            raise InputError(f"There are no {what}, and a constant reply needs some.")


def _about(references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """How many there are, how long, and how many of them are short."""
    short = sum(len(reference) <= SHORT for reference in references)
    return {
        "sources": len(references),
        "words": sum(map(len, references)),
        "short": SHORT,
        "share_short": short / len(references),
    }


def candidates(replies: Mapping[Words, int], *, commonest: int, parts: int) -> list[Words]:
    """The replies that are tried: the commonest, then joined pairs; equally common ones by the alphabet."""
    ranked = sorted(replies, key=lambda words: (-replies[words], words))[:commonest]
    joined = (first + second for first, second in product(ranked[:parts], repeat=2))
    return list(dict.fromkeys([*ranked, *joined]))


def bleus(replies: Sequence[Words], references: Sequence[Sequence[str]]) -> Array:
    """Corpus BLEU of each reply, given to every source."""
    found = [
        statistics(replies[start : start + AT_ONCE], references).sum(axis=1)
        for start in range(0, len(replies), AT_ONCE)
    ]
    return bleu_of_sums(np.concatenate(found))


def statistics(replies: Sequence[Words], references: Sequence[Sequence[str]]) -> Array:
    """BLEU's sufficient statistics of every reply beside every reference, (replies, references, columns)."""
    matches = count_matches(number_tokens(replies, references), ORDER).numerators  # (order, replies, refs)
    lengths = np.array([len(words) for words in replies])[:, None]  # (replies, 1)
    shape = matches.shape[1:]
    columns = [
        lengths,
        np.array([len(reference) for reference in references])[None],
        *matches,
        *(np.maximum(lengths - order, 0) for order in range(ORDER)),
    ]
    return np.stack([np.broadcast_to(column, shape) for column in columns], axis=-1)


def _judged(
    reply: Words, replies: Mapping[Words, int], references: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """What is told of a reply: its scores on the test references."""
    counted = statistics([reply], references)[0]  # (references, columns)
    low, high = interval(resampled_bleu(counted, Resampling()))
    exact = sum(tuple(reference) == reply for reference in references)
    return {
        "reply": detokenize(reply),
        "words": len(reply),
        "training_count": replies.get(reply, 0),
        "bleu": float(bleu_of_sums(counted.sum(axis=0, keepdims=True))[0]),
        "low": low,
        "high": high,
        "length_ratio": len(reply) * len(references) / sum(map(len, references)),
        "exact": exact,
        "share_exact": exact / len(references),
    }


def _signature() -> str:
    """That of corpus BLEU with its interval."""
    chance = Resampling()
    facts = {"words": WORDS, "interval": "95%", "samples": chance.samples, "seed": chance.seed}
    signature = METRICS.create("bleu").score([["a"]], [["a"]]).signature
    return str(signature.extended(**facts))
