"""What `bidibeam analyse` leaves out, and what it puts that down to."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.calls import called, refused


def test_what_systems_leaves_out_is_not_blamed_on_the_lists(beams: Path) -> None:
    assert refused("analyse", beams, "--systems", "vbs", "--analysis", "ranks") == (
        "It needs the system 'bidia bleu_t', and --systems leaves it out."
    )
    assert refused("analyse", beams, "--systems", "vbs", "--analysis", "headroom") == (
        "It needs the system 'vbs-tuned', and --systems leaves it out."
    )
    told = called("analyse", beams, "--systems", "vbs").told
    assert (
        "Left out the analyses ranks, sensitivity and examples: They need the system 'bidia bleu_t', and "
        in told
    )


def test_a_system_by_its_shorter_name_is_the_same_system(beams: Path) -> None:
    flags = ("--analysis", "ranks", "--systems")

    short, full = (called("analyse", beams, *flags, name) for name in ("bidia", "bidia  bleu_t"))

    assert (short.status, short.err) == (0, full.err)
    assert "bidia bleu_t" in short.told


def test_what_is_left_out_for_the_same_reason_is_told_in_one_line(lists: Path, tmp_path: Path) -> None:
    call = called("analyse", lists, "--out", tmp_path / "out")

    left_out = json.loads((tmp_path / "out" / "analyses.json").read_text())["left_out"]
    told = [row for row in call.err.splitlines() if row.startswith("Left out")]
    for name in (*left_out["systems"], *left_out["analyses"]):
        assert sum(name in row.partition(": ")[0] for row in told) >= 1, name
    assert len(told) < len(left_out["systems"]) + len(left_out["analyses"])
    reasons = [row.partition(": ")[2] for row in told]
    assert len(set(reasons)) == len(reasons)
    for sentence in (
        "Left out the system vbs: source '1', regular[0] has no \"score\", and vbs needs it.",
        "Left out the systems bidis and bidia bleu_t expected: source '1', regular[0] has no \"log_prob\", ",
        "and each of them needs it",
        "Left out the systems vbs-tuned, bidia bleu_t tuned and bidia wmd_t tuned: They need tuned settings",
        "Left out the analyses diversity and sensitivity: Source '1' has no reference, ",
    ):
        assert sentence in call.told
