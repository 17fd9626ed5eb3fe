"""`--resume` of decode and rerank: as if nothing had happened, and nothing is done twice."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bidibeam.data.prepared import PreparedData
from tests.unit.cli.calls import Call, called, lines_of

Arguments = tuple[object, ...]

DONE = 5
"""Lines that the killed call wrote."""
KEPT = {"decode": 3, "rerank": DONE}
"""Lines that are not done again: decode begins a batch where it would have begun."""


@pytest.fixture(params=["decode", "rerank"])
def arguments(
    request: pytest.FixtureRequest, toy_run: Path, toy_data: PreparedData, tmp_path: Path
) -> Arguments:
    """Both commands on the same sources, found already or not."""
    search = ("--beam-size", "4", "--batch-size", "3", "--strategy", "bidia")
    decoded = ("decode", toy_run, toy_data.path / "test.jsonl", *search)
    if request.param == "decode":
        return decoded
    beams = tmp_path / "beams.jsonl"
    assert called(*decoded, "--n-best", beams).status == 0
    return ("rerank", beams, "--strategy", "bidia")


def interrupted(arguments: Arguments, tmp_path: Path) -> tuple[Call, bytes, Path]:
    """A whole call and its file; and what a killed one left of it: some lines, the last one torn."""
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    call = called(*arguments, "--n-best", whole)
    content = whole.read_bytes()
    torn = b"".join(content.splitlines(keepends=True)[: DONE + 1])[:-40]
    (tmp_path / "out.jsonl.partial").write_bytes(torn)
    return call, content, out


def test_resumed_it_is_what_it_would_have_been_and_nothing_is_done_twice(
    arguments: Arguments, tmp_path: Path
) -> None:
    whole, content, out = interrupted(arguments, tmp_path)

    resumed, finished = (called(*arguments, "--n-best", out, "--resume") for _ in range(2))

    assert resumed.out == finished.out == whole.out
    assert out.read_bytes() == content
    assert not (tmp_path / "out.jsonl.partial").exists()
    kept = KEPT[str(arguments[0])]
    assert f"{len(whole.replies) - kept} sources in" in resumed.told
    assert f"{kept} were done already." in resumed.told
    pairs = [
        int(found) for call in (whole, resumed) for found in re.findall(r"(\d+) pairs compared", call.told)
    ]
    assert pairs[1] < pairs[0]
    assert re.search(rf"\b0 sources in [\d.]+ s\. {len(whole.replies)} were done already\. ", finished.told)


def test_other_settings_are_refused_and_without_resume_all_is_done_again(
    arguments: Arguments, tmp_path: Path
) -> None:
    whole, content, out = interrupted(arguments, tmp_path)
    partial = tmp_path / "out.jsonl.partial"

    call = called(*arguments, "--n-best", out, "--resume", "--agreement", "mean")
    assert (call.status, call.out) == (1, "")
    assert f"Error: {partial}, line 1: it was written with other settings: agreement:closest" in call.told
    assert len(lines_of(partial)) == DONE

    again = called(*arguments, "--n-best", out)
    assert (again.out, out.read_bytes()) == (whole.out, content)
    assert "were done already" not in again.told
    assert f"Note: {partial} is there already and is done again; with --resume" in again.told
    assert not partial.exists()


def test_after_an_error_what_was_done_stays(
    lists: Path, tmp_path: Path, similarities: Callable[[str], str]
) -> None:
    similarity = ("--similarity", similarities("fails_second"))
    arguments = ("rerank", lists, *similarity, "--n-best", tmp_path / "out.jsonl")

    call = called(*arguments)
    assert (call.status, call.out) == (1, "At work.\n")
    assert not (tmp_path / "out.jsonl").exists()
    assert len(lines_of(tmp_path / "out.jsonl.partial")) == 1

    resumed = called(*arguments, "--resume")
    assert resumed.replies == ["At work.", "Yes."]
    assert sys.modules["my_similarities"].calls == 3  # one for each source, and the one that failed


def test_a_file_that_is_replaced_is_named_first(lists: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    notes = [
        [line for line in called("rerank", lists, *flags).err.splitlines() if "is there already" in line]
        for flags in (
            ("--n-best", out),
            ("--n-best", out),
            ("--n-best", out, "--resume"),
            ("--n-best", "/dev/null"),
            (),
        )
    ]

    told = f"{out} is there already and is replaced once all is done; with --resume it would be gone on with."
    assert notes == [[], [f"Note: {told}"], [], [], []]
    first, second = (called("convert", lists, "-o", tmp_path / "converted.jsonl").told for _ in range(2))
    assert "Replaced" not in first
    assert f"Replaced {tmp_path / 'converted.jsonl'}, which was there already." in second
