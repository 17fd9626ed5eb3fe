"""Numbers as reports show them, and the paper's."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.reporting.numbers import (
    average,
    average_rows,
    format_fixed,
    format_metric,
    format_p,
    format_percent,
    format_seeds,
    format_signed,
    is_tiny,
    join_words,
    label_metric,
    least_base,
    mean,
    stdev,
)
from bidibeam.reporting.paper import FOOTNOTE, PAPER
from bidibeam.text import format_value


@pytest.mark.parametrize("value", [None, math.nan, math.inf, True, "1.5", [1]])
def test_anything_but_a_number_is_a_dash(value: object) -> None:
    assert format_fixed(value, 2) == format_percent(value) == format_p(value) == format_signed(value) == "-"
    assert mean([value]) is None


def test_numbers_have_their_digits_and_no_sign_if_they_show_as_zero() -> None:
    fixed = [format_fixed(value, 2) for value in (1, 1234.567, -0.001, -0.005001, 0.0)]
    assert fixed == ["1.00", "1,234.57", "0.00", "-0.01", "0.00"]
    assert [format_signed(value) for value in (0.5, -0.5, 0.001, -0.001)] == [
        "+0.50",
        "-0.50",
        "0.00",
        "0.00",
    ]
    p_values = [format_p(p) for p in (0.0, 0.000999, 0.001, 0.0316, 1)]
    assert p_values == ["< 0.001", "< 0.001", "0.001", "0.032", "1.000"]
    values = (163101, 0.00123456, 14.0, True, None, [1, 2], "cuda")
    assert [*map(format_value, values)] == ["163,101", "0.001235", "14", "yes", "none", "1, 2", "cuda"]
    assert [join_words(words) for words in ([], ["a"], ["a", "b", "c"])] == ["", "a", "a, b and c"]


@pytest.mark.parametrize(
    ("metric", "values", "seeds", "text"),
    [
        ("bleu", [1.0], 1, "1.00"),
        ("bleu", [1.0, 2.0, 4.5], 3, "2.50 ± 1.80"),
        ("distinct-2", [0.01, 0.02], 3, "0.0150 ± 0.0071 (n = 2)"),
        ("bleu", [], 3, "-"),
        ("my_metric", [0.123456], 1, "0.1235"),
        ("bleu", [0.58, 0.61], 2, "0.58 / 0.61"),
        ("bleu", [0.58, math.nan], 2, "0.58 (n = 1)"),
    ],
)
def test_seeds_become_one_value_both_of_two_or_mean_and_deviation(
    metric: str, values: list[float], seeds: int, text: str
) -> None:
    assert format_seeds(metric, values, seeds) == text


@given(st.lists(st.floats(-1e6, 1e6), min_size=2))
def test_mean_and_deviation_are_those_of_the_sample(values: list[float]) -> None:
    assert mean([None, *values]) == pytest.approx(statistics.fmean(values), abs=1e-6)
    assert stdev([*values, math.nan]) == pytest.approx(statistics.stdev(values), abs=1e-6)
    assert stdev(values[:1]) is None


def test_seeds_are_averaged_wherever_there_is_a_number() -> None:
    one = {"value": 1, "inner": {"list": [1, 2], "none": None, "only": 3}, "name": "x", "lists": [1]}
    other = {"value": 2, "inner": {"list": [3, 6], "none": None}, "name": "y", "lists": [1, 2]}

    assert average([one, None, other]) == {
        "value": 1.5,
        "inner": {"list": [2.0, 4.0], "none": None, "only": 3},
        "name": "x",
        "lists": [1],
    }
    assert average([None]) is None
    assert average([True, False]) is True


def test_rows_of_seeds_are_matched_by_name() -> None:
    first = {"rows": [{"strategy": "a", "ms": 1.0}, {"strategy": "b", "ms": 10.0}]}
    second = [{"strategy": "b", "ms": 20.0}, {"strategy": "a", "ms": 3.0}, {"strategy": "c", "ms": 5.0}]

    averaged = average_rows([first, {}, {"rows": second}], "rows", "strategy")
    assert [(row["strategy"], row["ms"]) for row in averaged] == [("a", 2.0), ("b", 15.0), ("c", 5.0)]


def test_the_papers_tables_agree_with_its_text() -> None:
    bleu, distinct = PAPER["swda"].bleu, PAPER["cornell"].distinct
    assert int(100 * (bleu["oracle"][50] / bleu["vbs"][50] - 1)) == 128
    assert distinct["bidia wmd_t"][1] / distinct["vbs"][1] - 1 == pytest.approx(0.08)
    assert distinct["bidia wmd_t"][1] == max(pair[1] for pair in distinct.values())
    for corpus in PAPER.values():  # a beam of one has nothing to choose
        assert corpus.bleu["vbs"][1] == corpus.bleu["oracle"][1]
        assert corpus.bleu["vbs"].keys() == corpus.bleu["oracle"].keys() == {1, 6, 10, 50}
    assert {name: corpus.gain for name, corpus in PAPER.items()} == {"cornell": 0.09, "swda": 0.05}
    assert "1.4 times BidiA" in FOOTNOTE
    assert "formulas give 1.05" in FOOTNOTE


def test_a_score_is_known_only_where_the_paper_prints_it() -> None:
    known = {
        ("vbs", "bleu", 10): 1.30,
        ("bidia bleu_t", "distinct-1", 50): 0.056,
        ("bidia bleu_t", "distinct-2", 50): 0.261,
    }
    unknown = [("vbs", "bleu", 20), ("bidis", "bleu", 50), ("vbs", "distinct-1", 10), ("vbs", "chrf", 50)]
    scores = {key: PAPER["cornell"].score(*key) for key in (*known, *unknown, ("oracle", "distinct-1", 50))}

    assert {key: score for key, score in scores.items() if score is not None} == known


def test_a_metric_needs_no_entry_in_any_table() -> None:
    assert [format_metric(name, 0.12345) for name in ("ter", "distinct-1", "mine:far")] == [
        "0.12",
        "0.1235",
        "0.1235",
    ]
    assert label_metric("mine:far") == "mine:far"


@pytest.mark.parametrize(
    ("name", "least"), [("bleu", 0.1), ("ser", 0.1), ("distinct-2", 0.001), ("mine:far", 0.001)]
)
def test_a_base_of_a_ratio_is_tiny_below_a_thousandth_of_what_the_metric_reaches(
    name: str, least: float
) -> None:
    assert least_base(name) == pytest.approx(least)
    assert [is_tiny(name, least * times) for times in (0.0, 0.99, -0.99, 1.01, -1.01)] == [
        *(True, True, True),
        *(False, False),
    ]
