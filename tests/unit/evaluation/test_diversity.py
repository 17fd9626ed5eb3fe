"""How varied replies are, and what of it is length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.evaluation.diversity import DRAWS, RewardedVbs, diversity, sample_distinct, split_rewards
from bidibeam.evaluation.evaluate import compare_systems
from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.metrics.bleu import CorpusBleu
from bidibeam.metrics.resampling import Resampling
from tests.unit.evaluation.evidences import (
    answering,
    evidence_of,
    hypothesis,
    random_beams,
    random_evidence,
    system,
    value_of,
)

pytestmark = pytest.mark.usefixtures("few_trials")

FEW = Resampling(samples=50, trials=100)
"""What `few_trials` has analyses draw."""


def distinct(order: int, replies: Sequence[Sequence[str]]) -> float:
    return value_of(f"distinct-{order}", list(map(" ".join, replies)), [("",)] * len(replies))


def sample_slowly(replies: Sequence[Sequence[str]], words: int) -> dict[str, Any]:
    """The same, reply by reply."""
    figures = []
    for draw in range(DRAWS):
        left, sample = words, []
        for index in np.random.default_rng(draw).permutation(len(replies)):
            sample.append(replies[index][:left])
            left -= len(sample[-1])
        figures.append((distinct(1, sample), distinct(2, sample)))
    first, second = np.mean(figures, axis=0)
    return {"words": words, "distinct-1": pytest.approx(first), "distinct-2": pytest.approx(second)}


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=6), min_size=1, max_size=6), st.floats(0, 1))
@settings(max_examples=25)
def test_samples_of_so_many_words_are_what_plain_drawing_gives(
    replies: list[list[str]], share: float
) -> None:
    words = sum(map(len, replies))

    assert sample_distinct(replies, int(share * words)) == sample_slowly(replies, int(share * words))
    everything = {"words": words, "distinct-1": distinct(1, replies), "distinct-2": distinct(2, replies)}
    assert sample_distinct(replies, words) == everything


def choose_rewarded(line: Beams, reward: float) -> str:
    """The best by score + reward * |Y|, of those that finished if any did; the first of equal ones."""

    def value(each: Hypothesis) -> float:
        return (each.score or 0.0) + reward * each.length

    allowed = [each for each in line.regular if each.finished] or list(line.regular)
    return max(allowed, key=value).text if allowed else ""


def rewards_between_ties(beams: list[Beams]) -> list[float]:
    """A reward on every side of those at which two hypotheses of a source are equally good."""
    ties = sorted(
        {
            ((one.score or 0.0) - (other.score or 0.0)) / (other.length - one.length)
            for line in beams
            for one, other in combinations(line.regular, 2)
            if one.length != other.length
        }
    )
    if not ties:
        return [0.0]
    return [ties[0] - 1, *((one + other) / 2 for one, other in pairwise(ties)), ties[-1] + 1]


@pytest.mark.parametrize("seed", range(4))
def test_any_reward_chooses_as_a_plain_loop_does_and_none_comes_nearer_to_a_length(seed: int) -> None:
    beams = random_beams(6, regular=8, reverse=0, seed=seed)
    vbs = system("vbs", beams, 8)
    rewarded = RewardedVbs(vbs)

    def words(replies: Sequence[str]) -> int:
        return sum(len(split(reply)) for reply in replies)

    slowly = {
        reward: [choose_rewarded(line, reward) for line in beams] for reward in rewards_between_ties(beams)
    }
    for reward, replies in slowly.items():
        assert rewarded.replies(reward) == replies
    assert rewarded.replies(0.0) == vbs.replies
    lengths = [words(replies) for replies in (*slowly.values(), vbs.replies)]
    for wanted in range(0, 60, 3):
        far = abs(words(rewarded.replies(rewarded.find_reward(wanted))) - wanted)
        assert far == min(abs(length - wanted) for length in lengths)


def rewarded_of(*regular: Hypothesis) -> RewardedVbs:
    return RewardedVbs(system("vbs", [Beams("1", "hi", ("r",), NBest(regular))], 4))


def test_a_reward_by_hand() -> None:
    short, middle, long = hypothesis("a", -1.0), hypothesis("b c", -1.5), hypothesis("d e f", -3.0)
    regular = (short, middle, hypothesis("x y", -2.0), long)

    assert split_rewards(NBest(regular)) == [(-math.inf, "a"), (0.5, "b c"), (1.5, "d e f")]
    rewards = [rewarded_of(*regular).find_reward(words) for words in (0, 1, 2, 3, 9)]
    assert rewards == [0.0, 0.0, 1.0, 2.5, 2.5]


@pytest.mark.parametrize(
    ("regular", "replies"),
    [
        ([("a", -1.0, True), ("b c", -2.0, True), ("d e f", -2.0, True)], ["a", "d e f"]),  # never the best
        ([], []),
        ([("a", -1.0, False), ("b c", -1.0, False)], ["a", "b c"]),
        ([("a", -1.0, False), ("b c", -1.0, False), ("d", -9.0, True)], ["d"]),
    ],
)
def test_what_is_never_the_best_or_was_cut_off_beside_finished_ones_is_no_reply(
    regular: list[tuple[str, float, bool]], replies: list[str]
) -> None:
    found = NBest(tuple(hypothesis(text, score, finished=finished) for text, score, finished in regular))

    assert [each.reply for each in split_rewards(found)] == replies


def test_each_system_stands_beside_vbs_of_its_length_and_the_difference_is_tested() -> None:
    evidence = random_evidence(25)
    vbs = evidence.systems["vbs"][8]
    rewarded = RewardedVbs(vbs)
    fewest = min(sum(map(len, each[8].reply_words)) for each in evidence.systems.values())

    found = diversity(evidence)

    assert found["beam_size"] == 8
    assert found["systems"].keys() == evidence.systems.keys()
    longest = found["systems"]["longest"]["length_ratio"]
    for name, figures in found["systems"].items():
        chosen, matched = evidence.systems[name][8], figures["matched"]
        assert figures["same_words"] == sample_slowly(chosen.reply_words, fewest)
        assert abs(matched["length_ratio"] - figures["length_ratio"]) < 0.05 * longest
        replies = rewarded.replies(matched["word_reward"])
        other = answering("other", replies, [line.reference or "" for line in vbs.beams], 8)
        for metric in ("bleu", "length_ratio", "distinct-1", "distinct-2"):
            assert figures[metric] == value_of(metric, chosen.replies, chosen.references)
            assert matched[metric] == value_of(metric, other.replies, other.references)
        (test,) = compare_systems([other, chosen], CorpusBleu("words"), ["other"], resampling=FEW)
        for key in ("difference", "low", "high", "approximate_randomisation"):
            assert matched[key] == test[key]
    own = found["systems"]["vbs"]["matched"]
    assert (own["word_reward"], own["difference"], own["approximate_randomisation"]) == (0, 0, 1)
    assert len({figures["matched"]["word_reward"] for figures in found["systems"].values()}) > 3


def test_without_vbs_nothing_is_matched_and_a_score_that_is_missing_is_named() -> None:
    found = diversity(evidence_of({"x": {4: answering("x", ["a b"], ["a"])}}))

    assert found["systems"]["x"]["matched"] is None
    assert found["systems"]["x"]["length_ratio"] == 2.0
    vbs = random_evidence().systems["vbs"][8]
    beams = [
        replace(line, regular=NBest(tuple(each._replace(score=None) for each in line.regular)))
        for line in vbs.beams
    ]
    with pytest.raises(InputError, match='has no "score"'):
        diversity(evidence_of({"vbs": {8: replace(vbs, beams=beams)}}))
