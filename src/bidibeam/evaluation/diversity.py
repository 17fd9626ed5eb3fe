"""Diversity: how varied replies are, also beside VBS at the same length and in samples of the same size."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import pairwise
from math import inf, isinf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bidibeam.evaluation.significance import paired_test, sample
from bidibeam.evaluation.systems import BASE
from bidibeam.metrics.ngrams import split_words
from bidibeam.metrics.resampling import Resampling
from bidibeam.similarities.bleu import number_tokens
from bidibeam.strategies.ranking import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.evaluation.systems import Evidence, System
    from bidibeam.hypotheses import NBest

    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

DRAWS = 20
TEST_FIELDS = ("difference", "low", "high", "approximate_randomisation")


def diversity(evidence: Evidence) -> dict[str, Any]:
    """Computes distinct-1 and distinct-2 of every system at its largest N_B, and the same at equal length.

    Long replies have more to match with references, and many words repeat more of each other than few. So
    each system has beside it VBS with the word reward that makes it as long ("matched", None if VBS is not
    there), with the difference between the two by the metric, its 95 % interval and its p-value; and its own
    figures on random replies that together have as many words as the system with the fewest has
    ("same_words").
    """
    fewest = min(map(_count_words, (system.replies for system in evidence.widest.values())))
    scores = {name: evidence.scores(system.replies) for name, system in evidence.widest.items()}
    baseline = evidence.widest.get(BASE)
    matched = {} if baseline is None else _match(evidence, RewardedVbs(baseline))
    systems = {
        name: {
            "beam_size": system.beam_size,
            **scores[name],
            "matched": matched.get(name),
            "same_words": sample_distinct(system.reply_words, fewest),
        }
        for name, system in evidence.widest.items()
    }
    return {"metric": evidence.metric.name, "beam_size": evidence.largest, "systems": systems}


def _count_words(replies: Sequence[str]) -> int:
    return sum(len(split_words(reply)) for reply in replies)


def sample_distinct(replies: Sequence[Sequence[str]], words: int) -> dict[str, float]:
    """Returns distinct-1 and distinct-2 of random replies with so many words in all: means of several draws.

    Replies come in a random order; the last one is cut where the words are full. The order depends on nothing
    but the number of replies.
    """
    numbered = number_tokens(replies, [])
    ids, offsets = numbered.ids.astype(np.int64), numbered.offsets
    lengths = np.diff(offsets)  # (replies,)
    owners = np.repeat(np.arange(len(replies)), lengths)  # (words of all,)
    within = np.arange(len(ids)) - offsets[owners]  # (words of all,), position in the reply
    pairs = ids * (ids.max(initial=0) + 1) + np.append(ids[1:], 0)  # (words of all,), void at a reply's end
    _, pairs = np.unique(pairs, return_inverse=True)
    sums = np.zeros(2)
    for draw in range(DRAWS):
        order = np.random.default_rng(draw).permutation(len(replies))
        before = np.cumsum(lengths[order]) - lengths[order]
        kept = np.empty_like(lengths)
        kept[order] = np.clip(words - before, 0, lengths[order])
        sums += [
            np.count_nonzero(np.bincount(ids[within < kept[owners]])),
            np.count_nonzero(np.bincount(pairs[within + 1 < kept[owners]])),
        ]
    distinct = sums / (DRAWS * max(1, words))
    return {"words": words, "distinct-1": float(distinct[0]), "distinct-2": float(distinct[1])}


class Segment(NamedTuple):
    """The reply to a source from some word reward on, up to the next segment."""

    start: float
    reply: str


class RewardedVbs:
    """VBS with any word reward: score + reward * |Y|, the score being the search's own.

    As the reward rises, replies change at known rewards and are the same in between; so the reward at which
    all replies together have a certain number of words is found without trying.
    """

    def __init__(self, vbs: System) -> None:
        self._vbs = vbs
        self._segments = [split_rewards(line.regular) for line in vbs.beams]

    def replies(self, reward: float) -> Sequence[str]:
        """Returns the replies; VBS's own where there is no reward."""
        if reward == 0.0:
            return self._vbs.replies
        return [
            each[bisect_right(each, reward, key=lambda segment: segment.start) - 1].reply if each else ""
            for each in self._segments
        ]

    def find_reward(self, words: int) -> float:
        """Returns the reward at which all replies come nearest to so many words; of several, that nearest 0.

        It lies in the middle of all rewards with the same replies, or a step beyond the last change.
        """

        def between(low: float, high: float) -> float:
            if low < 0.0 < high:
                return 0.0
            if isinf(low):
                return high - 1.0
            return low + 1.0 if isinf(high) else (low + high) / 2

        starts, totals = self._changes
        edges = [-inf, *starts, inf]
        far = np.abs(totals - words)  # (changes + 1,)
        own = abs(_count_words(self._vbs.replies) - words)
        if own <= far.min():
            return 0.0
        nearest = np.flatnonzero(far == far.min())
        return min((between(edges[index], edges[index + 1]) for index in nearest), key=abs)

    @cached_property
    def _changes(self) -> tuple[list[float], Floats]:
        """Rewards at which some reply changes, rising, and the words of all before, between and after."""
        first, at, by = 0, [], []
        for each in self._segments:
            lengths = [len(split_words(segment.reply)) for segment in each]
            first += lengths[0] if lengths else 0
            at += [segment.start for segment in each[1:]]
            by += [after - before for before, after in pairwise(lengths)]
        starts, index = np.unique(np.array(at, dtype=np.float64), return_inverse=True)
        changes = np.bincount(index, weights=by, minlength=len(starts)) if at else np.zeros(0)
        return starts.tolist(), first + np.concatenate([[0.0], np.cumsum(changes)])


def split_rewards(regular: NBest) -> list[Segment]:
    """Returns the replies as the word reward rises from far below 0; those cut off only if nothing finished.

    Each hypothesis' score is a line in the reward, as steep as it is long: the result is the upper envelope.
    Equal lines belong to the better place.
    """
    allowed = [each for each in regular if each.finished] or list(regular)
    lines: dict[int, tuple[float, str]] = {}  # by length
    for hypothesis in allowed:
        score = number(hypothesis, "score")
        if hypothesis.length not in lines or score > lines[hypothesis.length][0]:
            lines[hypothesis.length] = (score, hypothesis.text)
    envelope: list[tuple[float, int, float, str]] = []  # start, length, score, reply
    for length, (score, reply) in sorted(lines.items()):
        start = -inf
        while envelope:
            last_start, last_length, last_score, _ = envelope[-1]
            start = (last_score - score) / (length - last_length)
            if start > last_start:
                break
            envelope.pop()
            start = -inf
        envelope.append((start, length, score, reply))
    return [Segment(start, reply) for start, _, _, reply in envelope]


def _match(evidence: Evidence, rewarded: RewardedVbs) -> dict[str, dict[str, float]]:
    """Returns by system VBS at its length, and whether the system is better by more than random."""
    resampling, systems = Resampling(), evidence.widest
    rewards = {name: rewarded.find_reward(_count_words(system.replies)) for name, system in systems.items()}
    replies = {reward: rewarded.replies(reward) for reward in rewards.values()}
    every = [*(system.replies for system in systems.values()), *replies.values()]
    sampled = sample(evidence.metric, list(map(evidence.measure, every)), resampling)
    samples = dict(zip((*systems, *replies), sampled, strict=True))
    matched = {}
    for name, reward in rewards.items():
        test = paired_test(samples[name], samples[reward], resampling)
        matched[name] = {
            "word_reward": reward,
            **evidence.scores(replies[reward]),
            **{key: getattr(test, key) for key in TEST_FIELDS},
        }
    return matched
