"""What strategies cost, with a clock that runs as it is told."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bidibeam.experiments.measure import measure_costs


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
    monkeypatch.setattr("bidibeam.experiments.measure.time.perf_counter", lambda: clock.now)
    decoders: Any = {
        "vbs": Clockwork(clock, 99.0, 1.0, 2.0, 60.0),  # one turn was disturbed
        "bidia bleu_t": Clockwork(clock, 99.0, 2.0, 3.0, 80.0),
    }

    rows = measure_costs(decoders, [None] * 4, turns=3, base="vbs")  # type: ignore[list-item]

    assert [row["ms_a_source"] for row in rows] == pytest.approx([1000 * 2.0 / 4, 1000 * 3.0 / 4])
    assert [row["ratio"] for row in rows] == pytest.approx([1.0, 1.5])
    assert [row["turns_ms"] for row in rows] == [[1000.0, 2000.0, 60000.0], [2000.0, 3000.0, 80000.0]]
