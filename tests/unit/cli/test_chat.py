"""`bidibeam chat`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.cli.calls import called, refused

VBS = ("--strategy", "vbs", "--beam-size", "3")


def test_it_answers_and_obeys(toy_run: Path) -> None:
    typed = "red cat\n/[/b] x\n/beams\n/beams\n\nblue dog\n/help\n/dance\n/quit\nnever read\n"

    call = called("chat", toy_run, *VBS, typed=typed)

    assert call.replies == ["red cat!", "blue dog!"]
    for told in (
        "There is no command /[/b] x; /help lists those there are.",
        "Hypotheses are shown.",
        "Hypotheses are hidden.",
        "There is no command /dance; /help lists those there are.",
    ):
        assert told in call.told
    assert call.told.count("/quit leave (so does the end of input)") == 2  # at the beginning, and asked for
    assert "beam" not in call.err.replace("/beams", "")


@pytest.mark.parametrize(
    ("strategy", "shown"),
    [("vbs", ["regular"]), ("reverse-vbs", ["reverse"]), ("bidia", ["regular", "reverse"])],
)
def test_beams_shows_what_the_strategy_chose_from(toy_run: Path, strategy: str, shown: list[str]) -> None:
    call = called("chat", toy_run, "--strategy", strategy, "--beam-size", "4", typed="/beams\nred cat\n")

    assert re.findall(r"(regular|reverse) beam", call.err) == shown
    assert call.err.count("◀ reply") == (2 if strategy == "bidia" else 0)  # the pair that won
    (reply,) = call.replies
    assert reply in call.err  # it is one of those shown
    rows = [line for line in call.err.splitlines() if line.split()[:1] in (["1"], ["2"], ["3"], ["4"])]
    assert len(rows) == 4 // len(shown)


def test_it_ends_with_its_input(toy_run: Path) -> None:
    assert called("chat", toy_run, *VBS, typed="white").out == "white!\n"


def test_a_strategy_that_cannot_be_used_is_named_before_the_first_line(toy_run: Path) -> None:
    assert refused("chat", toy_run, "--strategy", "bidis", "--agreement", "mean", typed="white\n") == (
        "The strategy bidis has no option --agreement. It has: --lambda."
    )
