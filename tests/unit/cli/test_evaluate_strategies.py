"""`bidibeam evaluate` on n-best lists: each --strategy chooses, and is a system."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from bidibeam.data.words import split
from tests.unit.cli.calls import called, write_lines, write_vectors
from tests.unit.cli.evaluations import FEW, GOOD, POOR, REFERENCES, results


def test_of_an_n_best_file_it_is_the_ranking_that_was_recorded(beams: Path, tmp_path: Path) -> None:
    ranked = tmp_path / "ranked.jsonl"
    rerank = called("rerank", beams, "--similarity", "token_f1", "--n-best", ranked)
    assert rerank.replies == GOOD

    found = results(
        tmp_path / "out.json", f"plain={beams}", ranked, f"text={write_lines(tmp_path / 't', *GOOD)}"
    )

    plain, again, text = found["systems"].values()
    assert again["scores"] == text["scores"]
    assert plain["scores"]["bleu"]["value"] < again["scores"]["bleu"]["value"]
    assert again["signature"].startswith(f"{rerank.signature}|file:ranked.jsonl@")
    assert plain["signature"].startswith("file:beams.jsonl@")
    assert [test["beam_size"] for test in found["tests"]] == [3, 0]


def test_systems_that_chose_among_unequal_numbers_are_pointed_out(beams: Path) -> None:
    alike = called("evaluate", beams, "--strategy", "vbs", "--strategy", "longest", *FEW)
    unlike = called("evaluate", beams, "--strategy", "vbs", "--strategy", "bidia bleu_t", *FEW)

    assert "did not choose among as many" not in alike.err
    assert re.search(r"as many hypotheses \(N_B\): vbs \d+, bidia bleu_t \d+\.", " ".join(unlike.err.split()))


def test_every_strategy_is_a_system(beams: Path, tmp_path: Path) -> None:
    names = ["vbs", "bidia bleu_t", "bidia bleu_t either", "oracle", "bidia edit", "longest"]
    flags = [word for name in names for word in ("--strategy", name)]

    found = results(tmp_path / "out.json", beams, *flags, "--baseline", "bidia bleu_t")

    assert list(found["systems"]) == names
    for name in names:
        strategy, *similarity = name.split()
        given = [*(["--similarity", similarity[0]] if similarity else [])]
        given += ["--answer", "either"] if "either" in similarity else []
        rerank = called("rerank", beams, "--strategy", strategy, *given)
        text = write_lines(tmp_path / "replies.txt", *rerank.replies)
        alone = results(
            tmp_path / "alone.json", text, "--references", write_lines(tmp_path / "r", *REFERENCES)
        )
        assert found["systems"][name]["scores"] == alone["systems"]["replies"]["scores"]
        assert found["systems"][name]["signature"].startswith(rerank.signature.partition("|bidibeam")[0])
    assert {test["system"]: test["beam_size"] for test in found["tests"]} == {
        "vbs": 2,
        "bidia bleu_t either": 3,
        "oracle": 2,
        "bidia edit": 3,
        "longest": 2,
    }


def test_several_files_and_strategies_have_both_names(beams: Path, tmp_path: Path) -> None:
    flags = ("--strategy", "vbs", "--strategy", "longest")

    found = results(tmp_path / "out.json", beams, f"again={beams}", *flags)
    named = results(tmp_path / "out.json", f"again={beams}", *flags)

    assert list(found["systems"]) == ["beams: vbs", "beams: longest", "again: vbs", "again: longest"]
    assert list(named["systems"]) == ["again: vbs", "again: longest"]


def test_t_and_workers_reach_the_strategies(beams: Path, tmp_path: Path) -> None:
    args = (beams, "--strategy", "bidia bleu_t")

    one, other = (
        results(tmp_path / "out.json", *args, "--max-length", "7", "--workers", workers) for workers in (1, 3)
    )

    assert one == other
    assert "|T:7|" in one["systems"]["bidia bleu_t"]["signature"]
    assert "Note: T is 90, but the longest hypothesis has 6 tokens" in (
        called("evaluate", *args, "--max-length", "90", *FEW).told
    )


def test_vectors_are_read_once_for_all_who_use_them(beams: Path, tmp_path: Path) -> None:
    words = sorted({word for text in (*GOOD, *POOR, "So.") for word in split(text)})
    vectors = write_vectors(tmp_path / "toy.vec", words)
    flags = ("--strategy", "bidia wmd_t", "--strategy", "bidia wmd_t either", "--strategy", "vbs")

    call = called("evaluate", beams, *flags, *FEW, "--vectors", vectors, "--signatures")

    assert call.status == 0
    assert call.told.count(f"{len(words)} of {len(words)} words have a vector.") == 1
    assert call.told.count("|vectors:toy.vec@") == 2


def test_tuned_settings_are_used_and_named(beams: Path, tmp_path: Path) -> None:
    tuned = {
        "bidis": {"lambda_": 0.5},
        "vbs-tuned": {"length_exponent": 1, "word_reward": 4},
        "bidia bleu_t": {"T": 3},
    }
    (tmp_path / "tuned.json").write_text(json.dumps({"format_version": 1, "options": tuned}))
    names = ("vbs-tuned", "bidis", "vbs", "bidia bleu_t", "bidia bleu_t tuned")
    flags = [word for name in names for word in ("--strategy", name)]

    for given in (tmp_path, tmp_path / "tuned.json"):
        found = results(tmp_path / "out.json", beams, *flags, "--tuned", given)["systems"]

    assert found["vbs-tuned"]["signature"].startswith(
        "strategy:vbs-tuned|length_exponent:1|word_reward:4|tuned:tuned.json@"
    )
    assert found["bidis"]["signature"].startswith("strategy:bidis|lambda:0.5|tuned:tuned.json@")
    assert "|T:3|" in found["bidia bleu_t tuned"]["signature"]
    assert "|tuned:tuned.json@" in found["bidia bleu_t tuned"]["signature"]
    assert "|T:20|" in found["bidia bleu_t"]["signature"]
    for name in ("vbs", "bidia bleu_t"):
        assert "tuned" not in found[name]["signature"]


def test_a_similarity_of_ones_own_is_found_where_one_is(
    beams: Path, similarities: Callable[[str], str]
) -> None:
    call = called("evaluate", beams, "--strategy", f"bidia {similarities('same')}", *FEW)

    assert call.status == 0, call.err


def test_an_oracle_chooses_by_the_references_that_were_given(
    beams: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    flags = ("--references", texts["poor"])
    nearest = write_lines(tmp_path / "nearest.txt", *(reply or "So." for reply in POOR))

    found = results(tmp_path / "out.json", beams, "--strategy", "oracle", *flags)["systems"]["oracle"]

    expected = results(tmp_path / "out.json", nearest, *flags)["systems"]["nearest"]
    assert found["scores"] == expected["scores"]
