"""The paper's numbers agree with what the paper says of them in words."""

from __future__ import annotations

import pytest

from bidibeam.reporting.paper import FOOTNOTE_AT, PAPER, sorting_ratio


def test_an_optimal_choice_on_switchboard_is_128_per_cent_better() -> None:
    bleu = PAPER["swda"].bleu

    assert int(100 * (bleu["oracle"][50] / bleu["vbs"][50] - 1)) == 128


def test_the_best_diversity_on_cornell_is_8_per_cent_above_the_baseline() -> None:
    distinct = PAPER["cornell"].distinct
    best = max(pair[1] for pair in distinct.values())

    assert best == distinct["bidia wmd_t"][1]
    assert best / distinct["vbs"][1] - 1 == pytest.approx(0.08)


def test_with_a_beam_of_one_there_is_nothing_to_choose() -> None:
    for corpus in PAPER.values():
        assert corpus.bleu["vbs"][1] == corpus.bleu["oracle"][1]
        assert corpus.bleu["vbs"].keys() == corpus.bleu["oracle"].keys() == {1, 6, 10, 50}


def test_the_claimed_gains_are_nine_and_five_per_cent() -> None:
    assert {name: corpus.gain for name, corpus in PAPER.items()} == {"cornell": 0.09, "swda": 0.05}


def test_a_score_is_known_only_where_the_paper_prints_it() -> None:
    cornell = PAPER["cornell"]

    assert cornell.score("vbs", "bleu", 10) == 1.30
    assert cornell.score("bidia bleu_t", "distinct-1", 50) == 0.056
    assert cornell.score("bidia bleu_t", "distinct-2", 50) == 0.261
    for unknown in (
        ("vbs", "bleu", 20),
        ("bidis", "bleu", 50),
        ("vbs", "distinct-1", 10),
        ("oracle", "distinct-1", 50),
        ("vbs", "chrf", 50),
    ):
        assert cornell.score(*unknown) is None


def test_the_formulas_give_1_05_where_the_footnote_says_1_4() -> None:
    assert sorting_ratio(FOOTNOTE_AT["B"], FOOTNOTE_AT["V"]) == pytest.approx(1.0526, abs=1e-4)
