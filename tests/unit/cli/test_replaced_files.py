"""A file that is there already is not replaced in silence."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cli.calls import Call, called


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
