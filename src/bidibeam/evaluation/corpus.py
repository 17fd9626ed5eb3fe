"""Analyses that need prepared data alone: the best constant reply, and words by position."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.errors import InputError
from bidibeam.metrics.bleu import ORDER, OWN_WORDS, CorpusBleu
from bidibeam.metrics.ngrams import split_words
from bidibeam.metrics.resampling import Resampling, bootstrap, interval
from bidibeam.metrics.scoring import measure, orient, score, sign_references
from bidibeam.metrics.surface import LengthRatio
from bidibeam.similarities.bleu import count_matches, number_tokens

if TYPE_CHECKING:
    from bidibeam.data.prepared import PreparedData
    from bidibeam.protocols import Array, Metric

    References = Sequence[Sequence[str]]

SHORT = 4
"""A reference of so many words at most is called short: one of as many is a single 4-gram."""
AT_ONCE = 50
"""Replies that are compared with all references in one call, which bounds memory."""
COMMONEST, PARTS, SHOWN = 100, 20, 10
"""Replies that are tried, those of them that are tried in pairs, and the best that are reported."""
WORDS_SHOWN, MAX_POSITION = 50, 3
COMMON = 1000
"""A word that stands somewhere more often than this is a likely choice there: the paper's measure."""


Track = Callable[[Iterable[Any], int | None, str], Iterable[Any]]
"""Reports items to a progress bar: the items, how many there are, and what is done with them."""


def track_nothing(items: Iterable[Any], *_: object) -> Iterable[Any]:
    """Returns the same items, without a progress bar."""
    return items


def analyse_constant(
    data: PreparedData,
    *,
    validation_sources: int | None = None,
    sources: int | None = None,
    metric: Metric | None = None,
    track: Track = track_nothing,
) -> dict[str, Any]:
    """Finds what the best constant reply reaches; one with an unknown word is never tried.

    It is chosen on `validation_sources` of validation and scored on `sources` of test; on all by default. The
    metric is corpus BLEU of words by default.
    """
    replies = track(_training_ids(data), len(data.split("train")), "counting replies")
    validation, test = (
        [tuple(example["references"]) for example in data.sample(name, count)]
        for name, count in (("validation", validation_sources), ("test", sources))
    )
    return constant(count_replies(data, replies), validation, test, metric)


def analyse_positions(data: PreparedData, *, track: Track = track_nothing) -> dict[str, Any]:
    """Counts the words at the first places of the training replies."""
    replies = track(_training_ids(data), len(data.split("train")), "counting words")
    return positions(data.tokenizer.tokens(ids) for ids in replies)


CORPUS_ANALYSES: Mapping[str, Callable[..., dict[str, Any]]] = {
    "constant": analyse_constant,
    "positions": analyse_positions,
}
"""By name. Each is called with prepared data and `track`."""


def count_replies(data: PreparedData, replies: Iterable[Sequence[int]]) -> dict[str, int]:
    """Counts how often each reply occurs, as a text; those with an unknown word are left out."""
    tokenizer, counts = data.tokenizer, Counter[str]()
    for ids, count in Counter(map(tuple, replies)).items():
        if tokenizer.unknown_id not in ids:
            counts[tokenizer.text(tokenizer.tokens(ids))] += count
    return counts


def _training_ids(data: PreparedData) -> Iterator[list[int]]:
    pairs = data.split("train")
    for start, size in zip(pairs.response_start.tolist(), pairs.response_length.tolist(), strict=True):
        yield pairs.tokens[start : start + size].tolist()


def constant(
    replies: Mapping[str, int], validation: References, test: References, metric: Metric | None = None
) -> dict[str, Any]:
    """Gives every source the same reply: the best on validation by a metric, scored on test.

    It is the least that a system should beat. It is chosen among the commonest replies of training, and pairs
    of the very commonest. Of equal ones the first is chosen: single ones before pairs, commoner before rarer.
    """
    needed = {"training replies": replies, "validation pairs": validation, "test pairs": test}
    for what, given in needed.items():
        if not given:
            raise InputError(f"There are no {what}, and a constant reply needs some.")
    metric, resampling = metric or CorpusBleu(OWN_WORDS), Resampling()
    tried = list_candidates(replies)
    by_validation = score_constants(tried, validation, metric)
    best = np.argsort(-orient(metric, by_validation), kind="stable")[:SHOWN].tolist()
    scored = {}
    for index in dict.fromkeys([*best, 0]):
        reply = tried[index]
        same = [reply] * len(test)
        measured = measure(metric, same, test)
        low, high = interval(bootstrap(metric, [measured], resampling)[0])
        exact = sum(split_words(reply) in map(split_words, texts) for texts in test)
        scored[index] = {
            f"validation_{metric.name}": float(by_validation[index]),
            "reply": reply,
            "words": len(split_words(reply)),
            "training_count": replies.get(reply, 0),
            metric.name: score(metric, measured),
            "low": low,
            "high": high,
            "length_ratio": score(LengthRatio(), measure(LengthRatio(), same, test)),
            "exact": exact,
            "share_exact": exact / len(test),
        }
    lengths = [[len(split_words(text)) for text in texts] for texts in test]
    drawn = resampling.limit(metric)
    signature = sign_references(metric.signature, test)
    return {
        "metric": metric.name,
        "candidates": {"tried": len(tried), "commonest": COMMONEST, "parts": PARTS},
        "validation_sources": len(validation),
        "chosen": scored[best[0]],
        "runners_up": [scored[index] for index in best[1:]],
        "most_common": scored[0],
        "references": {
            "sources": len(test),
            "words": sum(map(sum, lengths)),
            "short": SHORT,
            "share_short": sum(min(each) <= SHORT for each in lengths) / len(test),
        },
        "signature": str(signature.extended(interval="95%", samples=drawn.samples, seed=drawn.seed)),
    }


def list_candidates(replies: Mapping[str, int]) -> list[str]:
    """Returns the replies that are tried: the commonest, then pairs; equally common ones by the alphabet."""
    ranked = sorted(replies, key=lambda text: (-replies[text], text))[:COMMONEST]
    pairs = (f"{first} {second}" for first, second in product(ranked[:PARTS], repeat=2))
    return list(dict.fromkeys([*ranked, *pairs]))


def score_constants(replies: Sequence[str], references: References, metric: Metric) -> Array:
    """Returns a metric's value for each reply, given to every source."""
    if isinstance(metric, CorpusBleu) and all(len(texts) == 1 for texts in references):
        wanted = [metric.tokens(texts[0]) for texts in references]
        parts = (replies[start : start + AT_ONCE] for start in range(0, len(replies), AT_ONCE))
        sums = [_statistics([metric.tokens(text) for text in part], wanted).sum(axis=1) for part in parts]
        return metric.values(np.concatenate(sums))
    measured = (measure(metric, [reply] * len(references), references) for reply in replies)
    return np.array([score(metric, each) for each in measured])


def _statistics(replies: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Array:
    """Returns BLEU's statistics of every reply beside every reference, (replies, references, columns)."""
    matches = count_matches(*number_tokens(replies, references), ORDER)  # (order, replies, refs)
    lengths = np.array([len(words) for words in replies])[:, None]  # (replies, 1)
    columns = [
        lengths,
        np.array([len(reference) for reference in references])[None],
        *matches,
        *(np.maximum(lengths - order, 0) for order in range(ORDER)),
    ]
    return np.stack([np.broadcast_to(column, matches.shape[1:]) for column in columns], axis=-1)


def positions(responses: Iterable[Sequence[str]]) -> dict[str, Any]:
    """Counts the words at the first positions from the left and the right; equal counts by the alphabet."""
    counters: dict[str, list[Counter[str]]] = {
        side: [Counter() for _ in range(MAX_POSITION)] for side in ("left", "right")
    }
    pairs = 0
    for words in responses:
        pairs += 1
        for index in range(min(MAX_POSITION, len(words))):
            counters["left"][index][words[index]] += 1
            counters["right"][index][words[-1 - index]] += 1
    if not pairs:
        raise InputError("There are no responses whose words could be counted.")
    counted: dict[str, list[dict[str, Any]]] = {side: [] for side in counters}
    for side, of_side in counters.items():
        for position, counter in enumerate(of_side, start=1):
            shown = sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:WORDS_SHOWN]
            total, counts = counter.total(), counter.values()
            counted[side].append(
                {
                    "position": position,
                    "words": [word for word, _ in shown],
                    "counts": [count for _, count in shown],
                    "different": len(counter),
                    "entropy_bits": math.fsum(count / total * math.log2(total / count) for count in counts),
                    "above_1000": sum(count > COMMON for count in counts),
                }
            )
    return {"words_shown": WORDS_SHOWN, "pairs": pairs, "from": counted}
