"""What agreement is set beside: the longest hypothesis, any, and the best there is."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.protocols import Requirements
from bidibeam.strategies.chance import Chance
from bidibeam.strategies.longest import Longest
from bidibeam.strategies.oracle import Oracle
from tests.unit.strategies.lists import beams, hypothesis, scores, texts


def test_the_longest_comes_first_and_ties_keep_beam_order() -> None:
    found = beams("b b", "a", "c c c", "a a", hypothesis("d d d d", finished=False))

    ranking = Longest().rank(found)

    assert texts(ranking) == ["c c c", "b b", "a a", "a", "d d d d"]
    assert scores(ranking) == [3.0, 2.0, 2.0, 1.0, 4.0]


def test_length_is_counted_in_tokens_whatever_the_score_was_normalised_by() -> None:
    pieces = hypothesis("ab")._replace(tokens=("a", "b"), length=9)

    assert texts(Longest().rank(beams(hypothesis("x"), pieces))) == ["ab", "x"]
    assert scores(Longest().rank(beams(pieces))) == [2.0]


FOUR = ["a", "b", "c", "d"]


def order(seed: int, name: str) -> list[str]:
    return texts(Chance(seed).rank(beams(*FOUR, name=name)))


def test_a_shuffle_depends_on_seed_and_id_alone() -> None:
    names = [str(number) for number in range(50)]

    once = {name: order(0, name) for name in names}
    again = {name: order(0, name) for name in reversed(names)}

    assert once == again
    assert {tuple(sorted(shuffled)) for shuffled in once.values()} == {tuple(FOUR)}
    assert any(order(1, name) != once[name] for name in names)
    assert len({tuple(shuffled) for shuffled in once.values()}) > 10


def test_the_same_shuffle_in_years_to_come() -> None:
    assert [order(0, name)[0] for name in ("1", "2", "3", "4", "5", "6")] == ["c", "c", "b", "c", "d", "b"]


def test_every_hypothesis_has_the_same_chance() -> None:
    sources = 4000
    expected = sources / len(FOUR)
    five_deviations = 5 * math.sqrt(expected * (1 - 1 / len(FOUR)))

    shuffles = [order(7, str(number)) for number in range(sources)]

    for place in range(len(FOUR)):
        counts = Counter(shuffled[place] for shuffled in shuffles)
        assert all(abs(counts[text] - expected) < five_deviations for text in FOUR), counts


def test_chance_leaves_those_cut_off_for_last() -> None:
    for name in range(20):
        found = beams(hypothesis("a", finished=False), "b", "c", name=str(name))
        assert texts(Chance().rank(found))[-1] == "a"


@pytest.mark.parametrize("seed", [1.0, "1", True, None], ids=repr)
def test_a_seed_that_is_no_whole_number_is_one_sentence(seed: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        Chance(seed)

    assert str(caught.value) == f"seed must be a whole number, not {seed!r}."


def test_the_oracle_chooses_by_sentence_bleu() -> None:
    # Matches of "see you at noon then" by order: 4, 3, 2, 1 of 5, 4, 3, 2; the others have no n-gram so long.
    found = beams("i know", "see you at noon then", "noon", reference="See you at noon")

    ranking = Oracle().rank(found)

    assert texts(ranking) == ["see you at noon then", "noon", "i know"]
    assert scores(ranking)[0] == pytest.approx((4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert scores(ranking)[1] == pytest.approx((1 * 0.1 * 0.1 * 0.1) ** 0.25 * math.exp(1 - 4 / 1))
    assert scores(ranking)[2] == 0.0


def test_the_oracles_ties_go_to_the_better_rank_and_are_counted() -> None:
    found = beams("no", "yes", "yes", "maybe yes", reference="yes")

    ranking = Oracle().rank(found)

    assert [entry.place for entry in ranking] == [1, 2, 3, 0]
    assert ranking.tied == 2
    assert Oracle().rank(replace(found, reference="other")).tied == 4


def test_the_oracle_takes_one_that_was_cut_off_too() -> None:
    found = beams("no", hypothesis("yes", finished=False), reference="yes")

    assert texts(Oracle().rank(found)) == ["yes", "no"]


def test_the_oracle_reads_words_as_measures_do() -> None:
    pieces = hypothesis("Don't!")._replace(tokens=("D", "on'", "t!"))

    assert scores(Oracle().rank(beams(pieces, reference="don't !")))[0] > 0.1


def test_without_a_reference_there_is_no_oracle() -> None:
    with pytest.raises(InputError) as caught:
        Oracle().rank(beams("yes", name="line 7"))

    assert str(caught.value) == (
        "Source 'line 7' has no reference, and the oracle chooses by it. Choose another strategy."
    )


def test_needs_and_signatures() -> None:
    assert Longest().requirements == Chance().requirements == Requirements((Direction.REGULAR,))
    assert Oracle().requirements == Requirements((Direction.REGULAR,), reference=True)
    assert str(Longest().signature) == "strategy:longest"
    assert str(Chance(3).signature) == "strategy:random|seed:3"
    assert str(Oracle().signature) == "strategy:oracle|by:sentence-bleu,order:4,smoothing:floor"
