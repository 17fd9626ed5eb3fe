"""Numbers as reports show them."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.reporting.numbers import (
    averaged,
    averaged_rows,
    fixed,
    joined,
    mean,
    over_seeds,
    p_text,
    percent,
    plain,
    signed,
    spread,
)

NO_NUMBERS = (None, math.nan, math.inf, True, "1.5", [1])


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_is_no_number_is_a_dash(value: object) -> None:
    assert fixed(value, 2) == percent(value) == p_text(value) == "-"
    assert mean([value]) is None


def test_a_number_has_the_digits_asked_for_and_no_sign_if_it_shows_as_zero() -> None:
    assert [fixed(value, 2) for value in (1, 1234.567, -0.001, -0.005001, 0.0)] == [
        "1.00",
        "1,234.57",
        "0.00",
        "-0.01",
        "0.00",
    ]
    assert [signed(value) for value in (0.5, -0.5, 0.001, -0.001, None)] == [
        "+0.50",
        "-0.50",
        "0.00",
        "0.00",
        "-",
    ]


def test_small_p_values_are_only_small() -> None:
    assert [p_text(p) for p in (0.0, 0.000999, 0.001, 0.0316, 1)] == [
        "< 0.001",
        "< 0.001",
        "0.001",
        "0.032",
        "1.000",
    ]


def test_seeds_become_a_mean_and_a_standard_deviation() -> None:
    assert over_seeds("bleu", [1.0], 1) == "1.00"
    assert over_seeds("bleu", [1.0, 2.0, 4.5], 3) == "2.50 ± 1.80"
    assert over_seeds("distinct-2", [0.01, 0.02], 3) == "0.0150 ± 0.0071 (n = 2)"
    assert over_seeds("bleu", [], 3) == "-"
    assert over_seeds("my_metric", [0.123456], 1) == "0.1235"


def test_of_two_seeds_both_values_are_shown() -> None:
    assert over_seeds("bleu", [0.58, 0.61], 2) == "0.58 / 0.61"
    assert over_seeds("bleu", [0.58], 2) == "0.58 (n = 1)"
    assert over_seeds("bleu", [0.58, math.nan], 2) == "0.58 (n = 1)"


@given(st.lists(st.floats(-1e6, 1e6), min_size=2))
def test_mean_and_spread_are_the_samples(values: list[float]) -> None:
    assert mean([None, *values]) == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert spread([*values, math.nan]) == pytest.approx(statistics.stdev(values), abs=1e-6)
    assert spread(values[:1]) is None


def test_facts_are_shown_whatever_they_are() -> None:
    facts = (163101, 0.00123456, 14.0, True, None, [1, 2], "cuda")

    assert list(map(plain, facts)) == ["163,101", "0.001235", "14", "yes", "none", "1, 2", "cuda"]


def test_words_are_listed_as_a_sentence_does() -> None:
    assert [joined(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_several_seeds_are_averaged_wherever_there_is_a_number() -> None:
    one = {"value": 1, "inner": {"list": [1, 2], "none": None, "only": 3}, "name": "x", "lists": [1]}
    other = {"value": 2, "inner": {"list": [3, 6], "none": None}, "name": "y", "lists": [1, 2]}

    assert averaged([one, None, other]) == {
        "value": 1.5,
        "inner": {"list": [2.0, 4.0], "none": None, "only": 3},
        "name": "x",
        "lists": [1],
    }
    assert averaged([None]) is None
    assert averaged([True, False]) is True


def test_rows_of_seeds_meet_by_their_names_and_not_by_their_places() -> None:
    first = [{"strategy": "a", "ms": 1.0}, {"strategy": "b", "ms": 10.0}]
    second = [{"strategy": "b", "ms": 20.0}, {"strategy": "a", "ms": 3.0}, {"strategy": "c", "ms": 5.0}]

    assert averaged_rows([first, second], ["strategy"]) == [
        {"strategy": "a", "ms": 2.0},
        {"strategy": "b", "ms": 15.0},
        {"strategy": "c", "ms": 5.0},
    ]
