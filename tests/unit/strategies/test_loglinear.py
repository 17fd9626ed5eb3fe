"""The log-linear choice: its formula term by term, and the paper's rules, which it contains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.protocols import Requirements, Strategy
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.overlap import Edit
from bidibeam.strategies.baselines import ReverseVbs, Vbs, VbsTuned
from bidibeam.strategies.bidia import Agreement, BidiA
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.loglinear import LogLinear
from bidibeam.strategies.ranking import choose
from tests.unit.strategies.lists import Table, beams, hypothesis, sentences, texts

BOTH = (Direction.REGULAR, Direction.REVERSE)


@st.composite
def searched(draw: st.DrawFn) -> Hypothesis:
    """A hypothesis as the search leaves it: normalised by (5 + |Y|)^0.6 / 6^0.6."""
    text = draw(sentences)
    length = len(text.split()) + 1
    log_prob, other = (-draw(st.floats(0.5, 30)) for _ in range(2))
    score = log_prob * ((5.0 + length) / 6.0) ** -0.6
    return Hypothesis(text, tuple(text.split()), log_prob, length, score, draw(st.booleans()), other)


def unique(found: Sequence[Hypothesis]) -> NBest:
    return NBest(tuple({each.text: each for each in found}.values()))


nbests = st.lists(searched(), min_size=1, max_size=6).map(unique)
found_beams = st.builds(Beams, st.just("1"), st.just("hi"), st.just(("a",)), nbests, nbests)


@given(found_beams, st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.sampled_from([0.0, 0.6, 2.0]))
def test_it_contains_the_rules_of_the_paper(found: Beams, weight: float, exponent: float) -> None:
    def agreed(answer: Any, how: Agreement) -> tuple[Strategy, Strategy]:
        candidates: Any = "both" if answer == "either" else "regular"
        only = LogLinear(0.0, 0.0, candidates=candidates, similarity=Edit(), agreement=how)
        return BidiA(Edit(), answer, how), only

    pairs: list[tuple[Strategy, Strategy]] = [
        (Vbs(), LogLinear(1.0, 0.0)),
        (ReverseVbs(), LogLinear(0.0, 1.0, candidates="reverse")),
        (VbsTuned(exponent, weight), LogLinear(1.0, 0.0, weight, length_exponent=exponent)),
        (BidiS(weight), LogLinear(1.0, weight)),
        *(agreed(answer, how) for answer in ("regular", "either") for how in ("closest", "expected", "mean")),
    ]
    for rule, contained in pairs:
        chosen, same = choose(rule, found).entries[0], contained.rank(found).entries[0]
        if chosen.hypothesis.text != same.hypothesis.text:  # rounding may turn what is as good as a tie
            assert same.score == pytest.approx(chosen.score, rel=1e-9), rule


@given(found_beams, st.lists(st.floats(-3, 3), min_size=4, max_size=4), st.floats(0, 4))
def test_its_score_is_the_sum_that_it_says(found: Beams, weights: list[float], exponent: float) -> None:
    regular, reverse, length, agreement = weights
    strategy = LogLinear(regular, reverse, length, agreement, exponent, "both", BleuT(max_length=3))
    agreed = {
        (entry.direction, entry.place): entry
        for entry in BidiA(BleuT(max_length=3), "either", "expected").rank(found)
    }
    expected: dict[str, float] = {}
    for direction in BOTH:
        for place, each in enumerate(found.of(direction)):
            pair = (each.log_prob or 0.0, each.other_log_prob or 0.0)
            forward, backward = pair if direction is Direction.REGULAR else pair[::-1]
            score = (regular * forward + reverse * backward) / ((5 + each.length) / 6) ** exponent
            score += length * each.length + agreement * agreed[direction, place].score
            rank = (each.finished, score)
            best = expected.get(each.text)
            expected[each.text] = max(rank, best) if best is not None else rank  # type: ignore[assignment]

    ranking = strategy.rank(found)

    got = {entry.hypothesis.text: (entry.hypothesis.finished, entry.score) for entry in ranking}
    assert got.keys() == expected.keys()
    for text, (is_finished, score) in got.items():
        assert (is_finished, score) == (expected[text][0], pytest.approx(expected[text][1]))  # type: ignore[index]
    order = [(entry.hypothesis.finished, entry.score) for entry in ranking]
    assert order == sorted(order, reverse=True)


def test_a_text_of_both_beams_is_one_candidate_by_its_better_score() -> None:
    found = beams(
        hypothesis("a b", -3.0, other=-2.0),
        hypothesis("c", -2.0, other=-9.0),
        reverse=[hypothesis("a b", -0.5, other=-5.0), hypothesis("d", -4.0, other=-4.0)],
    )

    ranking = LogLinear(candidates="both", length_exponent=0.0).rank(found)

    assert texts(ranking) == ["a b", "d", "c"]
    assert (ranking.entries[0].direction, ranking.entries[0].score) == (Direction.REVERSE, -6.0)


@given(found_beams, st.lists(st.sampled_from([-0.5, 0.0, 0.25, 1.0, 3.0]), min_size=4, max_size=4))
def test_its_reason_has_the_terms_that_weigh_something_and_they_add_up(
    found: Beams, weights: list[float]
) -> None:
    regular, reverse, length, agreement = weights
    strategy = LogLinear(regular, reverse, length, agreement, candidates="both", similarity=Edit())
    ranking = strategy.rank(found)

    told = strategy.reason(found, ranking).partition(";")[0]

    name, _, added = told.partition(" = ")
    terms = re.findall(r"(-?[\d.]+) \((-?[\d.]+) \* ([^)]+)\)", added)
    assert [float(weight) for _, weight, _ in terms] == [each for each in weights if each]
    if terms:
        digits = len(terms[0][0].partition(".")[2])
        value = float(name.rpartition(", ")[2])
        assert value == pytest.approx(ranking.entries[0].score, abs=10**-digits)
        assert sum(float(term) for term, *_ in terms) == pytest.approx(value, abs=3 * 10**-digits)


def test_its_reason_in_full() -> None:
    found = beams(hypothesis("a b c d e f", -3.0, other=-2.0), hypothesis("c", -9.0, other=-9.0))
    told = LogLinear(0.5, 0.0, 0.25, length_exponent=1.0)

    assert told.reason(found, told.rank(found)) == (
        "regular hypothesis 1 has the highest weighted sum, 0.25 = -1.50 (0.5 * regular score) + "
        "1.75 (0.25 * 7 tokens); the next, regular hypothesis 2, has -7.21."
    )


def test_a_tie_between_the_beams_goes_to_the_regular_one() -> None:
    regular = [hypothesis("x", other=-1.0), hypothesis("a", other=-1.0)]
    found = beams(*regular, reverse=[hypothesis("b", other=-1.0)])
    table = Table({("a", "b"): 0.5, ("b", "a"): 0.5})
    agreed = LogLinear(0.0, 0.0, candidates="both", similarity=table, agreement="closest")

    assert agreed.reason(found, agreed.rank(found)) == (
        "regular hypothesis 2 has the highest weighted sum, 0.50 = 0.50 (1 * agreement); "
        "reverse hypothesis 1 has as much, and ties go to the regular beam."
    )


def test_agreement_costs_nothing_where_there_is_no_similarity() -> None:
    found = beams(hypothesis("a", other=-1.0), reverse=[hypothesis("b", other=-1.0)])
    table = Table({("a", "b"): 0.5})

    plain = LogLinear().rank(found).entries[0]
    agreed = LogLinear(similarity=table, agreement_weight=4.0).rank(found).entries[0]

    assert table.asked == [(1, 1)]
    assert agreed.score - plain.score == pytest.approx(2.0)
    assert (plain.partner, agreed.partner) == (None, 0)


@pytest.mark.parametrize(
    ("strategy", "directions", "scored"),
    [
        (LogLinear(), BOTH[:1], BOTH[:1]),
        (LogLinear(candidates="reverse"), BOTH[1:], BOTH[1:]),
        (LogLinear(candidates="both"), BOTH, BOTH),
        (LogLinear(similarity=Edit()), BOTH, BOTH[:1]),
        (LogLinear(candidates="reverse", similarity=Edit()), BOTH, BOTH[1:]),
    ],
)
def test_both_directions_must_score_the_candidates_and_nobody_else(
    strategy: LogLinear, directions: tuple[Direction, ...], scored: tuple[Direction, ...]
) -> None:
    assert strategy.requirements == Requirements(directions, log_prob=True, scored=scored)
    assert {*strategy.requirements.used} == {*BOTH}


def test_what_is_missing_or_out_of_range_is_named() -> None:
    with pytest.raises(InputError, match="The hypothesis 'a' has no \"other_log_prob\""):
        LogLinear().rank(beams("a"))
    with pytest.raises(SettingsError, match="reverse_weight must be a finite number, not nan"):
        LogLinear(reverse_weight=float("nan"))
    with pytest.raises(SettingsError, match="length_exponent must lie between -10 and 10, not 99"):
        LogLinear(length_exponent=99)
    with pytest.raises(SettingsError, match="candidates must be one of regular, reverse, both, not 'all'"):
        LogLinear(candidates="all")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="agreement must be one of closest, expected, mean, not 'most'"):
        LogLinear(agreement="most")  # type: ignore[arg-type]
