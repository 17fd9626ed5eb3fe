"""A short soak of kills; a command that is killed where it hurts most is in tests/end_to_end."""

from __future__ import annotations

from tests.soak import kills


def test_commands_that_are_killed_and_begun_again_end_as_if_they_were_left_alone() -> None:
    counts = kills.run([1], 7, lambda _: None)

    assert counts["failures"] == []
    assert counts["kills"] >= 7
    for name in ("prepare", "train", "decode", "rerank", "train-hf", "decode-hf", "tune"):
        assert counts[f"kills of {name}"] >= 1
    for signal in ("SIGINT", "SIGTERM", "SIGKILL"):
        assert counts[signal] >= 1
