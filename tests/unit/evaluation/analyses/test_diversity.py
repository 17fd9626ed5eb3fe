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
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.evaluation.analyses.diversity import DRAWS, Rewarded, diversity, same_words, stretches
from bidibeam.evaluation.analyses.evidence import Evidence
from bidibeam.evaluation.analyses.tally import Tally
from bidibeam.evaluation.evaluate import compare
from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.metrics import METRICS
from tests.unit.evaluation.analyses.evidences import (
    answering,
    evidence_of,
    hypothesis,
    random_beams,
    random_evidence,
    system,
)


def distinct(order: int, replies: Sequence[Sequence[str]]) -> float:
    return METRICS.create(f"distinct-{order}").score(replies, replies).value


def slowly_same_words(replies: Sequence[Sequence[str]], words: int) -> dict[str, Any]:
    """The same, reply by reply."""
    figures = []
    for draw in range(DRAWS):
        left, taken = words, []
        for index in np.random.default_rng(draw).permutation(len(replies)):
            taken.append(replies[index][:left])
            left -= len(taken[-1])
        figures.append((distinct(1, taken), distinct(2, taken)))
    first, second = np.mean(figures, axis=0)
    return {"words": words, "distinct-1": pytest.approx(first), "distinct-2": pytest.approx(second)}


@given(
    st.lists(st.lists(st.sampled_from("abcde"), max_size=6), min_size=1, max_size=6),
    st.floats(0, 1),
)
@settings(deadline=None, max_examples=60)
def test_samples_of_so_many_words_are_drawn_as_said(replies: list[list[str]], share: float) -> None:
    words = int(share * sum(map(len, replies)))

    assert same_words(replies, words) == slowly_same_words(replies, words)


def test_all_words_are_the_replies_themselves() -> None:
    replies = [["a", "b", "a"], [], ["b", "c"]]

    found = same_words(replies, 5)

    assert found == {"words": 5, "distinct-1": distinct(1, replies), "distinct-2": distinct(2, replies)}


def slowly_rewarded(line: Beams, reward: float) -> str:
    """The best by score + reward * |Y|, of those that finished if any did; the first of equal ones."""
    allowed = [each for each in line.regular if each.finished] or list(line.regular)
    best: Hypothesis | None = None
    for each in allowed:
        assert each.score is not None
        if best is None or each.score + reward * each.length > best.score + reward * best.length:  # type: ignore[operator]
            best = each
    return best.text if best is not None else ""


def breaks(beams: list[Beams]) -> list[float]:
    """Every reward at which two hypotheses of a source are equally good."""
    found = set()
    for line in beams:
        for one, other in combinations(line.regular, 2):
            if one.length != other.length:
                assert one.score is not None
                assert other.score is not None
                found.add((one.score - other.score) / (other.length - one.length))
    return sorted(found)


def between(values: list[float]) -> list[float]:
    """A value on every side of all others."""
    if not values:
        return [0.0]
    return [values[0] - 1, *((one + other) / 2 for one, other in pairwise(values)), values[-1] + 1]


@pytest.mark.parametrize("seed", range(12))
def test_with_any_reward_it_answers_as_choosing_slowly_does(seed: int) -> None:
    beams = random_beams(6, regular=8, reverse=0, seed=seed)
    vbs = system("vbs", beams, 8)
    rewarded = Rewarded(vbs, Tally(vbs.reference_words))

    for reward in between(breaks(beams)):
        assert rewarded.replies(reward) == [slowly_rewarded(line, reward) for line in beams]
    assert rewarded.replies(0.0) == vbs.replies


@pytest.mark.parametrize("seed", range(12))
def test_no_other_reward_comes_nearer_to_the_length(seed: int) -> None:
    beams = random_beams(6, regular=8, reverse=0, seed=seed)
    vbs = system("vbs", beams, 8)
    tally = Tally(vbs.reference_words)
    rewarded = Rewarded(vbs, tally)

    def words(replies: list[str]) -> int:
        return sum(len(tally.words(reply)) for reply in replies)

    tried = {
        reward: words([slowly_rewarded(line, reward) for line in beams])
        for reward in [*between(breaks(beams)), 0.0]
    }
    for wanted in range(0, 60, 3):
        reward = rewarded.nearest(wanted)
        assert abs(words(rewarded.replies(reward)) - wanted) == min(
            abs(each - wanted) for each in tried.values()
        )


def test_a_reward_by_hand() -> None:
    short, middle, long = hypothesis("a", -1.0), hypothesis("b c", -1.5), hypothesis("d e f", -3.0)
    useless = hypothesis("x y", -2.0)
    beams = [Beams("1", "hi", "r", NBest((short, middle, useless, long)))]
    vbs = system("vbs", beams, 4)
    rewarded = Rewarded(vbs, Tally([["r"]]))

    assert stretches(beams[0].regular) == [(-math.inf, "a"), (0.5, "b c"), (1.5, "d e f")]
    assert [rewarded.nearest(words) for words in (0, 1, 2, 3, 9)] == [0.0, 0.0, 1.0, 2.5, 2.5]


def test_a_hypothesis_that_is_never_the_best_answers_nowhere() -> None:
    regular = NBest((hypothesis("a", -1.0), hypothesis("b c", -2.0), hypothesis("d e f", -2.0)))

    assert [each.reply for each in stretches(regular)] == ["a", "d e f"]
    assert stretches(NBest()) == []


def test_what_was_cut_off_answers_where_nothing_finished() -> None:
    cut, longer = hypothesis("a", -1.0, finished=False), hypothesis("b c", -1.0, finished=False)

    assert [each.reply for each in stretches(NBest((cut, longer)))] == ["a", "b c"]
    assert [each.reply for each in stretches(NBest((cut, longer, hypothesis("d", -9.0))))] == ["d"]


def test_of_rewards_that_come_equally_near_that_nearest_zero_is_taken() -> None:
    """With subwords, |Y| and the number of words need not go together."""
    long, short, middle = hypothesis("a " * 9, 0.0), hypothesis("b", -1.0), hypothesis("c d e", -3.0)
    regular = NBest((long._replace(length=1), short._replace(length=2), middle._replace(length=3)))
    rewarded = Rewarded(system("vbs", [Beams("1", "hi", "r", regular)], 4), Tally([["r"]]))

    assert [each.start for each in stretches(regular)] == [-math.inf, 1.0, 2.0]
    assert rewarded.nearest(2) == 1.5  # one word from 1 to 2, three beyond


def test_vbs_is_its_own_match_and_each_system_stands_beside_vbs_of_its_length() -> None:
    evidence = random_evidence(60)

    found = diversity(evidence)

    assert found["beam_size"] == 8
    assert found["systems"].keys() == evidence.systems.keys()
    own = found["systems"]["vbs"]
    assert own["matched"]["word_reward"] == 0.0
    fewest = min(sum(map(len, each[8].reply_words)) for each in evidence.systems.values())
    for name, figures in found["systems"].items():
        chosen = evidence.systems[name][8]
        for metric in ("bleu", "length_ratio", "distinct-1", "distinct-2"):
            expected = METRICS.create(metric).score(chosen.reply_words, chosen.reference_words).value
            assert figures[metric] == expected
            if name == "vbs":
                assert figures["matched"][metric] == expected
        longest = found["systems"]["longest"]["length_ratio"]
        assert abs(figures["matched"]["length_ratio"] - figures["length_ratio"]) < 0.05 * longest
        assert figures["same_words"] == slowly_same_words(chosen.reply_words, fewest)


def test_the_difference_to_vbs_at_the_same_length_is_tested_as_any_other() -> None:
    evidence = random_evidence(30)
    vbs = evidence.systems["vbs"][8]
    rewarded = Rewarded(vbs, evidence.tally)

    found = diversity(evidence)["systems"]

    for name, sizes in evidence.systems.items():
        matched = found[name]["matched"]
        replies = rewarded.replies(matched["word_reward"])
        other = answering("other", replies, [line.reference or "" for line in vbs.beams], 8)
        (test,) = compare([other, sizes[8]], ["other"])
        assert matched["difference"] == test["difference"]
        assert matched["difference"] == pytest.approx(found[name]["bleu"] - matched["bleu"])
        for key in ("low", "high", "approximate_randomisation"):
            assert matched[key] == test[key]
    assert len({found[name]["matched"]["word_reward"] for name in found}) > 3
    name = "bidia bleu_t"
    replies = rewarded.replies(found[name]["matched"]["word_reward"])
    lines = [[" ".join(split(reply)) for reply in each] for each in (replies, evidence.widest[name].replies)]
    references = [" ".join(words) for words in evidence.tally.references]
    metrics = {"BLEU": BLEU(tokenize="none", force=True)}
    theirs = PairedTest([("vbs", lines[0]), (name, lines[1])], metrics, [references], test_type="ar")
    assert found[name]["matched"]["approximate_randomisation"] == theirs()[1]["BLEU"][1].p_value
    own = found["vbs"]["matched"]
    assert (own["difference"], own["low"], own["high"], own["approximate_randomisation"]) == (0, 0, 0, 1)


def test_without_vbs_nothing_is_matched() -> None:
    found = diversity(evidence_of({"x": {4: answering("x", ["a b"], ["a"])}}))

    assert found["systems"]["x"]["matched"] is None
    assert found["systems"]["x"]["length_ratio"] == 2.0


def scoreless(evidence: Evidence) -> Evidence:
    vbs = evidence.systems["vbs"][8]
    beams = [
        replace(line, regular=NBest(tuple(each._replace(score=None) for each in line.regular)))
        for line in vbs.beams
    ]
    return evidence_of({"vbs": {8: replace(vbs, beams=beams)}})


def test_a_score_that_is_missing_is_named() -> None:
    with pytest.raises(InputError, match='has no "score"'):
        diversity(scoreless(random_evidence()))
