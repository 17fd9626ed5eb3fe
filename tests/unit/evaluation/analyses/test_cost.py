"""The paper's formulas, and what becomes of its footnote."""

from __future__ import annotations

from math import log

import pytest

from bidibeam.errors import SettingsError
from bidibeam.evaluation.analyses.cost import formulas


def test_the_paper_s_example_comes_to_other_numbers_than_its_footnote_says() -> None:
    """C_VBS = 1.4 C_BidiA, it says: with the searches alone it is 1.05, and with all pairs the inverse."""
    ratios = {row["strategy"]: row["ratio"] for row in formulas(30, 30, 35_000)}

    assert ratios["vbs"] == ratios["bidis"] == 1.0
    assert 1 / ratios["bidia bleu_t"] == pytest.approx(1.05, abs=0.005)
    assert 1 / ratios["bidia wmd_t, as printed"] == pytest.approx(0.85, abs=0.005)
    assert ratios["bidia wmd_t, all pairs"] == pytest.approx(1.406, abs=0.0005)


def test_values_are_the_formulas() -> None:
    t, b, v = 2, 4, 10
    found = {row["strategy"]: row for row in formulas(b, t, v)}

    searches = 2 * t * (b / 2) * v * log(b * v / 2)
    distance = 8 * t**3 * log(2 * t)
    expected = {
        "vbs": t * b * v * log(b * v),
        "bidis": t * b * v * log(b * v),
        "bidia wmd_t, as printed": searches + b**2 / 8 * distance + t,
        "bidia wmd_t, all pairs": searches + (b / 2) ** 2 * distance + t,
        "bidia bleu_t": searches,
    }
    assert {name: row["value"] for name, row in found.items()} == pytest.approx(expected)
    assert found["vbs"]["formula"] == found["bidis"]["formula"] == "T * B V log(B V)"
    assert found["bidia bleu_t"]["formula"] == "2 T * B/2 V log(B V / 2)"
    assert "B^2/8 * 8 T^3 log(2 T)" in found["bidia wmd_t, as printed"]["formula"]
    assert "(B/2)^2 * 8 T^3 log(2 T)" in found["bidia wmd_t, all pairs"]["formula"]


@pytest.mark.parametrize(
    ("numbers", "message"), [((0, 1, 2), "N_B must"), ((1, 0, 2), "T must"), ((1, 1, 1), "V must")]
)
def test_numbers_that_are_too_small_are_named(numbers: tuple[int, int, int], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        formulas(*numbers)


def test_the_smallest_numbers_have_a_cost() -> None:
    assert all(row["value"] >= 0 for row in formulas(1, 1, 2))
