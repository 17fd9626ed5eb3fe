"""Diversity: how varied replies are, also beside VBS at the same length and in samples of the same size."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import pairwise
from math import inf, isinf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bidibeam.evaluation.significance import Resampling, chances_of, paired_test
from bidibeam.similarities.bleu import number_tokens
from bidibeam.strategies.ranking import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bidibeam.evaluation.analyses.evidence import Evidence
    from bidibeam.evaluation.analyses.tally import Tally
    from bidibeam.evaluation.systems import System
    from bidibeam.hypotheses import NBest

    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

BASELINE = "vbs"
DRAWS = 20


def diversity(evidence: Evidence) -> dict[str, Any]:
    """Distinct-1 and distinct-2 of every system at its largest N_B, and what becomes of them at equal length.

    Long replies have more to match with references, and many words repeat more of each other than few. So
    each system has beside it VBS with the word reward that makes it as long ("matched", None if VBS is not
    there), with the difference between the two in BLEU, its 95 % interval and its p-value; and its own
    figures on random replies that together have as many words as the system with the fewest has
    ("same_words").

    Raises:
        InputError: If a reference is missing.
    """
    tally = evidence.tally
    words = {
        name: [tally.words(reply) for reply in system.replies] for name, system in evidence.widest.items()
    }
    fewest = min(sum(map(len, each)) for each in words.values())
    baseline = evidence.widest.get(BASELINE)
    matched = {} if baseline is None else _matched(evidence.widest, Rewarded(baseline, tally), tally)
    systems = {}
    for name, system in evidence.widest.items():
        systems[name] = {
            "beam_size": system.beam_size,
            **tally.scores(system.replies),
            "matched": matched.get(name),
            "same_words": same_words(words[name], fewest),
        }
    return {"beam_size": evidence.largest, "systems": systems}


def same_words(replies: Sequence[Sequence[str]], words: int) -> dict[str, float]:
    """Distinct-1 and distinct-2 of random replies with so many words in all, as the mean of several draws.

    Replies are taken in a random order; the last one is cut where the words are full. The order depends on
    nothing but the number of replies.
    """
    numbered = number_tokens(replies, [])
    ids, offsets = numbered.ids.astype(np.int64), numbered.offsets
    lengths = np.diff(offsets)  # (replies,)
    owners = np.repeat(np.arange(len(replies)), lengths)  # (words of all,)
    places = np.arange(len(ids)) - offsets[owners]  # (words of all,), within the reply
    pairs = ids * (ids.max(initial=0) + 1) + np.append(ids[1:], 0)  # (words of all,), void at a reply's end
    _, pairs = np.unique(pairs, return_inverse=True)
    sums = np.zeros(2)
    for draw in range(DRAWS):
        order = np.random.default_rng(draw).permutation(len(replies))
        before = np.cumsum(lengths[order]) - lengths[order]
        kept = np.empty_like(lengths)
        kept[order] = np.clip(words - before, 0, lengths[order])
        sums += [
            np.count_nonzero(np.bincount(ids[places < kept[owners]])),
            np.count_nonzero(np.bincount(pairs[places + 1 < kept[owners]])),
        ]
    distinct = sums / (DRAWS * max(1, words))
    return {"words": words, "distinct-1": float(distinct[0]), "distinct-2": float(distinct[1])}


class Stretch(NamedTuple):
    """What answers a source from some word reward on, up to the next stretch."""

    start: float
    reply: str


class Rewarded:
    """VBS with any word reward: score + reward * |Y|, the score being the search's own.

    As the reward rises, replies change at known rewards and are the same in between; so the reward at which
    all replies together have a certain number of words is found without trying.

    Args:
        vbs: VBS, with its regular beams.
        tally: Counts words.

    Raises:
        InputError: If a hypothesis has no score.
    """

    def __init__(self, vbs: System, tally: Tally) -> None:
        self._vbs = vbs
        self._tally = tally
        self._stretches = [stretches(line.regular) for line in vbs.beams]

    def replies(self, reward: float) -> list[str]:
        """The replies; VBS's own where there is no reward."""
        if reward == 0.0:
            return self._vbs.replies
        return [
            each[bisect_right(each, reward, key=lambda stretch: stretch.start) - 1].reply if each else ""
            for each in self._stretches
        ]

    def nearest(self, words: int) -> float:
        """The reward at which all replies together come nearest to so many words; of several, that nearest 0.

        It lies in the middle of all rewards with the same replies, or a step beyond the last change.
        """
        starts, totals = self._changes
        edges = [-inf, *starts, inf]
        far = np.abs(totals - words)  # (changes + 1,)
        own = abs(sum(len(self._tally.words(reply)) for reply in self._vbs.replies) - words)
        if own <= far.min():
            return 0.0
        rewards = [_within(edges[index], edges[index + 1]) for index in np.flatnonzero(far == far.min())]
        return min(rewards, key=abs)

    @cached_property
    def _changes(self) -> tuple[list[float], Floats]:
        """Rewards at which some reply changes, rising, and the words of all before, between and after."""
        first, at, by = 0, [], []
        for each in self._stretches:
            lengths = [len(self._tally.words(stretch.reply)) for stretch in each]
            first += lengths[0] if lengths else 0
            at += [stretch.start for stretch in each[1:]]
            by += [after - before for before, after in pairwise(lengths)]
        starts, index = np.unique(np.array(at, dtype=np.float64), return_inverse=True)
        changes = np.bincount(index, weights=by, minlength=len(starts)) if at else np.zeros(0)
        return starts.tolist(), first + np.concatenate([[0.0], np.cumsum(changes)])


def stretches(regular: NBest) -> list[Stretch]:
    """What answers as the word reward rises from far below 0, those cut off only where nothing finished.

    Each hypothesis' score is a line in the reward, as steep as it is long: the highest lines are kept. Equal
    lines belong to the better place.
    """
    allowed = [each for each in regular if each.finished] or list(regular)
    lines: dict[int, tuple[float, str]] = {}
    for hypothesis in allowed:
        score = number(hypothesis, "score")
        if hypothesis.length not in lines or score > lines[hypothesis.length][0]:
            lines[hypothesis.length] = (score, hypothesis.text)
    found: list[tuple[float, int, float, str]] = []  # start, length, score, reply
    for length, (score, reply) in sorted(lines.items()):
        start = -inf
        while found:
            last_start, last_length, last_score, _ = found[-1]
            start = (last_score - score) / (length - last_length)
            if start > last_start:
                break
            found.pop()
            start = -inf
        found.append((start, length, score, reply))
    return [Stretch(start, reply) for start, _, _, reply in found]


def _within(low: float, high: float) -> float:
    """A reward between two others, 0 if it is."""
    if low < 0.0 < high:
        return 0.0
    if isinf(low):
        return high - 1.0
    return low + 1.0 if isinf(high) else (low + high) / 2


def _matched(systems: Mapping[str, System], rewarded: Rewarded, tally: Tally) -> dict[str, dict[str, float]]:
    """By system, VBS at its length, and whether the system is better by more than chance."""
    resampling = Resampling()
    rewards = {
        name: rewarded.nearest(sum(len(tally.words(reply)) for reply in system.replies))
        for name, system in systems.items()
    }
    replies = {reward: rewarded.replies(reward) for reward in rewards.values()}
    every = [*(system.replies for system in systems.values()), *replies.values()]
    chances = dict(
        zip((*systems, *replies), chances_of(list(map(tally.statistics, every)), resampling), strict=True)
    )
    found = {}
    for name, reward in rewards.items():
        test = paired_test(chances[name], chances[reward], resampling)
        found[name] = {
            "word_reward": reward,
            **tally.scores(replies[reward]),
            "difference": test.difference,
            "low": test.low,
            "high": test.high,
            "approximate_randomisation": test.approximate_randomisation,
        }
    return found
