"""A short part of the sweep of options."""

from __future__ import annotations

from tests.soak.options import run


def test_options_are_followed_or_refused_by_name() -> None:
    found = run([0], 48, lambda _: None)

    assert found["failures"] == []
    assert found["calls"] == 48
    assert found["verdicts"]["equal"] > 10
    assert found["verdicts"]["refused"] > 4
    assert found["options"] > 20
