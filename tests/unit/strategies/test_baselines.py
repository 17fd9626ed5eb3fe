"""Baselines of agreement: the most likely hypothesis, the longest, a random one, and the best there is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace

import pytest
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from bidibeam.data.words import split
from bidibeam.errors import BidibeamError, SettingsError, UnknownNameError
from bidibeam.hypotheses import Direction, Hypothesis, NBest, Ranked
from bidibeam.metrics import build_metric
from bidibeam.protocols import Strategy
from bidibeam.similarities.bleu import BleuT
from bidibeam.strategies.baselines import Longest, Oracle, Random, ReverseVbs, Vbs, VbsTuned
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.bidis import BidiS
from tests.unit.strategies.lists import beams, hypothesis, scores, texts


def test_vbs_ranks_the_highest_score_first_and_those_cut_off_last() -> None:
    found = beams(
        hypothesis("maybe", -2.0),
        hypothesis("well i", -0.5, finished=False),
        hypothesis("yes", -1.0),
        hypothesis("well", -2.0),
        hypothesis("so i", -0.4, finished=False),
    )

    ranking = Vbs().rank(found)
    reverse = ReverseVbs().rank(beams("x", reverse=[hypothesis("hey", -2.0), hypothesis("ho", -1.5)]))

    assert texts(ranking) == ["yes", "maybe", "well", "so i", "well i"]
    assert ranking.entries[0] == Ranked(hypothesis("yes", -1.0), Direction.REGULAR, place=2, score=-1.0)
    assert [(entry.direction, entry.place) for entry in reverse] == [
        (Direction.REVERSE, 1),
        (Direction.REVERSE, 0),
    ]


def of_length(length: int, log_prob: float) -> Hypothesis:
    return Hypothesis(f"{length}", (), log_prob, length, score=-9.0)


def test_a_tuned_score_by_hand() -> None:
    # lp = ((5 + 7) / 6)^2 = 4 and ((5 + 1) / 6)^2 = 1.
    found = beams(of_length(1, -3.0), of_length(7, -8.0))

    ranking = VbsTuned(length_exponent=2, word_reward=0.25).rank(found)

    assert texts(ranking) == ["7", "1"]
    assert scores(ranking) == pytest.approx([-8 / 4 + 0.25 * 7, -3 / 1 + 0.25 * 1])
    assert scores(VbsTuned(0.0, 0.0).rank(found)) == [-3.0, -8.0]  # log-probability alone
    cut_off = beams(of_length(2, -2.0), of_length(6, -3.0), of_length(30, -1.0)._replace(finished=False))
    assert texts(VbsTuned(0.0, 0.2).rank(cut_off)) == ["2", "6", "30"]
    assert texts(VbsTuned(0.0, 0.3).rank(cut_off)) == ["6", "2", "30"]
    assert scores(VbsTuned(-10, 0.0).rank(beams(of_length(1, -2.0)))) == [-2.0]


def test_the_longest_in_tokens_comes_first_and_ties_keep_beam_order() -> None:
    pieces = hypothesis("abcde")._replace(tokens=tuple("abcde"), length=9)
    found = beams("b b", "a", "c c c", "a a", hypothesis("d d d d", finished=False), pieces)

    ranking = Longest().rank(found)

    assert texts(ranking) == ["abcde", "c c c", "b b", "a a", "a", "d d d d"]
    assert scores(ranking) == [5.0, 3.0, 2.0, 2.0, 1.0, 4.0]


UNSCORED = hypothesis("yes")._replace(score=None, log_prob=None)
FOUR = ["a", "b", "c", "d"]


def order(seed: int, name: str) -> list[str]:
    return texts(Random(seed).rank(beams(*FOUR, name=name)))


def test_a_shuffle_depends_on_seed_and_id_alone() -> None:
    names = [str(number) for number in range(50)]

    once = {name: order(0, name) for name in names}

    assert once == {name: order(0, name) for name in reversed(names)}
    assert {tuple(sorted(shuffled)) for shuffled in once.values()} == {tuple(FOUR)}
    assert any(order(1, name) != once[name] for name in names)
    # The same shuffle in years to come.
    assert [order(0, name)[0] for name in ("1", "2", "3", "4", "5", "6")] == ["c", "c", "b", "c", "d", "b"]


def test_the_oracle_chooses_by_sentence_bleu() -> None:
    # Matches of "see you at noon then" by order: 4, 3, 2, 1 of 5, 4, 3, 2; the others have no n-gram so long.
    found = beams("i know", "see you at noon then", "noon", reference="See you at noon")

    ranking = Oracle().rank(found)

    assert texts(ranking) == ["see you at noon then", "noon", "i know"]
    assert scores(ranking)[0] == pytest.approx((4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert scores(ranking)[1] == pytest.approx((1 * 0.1 * 0.1 * 0.1) ** 0.25 * math.exp(1 - 4 / 1))
    assert scores(ranking)[2] == 0.0
    pieces = hypothesis("Don't!")._replace(tokens=("D", "on'", "t!"))  # words are read as metrics do
    assert scores(Oracle().rank(beams(pieces, reference="don't !")))[0] > 0.1


def test_the_oracles_ties_go_to_the_better_rank_finished_or_not_and_are_counted() -> None:
    found = beams("no", "yes", hypothesis("yes", finished=False), "maybe yes", reference="yes")

    ranking = Oracle().rank(found)

    assert [entry.place for entry in ranking] == [1, 2, 3, 0]
    assert ranking.tied == 2
    assert Oracle().rank(replace(found, references=("other",))).tied == 4


def test_the_oracle_takes_any_reference_and_any_metric_of_single_replies() -> None:
    found = replace(beams("a x x x", "x x x b c", "c c", "A b"), references=("a b", "b c d"))

    values = scores(Oracle().rank(found))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words = [split(text) for text in texts(Oracle().rank(found))]
        theirs = [
            sentence_bleu([["a", "b"], ["b", "c", "d"]], each, smoothing_function=SmoothingFunction().method1)
            for each in words
        ]
    assert values == pytest.approx(theirs)
    assert texts(Oracle("wer").rank(found))[0] == "A b"  # 1 of 2 words; "x x x b c": 4 of 3
    assert scores(Oracle("wer").rank(found)) == sorted(scores(Oracle("wer").rank(found)), reverse=True)
    assert Oracle("exact_match").rank(found).tied == 4
    folded = Oracle(build_metric("exact_match", lowercase=True))
    assert [entry.place for entry in folded.rank(found)] == [3, 0, 1, 2]
    assert str(folded.signature).startswith("strategy:oracle|by:metric:exact_match,case:lc,bidibeam:")
    assert str(Oracle().signature) == "strategy:oracle|by:sentence-bleu,order:4,smoothing:floor"
    assert not Oracle("wer").rank(replace(found, regular=NBest()))


def test_an_oracle_by_what_it_cannot_choose_by_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^The oracle needs a per-reply metric, and distinct-1 is "):
        Oracle("distinct-1")
    with pytest.raises(UnknownNameError, match=r"^Unknown metric 'blue'\. Did you mean 'bleu'\?"):
        Oracle("blue")


def test_a_source_is_drawn_for_whatever_its_id() -> None:
    assert len(Random().rank(beams("x", "y", name="\ud800"))) == 2


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (lambda: VbsTuned(math.nan, 0.0), "length_exponent must be a finite number, not nan"),
        (lambda: VbsTuned(0.0, True), "word_reward must be a finite number, not True"),
        (lambda: VbsTuned(0.0, "1"), "word_reward must be a finite number, not '1'"),  # type: ignore[arg-type]
        (lambda: VbsTuned(-400.0, 0.0), "length_exponent must lie between -10 and 10, not -400.0"),
        (lambda: VbsTuned(0.0, 1e9), "word_reward must lie between -10,000 and 10,000, not 1000000000.0"),
        (lambda: BidiS(1e308), "lambda must lie between -10,000 and 10,000, not 1e+308"),
        (lambda: BidiS(None), "lambda must be a finite number, not None"),  # type: ignore[arg-type]
        (lambda: Random(1.0), "seed must be a whole number, not 1.0"),  # type: ignore[arg-type]
        (lambda: Random(True), "seed must be a whole number, not True"),
        (lambda: Oracle().rank(beams("yes", name="line 7")), "'line 7' has no reference, and the oracle"),
        (lambda: Vbs().rank(beams("no", UNSCORED)), "'yes' has no \"score\"; `bidibeam score` adds"),
        (lambda: ReverseVbs().rank(beams(reverse=[UNSCORED])), "'yes' has no \"score\"; `bidibeam score`"),
        (
            lambda: VbsTuned(1.0, 0.0).rank(beams(UNSCORED)),
            "'yes' has no \"log_prob\"; `bidibeam score` adds",
        ),
    ],
)
def test_refusals(make: Callable[[], object], fragment: str) -> None:
    with pytest.raises(BidibeamError) as caught:
        make()

    assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("strategy", "signature"),
    [
        (Vbs(), "strategy:vbs"),
        (ReverseVbs(), "strategy:reverse-vbs"),
        (VbsTuned(1.5, 0.25), "strategy:vbs-tuned|length_exponent:1.5|word_reward:0.25"),
        (BidiS(0.123456789), "strategy:bidis|lambda:0.123456789"),
        (Longest(), "strategy:longest"),
        (Random(3), "strategy:random|seed:3"),
        (Oracle(), "strategy:oracle|by:sentence-bleu,order:4,smoothing:floor"),
        (
            BidiA(BleuT(max_length=30), answer="either", agreement="mean"),
            "strategy:bidia|similarity:bleu_t|order:4|smoothing:floor|T:30|answer:either|agreement:mean",
        ),
    ],
)
def test_signatures(strategy: Strategy, signature: str) -> None:
    assert str(strategy.signature) == signature
