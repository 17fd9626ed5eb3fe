"""`--resume`, as `decode` and `rerank` have it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from bidibeam.data.prepared import PreparedData
from tests.unit.cli.calls import Call, called, lines_of, write_lines

Arguments = tuple[object, ...]

DONE = 5

"""Lines that the killed call wrote."""


@pytest.fixture(params=["decode", "rerank"])
def arguments(
    request: pytest.FixtureRequest, toy_run: Path, toy_data: PreparedData, tmp_path: Path
) -> Arguments:
    """Both commands on the same sources, found already or not."""
    decoded = ("decode", toy_run, toy_data.path / "test.jsonl", "--beam-size", "4")
    if request.param == "decode":
        return decoded
    beams = tmp_path / "beams.jsonl"
    assert called(*decoded, "--n-best", beams).status == 0
    return ("rerank", beams)


def refusal(call: Call) -> str:
    assert call.status == 1
    assert "Traceback" not in call.err
    return call.err.splitlines()[-1]


def interrupted(arguments: Arguments, tmp_path: Path) -> tuple[Call, bytes, Path]:
    """A whole call and its file; and what a killed one left of it: some lines, the last one torn."""
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    call = called(*arguments, "--n-best", whole)
    content = whole.read_bytes()
    torn = b"".join(content.splitlines(keepends=True)[: DONE + 1])[:-40]
    (tmp_path / "out.jsonl.partial").write_bytes(torn)
    return call, content, out


def test_resumed_it_is_what_it_would_have_been(arguments: Arguments, tmp_path: Path) -> None:
    whole, content, out = interrupted(arguments, tmp_path)

    resumed = called(*arguments, "--n-best", out, "--resume")

    assert resumed.out == whole.out
    assert out.read_bytes() == content
    assert not (tmp_path / "out.jsonl.partial").exists()
    assert f"{len(whole.replies) - DONE} sources in" in resumed.told
    assert f"{DONE} were done already." in resumed.told


def test_what_is_done_is_not_done_again(arguments: Arguments, tmp_path: Path) -> None:
    whole, _, out = interrupted(arguments, tmp_path)

    resumed = called(*arguments, "--n-best", out, "--resume")
    finished = called(*arguments, "--n-best", out, "--resume")

    pairs = [
        int(found) for call in (whole, resumed) for found in re.findall(r"(\d+) pairs compared", call.told)
    ]
    assert len(pairs) == 2
    assert pairs[1] < pairs[0]
    assert finished.out == whole.out
    assert re.search(
        rf"\b0 sources in [\d.]+ s\. {len(whole.replies)} were done already\. Signature: ",
        finished.told,
    )


def test_other_settings_are_refused_and_named(arguments: Arguments, tmp_path: Path) -> None:
    _, _, out = interrupted(arguments, tmp_path)
    partial = tmp_path / "out.jsonl.partial"

    call = called(*arguments, "--n-best", out, "--resume", "--agreement", "mean")

    assert call.out == ""
    assert refusal(call) == (
        f"Error: {partial}, line 1: it was written with other settings: agreement:closest, where now there "
        f"is agreement:mean. Remove {partial}, or do not resume, to start over."
    )
    assert len(lines_of(partial)) == DONE
    assert not out.exists()


def test_another_input_is_refused_and_named(arguments: Arguments, tmp_path: Path) -> None:
    _, _, out = interrupted(arguments, tmp_path)
    command, *rest = arguments
    place = 1 if command == "decode" else 0
    lines = lines_of(Path(str(rest[place])))
    lines[1]["source"] = "something else"
    rest[place] = write_lines(tmp_path / "other.jsonl", *lines)

    call = called(command, *rest, "--n-best", out, "--resume")

    assert call.out == ""
    assert re.search(
        r'line 2: its "source" is .*, but the input has the string "something else"', refusal(call)
    )


COUNTING = """
calls = 0

def same(judged, others):
    global calls
    calls += 1
    if calls == fails_at:
        raise RuntimeError("enough")
    return [[float(one.text == other.text) for other in others] for one in judged]
"""


@pytest.mark.usefixtures("similarities")
def test_after_an_error_what_was_done_stays(lists: Path, tmp_path: Path) -> None:
    Path("counting.py").write_text(f"fails_at = 2\n{COUNTING}")
    arguments = ("rerank", lists, "--similarity", "counting:same", "--n-best", tmp_path / "out.jsonl")

    call = called(*arguments)
    assert (call.status, call.out) == (1, "At work.\n")
    assert not (tmp_path / "out.jsonl").exists()
    assert len(lines_of(tmp_path / "out.jsonl.partial")) == 1

    resumed = called(*arguments, "--resume")
    assert resumed.replies == ["At work.", "Yes."]
    assert sys.modules.pop("counting").calls == 3  # one for each source, and the one that failed


def replaced(call: Call) -> bool:
    assert call.status == 0, call.err
    return "is there already" in call.told


def test_an_n_best_file_that_is_replaced_is_named_first(lists: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    assert not replaced(called("rerank", lists, "--n-best", out))
    again = called("rerank", lists, "--n-best", out)
    assert (
        f"Note: {out} is there already and is replaced once all is done; with --resume it would be gone on "
        "with." in again.told
    )
    assert not replaced(called("rerank", lists, "--n-best", out, "--resume"))
    assert not replaced(called("rerank", lists, "--n-best", "/dev/null"))
    assert not replaced(called("rerank", lists))


def test_what_a_killed_call_left_is_named_before_it_is_done_again(lists: Path, tmp_path: Path) -> None:
    partial = tmp_path / "out.jsonl.partial"
    partial.write_text("{}\n")

    call = called("rerank", lists, "--n-best", tmp_path / "out.jsonl")

    assert f"Note: {partial} is there already and is done again; with --resume" in call.told


def test_convert_says_that_it_replaced_a_file(lists: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    first, second = (called("convert", lists, "-o", out) for _ in range(2))

    assert "Replaced" not in first.told
    assert f"Replaced {out}, which was there already." in second.told
