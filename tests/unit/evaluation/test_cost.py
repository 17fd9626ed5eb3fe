"""What strategies cost: the paper's formulas, and times by a clock that runs as it is set."""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from types import SimpleNamespace
from typing import Any

import pytest

from bidibeam.errors import SettingsError
from bidibeam.evaluation.cost import formulas, measure_costs


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
    for name, row in found.items():
        assert row["ratio"] == pytest.approx(expected[name] / expected["vbs"])
    assert found["vbs"]["formula"] == found["bidis"]["formula"] == "T * B V log(B V)"
    assert found["bidia bleu_t"]["formula"] == "2 T * B/2 V log(B V / 2)"
    assert "B^2/8 * 8 T^3 log(2 T)" in found["bidia wmd_t, as printed"]["formula"]
    assert "(B/2)^2 * 8 T^3 log(2 T)" in found["bidia wmd_t, all pairs"]["formula"]
    assert all(row["value"] >= 0 for row in formulas(1, 1, 2))


def test_the_papers_example_comes_to_other_numbers_than_its_footnote_says() -> None:
    """C_VBS = 1.4 C_BidiA, it says: with the searches alone it is 1.05, and with all pairs the inverse."""
    ratios = {row["strategy"]: row["ratio"] for row in formulas(30, 30, 35_000)}

    assert ratios["vbs"] == ratios["bidis"] == 1.0
    assert 1 / ratios["bidia bleu_t"] == pytest.approx(1.05, abs=0.005)
    assert 1 / ratios["bidia wmd_t, as printed"] == pytest.approx(0.85, abs=0.005)
    assert ratios["bidia wmd_t, all pairs"] == pytest.approx(1.406, abs=0.0005)


@pytest.mark.parametrize(
    ("numbers", "message"), [((0, 1, 2), "N_B must"), ((1, 0, 2), "T must"), ((1, 1, 1), "V must")]
)
def test_numbers_that_are_too_small_are_named(numbers: tuple[int, int, int], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        formulas(*numbers)


class Clockwork:
    """A decoder that takes a given time at every call, the warm-up's first."""

    batch_size = 2

    def __init__(self, clock: SimpleNamespace, *times_s: float) -> None:
        self._clock = clock
        self._times = iter(times_s)

    def answers(self, _sources: object) -> Iterator[Any]:
        self._clock.now += next(self._times)
        return iter(())


def test_times_and_ratios_are_medians_over_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("bidibeam.evaluation.cost.time.perf_counter", lambda: clock.now)
    decoders: Any = {
        "vbs": Clockwork(clock, 99.0, 1.0, 2.0, 60.0),  # one turn was disturbed
        "bidia bleu_t": Clockwork(clock, 99.0, 2.0, 3.0, 80.0),
    }

    rows = measure_costs(decoders, [None] * 4, turns=3, base="vbs")  # type: ignore[list-item]

    assert [row["ms_a_source"] for row in rows] == pytest.approx([1000 * 2.0 / 4, 1000 * 3.0 / 4])
    assert [row["ratio"] for row in rows] == pytest.approx([1.0, 1.5])
    assert [row["turns_ms"] for row in rows] == [[1000.0, 2000.0, 60000.0], [2000.0, 3000.0, 80000.0]]
