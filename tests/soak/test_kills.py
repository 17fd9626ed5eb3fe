"""A short soak of kills; more of them are in tests/end_to_end."""

from __future__ import annotations

from tests.soak import kills


def test_killed_at_random_and_begun_again_a_preparation_equals_one_that_was_left_alone() -> None:
    counts = kills.run([1, 2], 1, lambda _: None)

    assert counts["failures"] == []
    assert counts["kills of prepare"] >= 2
