"""BidiA: the hypothesis that both directions agree on, by a table of similarities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, Ranked
from bidibeam.similarities.bleu import BleuT
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.choosing import choose, choose_many
from bidibeam.work import counting
from tests.unit.strategies.lists import Table, beams, hypothesis, random_beams, scores, texts

if TYPE_CHECKING:
    from bidibeam.protocols import Matrix

AGREEING = Table({("see you", "see you then"): 0.9, ("see you", "no"): 0.2, ("i know", "no"): 0.5})


def test_agreement_overrules_beam_order() -> None:
    found = beams("i know", "see you", "what", reverse=["no", "see you then"])

    ranking = BidiA(AGREEING).rank(found)

    assert texts(ranking) == ["see you", "i know", "what"]
    assert ranking.entries[0] == Ranked(
        hypothesis("see you"), Direction.REGULAR, place=1, score=0.9, partner=1
    )
    assert [entry.partner for entry in ranking] == [1, 0, 0]


def test_the_mean_counts_every_reverse_hypothesis() -> None:
    table = Table({("peak", "x"): 0.8, ("even", "x"): 0.5, ("even", "y"): 0.5})
    found = beams("peak", "even", reverse=["x", "y"])

    assert texts(BidiA(table).rank(found)) == ["peak", "even"]
    ranking = BidiA(table, agreement="mean").rank(found)
    assert texts(ranking) == ["even", "peak"]
    assert scores(ranking) == [0.5, 0.4]
    assert [entry.partner for entry in ranking] == [0, 0]


def test_the_expected_agreement_weighs_by_the_other_beams_posterior() -> None:
    # Log-probabilities log 1/10 and log 3/10, twice the scores: the beam's posterior is 1/4 and 3/4.
    reverse = [hypothesis("x", math.log(1 / 10) / 2), hypothesis("y", math.log(3 / 10) / 2)]
    table = Table({("a", "x"): 0.8, ("b", "y"): 0.4})

    ranking = BidiA(table, agreement="expected").rank(beams("a", "b", reverse=reverse))

    assert texts(ranking) == ["b", "a"]
    assert scores(ranking) == pytest.approx([0.75 * 0.4, 0.25 * 0.8])


def test_hopeless_log_probabilities_still_make_a_posterior() -> None:
    reverse = [hypothesis("x", -5000.0), hypothesis("y", -5000.0)]

    ranking = BidiA(Table({("a", "x"): 1.0}), agreement="expected").rank(beams("a", reverse=reverse))

    assert scores(ranking) == [0.5]


def test_equal_rows_are_equally_expected_wherever_they_stand() -> None:
    generator = np.random.default_rng(0)
    for others in range(2, 24):
        row = generator.random(others).tolist()
        reverse = [hypothesis(f"{place}", -generator.random()) for place in range(others)]
        regular = [f"same {place}" for place in range(others + 5)]
        table = Table({(text, f"{place}"): row[place] for text in regular for place in range(others)})

        ranking = BidiA(table, agreement="expected").rank(beams(*regular, reverse=reverse))

        assert texts(ranking) == regular
        assert ranking.tied == len(regular)


def test_posteriors_need_log_probabilities() -> None:
    assert BidiA(AGREEING, agreement="expected").requirements.log_prob
    assert not BidiA(AGREEING, agreement="mean").requirements.log_prob
    without = hypothesis("no")._replace(log_prob=None)
    assert texts(BidiA(AGREEING).rank(beams("i know", reverse=[without]))) == ["i know"]
    with pytest.raises(InputError, match=r"^The hypothesis 'no' has no .log_prob."):
        BidiA(AGREEING, agreement="expected").rank(beams("i know", reverse=[without]))


def test_either_direction_may_answer_each_judged_against_the_other() -> None:
    table = Table({("a", "x"): 0.3, ("b", "x"): 0.2, ("x", "a"): 0.1, ("x", "b"): 0.7})
    found = beams("a", "b", reverse=["x"])

    ranking = BidiA(table, answer="either").rank(found)

    assert texts(ranking) == ["x", "a", "b"]
    assert [(entry.direction.value, entry.place, entry.partner) for entry in ranking] == [
        ("reverse", 0, 1),
        ("regular", 0, 0),
        ("regular", 1, 0),
    ]
    assert texts(BidiA(table).rank(found)) == ["a", "b"]


@pytest.mark.parametrize("agreement", ["closest", "mean", "expected"])
def test_ties_go_to_the_regular_beam_and_then_to_the_better(agreement: Any) -> None:
    everything = Table({(one, two): 0.5 for one in "abxy" for two in "abxy"})
    found = beams("b", "a", reverse=["y", "x"])

    ranking = BidiA(everything, answer="either", agreement=agreement).rank(found)

    assert texts(ranking) == ["b", "a", "y", "x"]
    assert ranking.tied == 4
    assert [entry.partner for entry in ranking] == [0, 0, 0, 0]


def test_those_cut_off_rank_last_but_still_bear_witness() -> None:
    cut_off, witness = hypothesis("a", finished=False), hypothesis("x", finished=False)
    table = Table({("a", "x"): 0.9, ("b", "x"): 0.4, ("c", "y"): 0.3})
    found = beams(cut_off, "c", "b", reverse=[witness, "y"])

    ranking = BidiA(table).rank(found)

    assert texts(ranking) == ["b", "c", "a"]
    assert ranking.entries[0].partner == 0
    assert choose(BidiA(table), found).entries == ranking.entries[:1]


def test_with_either_a_finished_reverse_one_comes_before_a_regular_one_cut_off() -> None:
    table = Table({("a", "x"): 0.9, ("x", "a"): 0.1})
    found = beams(hypothesis("a", finished=False), reverse=["x"])

    assert texts(BidiA(table, answer="either").rank(found)) == ["x", "a"]
    assert texts(BidiA(table).rank(found)) == ["a"]


@pytest.mark.parametrize("agreement", ["closest", "mean", "expected"])
def test_where_the_other_beam_is_empty_beam_order_stays_and_nobody_is_asked(agreement: Any) -> None:
    table = Table({})
    selection = BidiA(table, agreement=agreement)

    ranking = selection.rank(beams("b", hypothesis("a", finished=False), "c"))

    assert texts(ranking) == ["b", "c", "a"]
    assert scores(ranking) == [0.0] * 3
    assert [entry.partner for entry in ranking] == [None] * 3
    assert len(selection.rank(beams(reverse=["x"]))) == 0
    either = BidiA(table, answer="either", agreement=agreement)
    assert texts(either.rank(beams(reverse=["y", "x"]))) == ["y", "x"]
    assert table.asked == []


@given(random_beams())
@settings(deadline=None)
def test_a_similarity_that_looks_at_its_company_is_asked_about_all_of_it(found: Beams) -> None:
    class Relative:
        """Shared words, as a share of what this call has most of: so the company matters."""

        def pairwise(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Matrix:
            shared = [[len(set(one.tokens) & set(two.tokens)) for two in others] for one in judged]
            matrix: Matrix = np.array(shared, dtype=np.float64)
            relative: Matrix = matrix - matrix.max(0)
            return relative

    selection = BidiA(Relative())

    assert choose(selection, found).entries == selection.rank(found).entries[:1]


@pytest.mark.parametrize("answer", ["regular", "either"])
@given(found=st.lists(random_beams(), max_size=5), is_known=st.booleans())
@settings(deadline=None)
def test_many_replies_at_once_are_each_the_first_of_its_ranking(
    found: list[Beams], is_known: bool, answer: Any
) -> None:
    selection = BidiA(BleuT(max_length=4), answer=answer, agreement="closest" if is_known else "mean")

    chosen = selection.choose_many(found)

    assert chosen == [next(iter(selection.rank(each)), None) for each in found]
    assert chosen == [selection.choose(each) for each in found]


def test_the_reply_alone_takes_the_shortcut() -> None:
    found = beams("a b", "c d", hypothesis("e f", finished=False), reverse=["c d", "x", "e f"])

    with counting() as work:
        chosen = choose(BidiA(BleuT()), found)

    assert texts(chosen) == ["c d"]
    assert work.compared_pairs == 2 * 3  # those cut off cannot answer
    with counting() as work:
        assert choose_many(BidiA(BleuT()), [found, found]) == [chosen, chosen]
    assert work.compared_pairs == 2 * 2 * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"answer": "reverse"}, "answer must be one of regular, either, not 'reverse'."),
        ({"agreement": "best"}, "agreement must be one of closest, expected, mean, not 'best'."),
    ],
)
def test_unknown_settings_are_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        BidiA(AGREEING, **options)

    assert str(caught.value) == message


def test_the_signature_brings_the_similaritys_own() -> None:
    selection = BidiA(BleuT(max_length=30), answer="either", agreement="mean")

    assert str(selection.signature) == (
        "strategy:bidia|similarity:bleu_t|order:4|smoothing:floor|T:30|answer:either|agreement:mean"
    )
    assert selection.requirements.directions == (Direction.REGULAR, Direction.REVERSE)
