"""A part of the soak: one seed of damaged inputs, through every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from bidibeam.cli.main import COMMANDS
from tests.soak import damage
from tests.soak.cases import Case, judge


def test_damaged_inputs_are_refused_in_a_sentence_and_leave_nothing_half_written() -> None:
    counts = damage.run([16], 80, lambda _: None)

    assert counts["failures"] == []
    assert counts["tried"] == counts["done"] + counts["refused"] == sum(counts["commands"].values()) == 80
    assert counts["refused"] > 30
    assert sum(count > 0 for count in counts["commands"].values()) > len(COMMANDS) / 2


@pytest.mark.parametrize(
    ("status", "err", "after", "verdict"),
    [
        (0, "", {"a": "1", "b": "2"}, "done"),
        (1, "Error: it is damaged.\n", {"a": "1", "x.partial": "2"}, "refused"),
        (1, "Error: it is damaged.\n", {"a": "1", "b": "2"}, "half-written file"),
        (1, "Error: it is damaged.\n", {"a": "2"}, "half-written file"),
        (1, "Error: it is damaged.\n", {}, "half-written file"),
        (1, "Traceback (most recent call last):\n", {"a": "1"}, "traceback"),
        (1, "Error: This is a bug of bidibeam (x).\n", {"a": "1"}, "traceback"),
        (-11, "", {"a": "1"}, "traceback"),
        (1, "", {"a": "1"}, "no sentence"),
        (1, f"Error: {'x' * 3000}\n", {"a": "1"}, "long message"),
        (None, "", {"a": "1"}, "hang"),
    ],
)
def test_what_a_call_did_is_judged(
    status: int | None, err: str, after: dict[str, str], verdict: str, tmp_path: Path
) -> None:
    assert judge(Case("x", [], str(tmp_path)), status, err, {"a": "1"}, after) == verdict
