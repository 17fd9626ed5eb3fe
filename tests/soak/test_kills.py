"""A short soak of kills; a command that is killed where it hurts most is in tests/end_to_end."""

from __future__ import annotations

from tests.soak import kills

SEED = 291  # the first four commands are killed by all three signals, and training is killed twice


def test_commands_that_are_killed_and_begun_again_end_as_if_they_were_left_alone() -> None:
    counts = kills.run([SEED], 4, lambda _: None)

    assert counts["failures"] == []
    for name in ("prepare", "train", "decode", "rerank"):
        assert counts[f"kills of {name}"] >= 1
    for signal in ("SIGINT", "SIGTERM", "SIGKILL"):
        assert counts[signal] >= 1
