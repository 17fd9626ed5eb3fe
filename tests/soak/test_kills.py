"""A short soak of kills; more of them are in tests/end_to_end."""

from __future__ import annotations

from tests.soak import kills

NAMES = ("prepare", "train", "decode", "train-hf", "tune", "reproduce")


def test_killed_at_random_and_begun_again_a_command_leaves_what_one_does_that_was_left_alone() -> None:
    counts = kills.run([6], len(NAMES), lambda _: None, names=NAMES)

    assert counts["failures"] == []
    assert all(counts[f"kills of {name}"] for name in NAMES)
    assert all(counts[by.name] for by in kills.SIGNALS)
