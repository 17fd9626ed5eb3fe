"""What `stats.json` counts: pairs that were dropped, lengths, and words by position."""

from __future__ import annotations

import json
from pathlib import Path

from bidibeam.data.encoding import REASONS
from bidibeam.data.prepare import prepare
from tests.unit.data.made_corpora import corpus, settings


def test_dropped_pairs_are_counted_by_reason(tmp_path: Path) -> None:
    long = "tea " * 60
    extra = [
        ["", "Yes."],
        ["Yes.", " \u200b "],
        [long, "Yes."],
        ["Yes.", "no " * 21],
        [long, long],
        ["Yes.", "no " * 20],
    ]
    data = prepare(settings(), corpus(tmp_path / "c.jsonl", extra=extra), tmp_path / "out")

    dropped = data.statistics["dropped"]
    total = {reason: sum(dropped[split][reason] for split in dropped) for reason in REASONS}
    assert total == {"empty_source": 1, "empty_response": 1, "source_too_long": 2, "response_too_long": 1}
    assert sum(data.statistics["pairs"].values()) == 300 * 5 + 1
    assert data.statistics["lengths"]["before_limits"]["response"]["max"] == 60
    assert data.statistics["lengths"]["after_limits"]["response"]["max"] == 20


def test_a_turn_of_17843_tokens_is_dropped_and_counted(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl", extra=[["Hi.", "word " * 17_843], ["x" * 1_000_000, "Yes."]])

    data = prepare(settings(), source, tmp_path / "out")

    assert data.statistics["lengths"]["before_limits"]["response"]["max"] == 17_843
    assert sum(data.statistics["dropped"][split]["response_too_long"] for split in data.info["pairs"]) == 1


def test_positions_are_counted_from_both_ends(tmp_path: Path) -> None:
    turns = [["x", "a b ."], ["x", "a ."]]
    lines = [json.dumps({"source": s, "response": r, "id": f"{i}"}) for i in range(200) for s, r in turns]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))

    data = prepare(settings(), tmp_path / "c.jsonl", tmp_path / "out")

    positions = data.statistics["positions"]
    pairs = len(data.split("train"))
    assert positions["words"] == [".", "a", "b"]
    assert positions["counts"] == [pairs, pairs, pairs // 2]
    assert positions["responses_at_least_this_long"][:4] == [pairs, pairs, pairs // 2, 0]
    assert positions["from_left"][:3] == [[0, pairs, 0], [pairs // 2, 0, pairs // 2], [pairs // 2, 0, 0]]
    assert positions["from_right"][:3] == [[pairs, 0, 0], [0, pairs // 2, pairs // 2], [0, pairs // 2, 0]]
