"""The same hypotheses, live or from a file: the same replies and the same rankings, whoever chooses."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from bidibeam.api import load_run
from bidibeam.data.prepared import PreparedData
from bidibeam.strategies import STRATEGIES
from tests.conftest import WORDS
from tests.unit.cli.calls import called, lines_of, write_vectors

SEARCHES = {
    "both finished": ("--beam-size", "8", "--max-length", "9"),
    "some cut off, an odd beam": ("--beam-size", "7", "--max-length", "4"),
}
CHOICES = [
    ("vbs",),
    ("reverse-vbs",),
    ("longest",),
    ("oracle",),
    ("random",),
    ("random", "--seed", "3"),
    ("vbs-tuned", "--length-exponent", "1.5", "--word-reward", "0.2"),
    ("bidis",),
    ("bidis", "--lambda", "0.3"),
    ("bidis", "--lambda", "-0.5"),
    *(
        ("bidia", "--similarity", similarity, "--answer", answer, "--agreement", agreement)
        for similarity, answer, agreement in product(
            ("bleu_t", "wmd_t"), ("regular", "either"), ("closest", "expected", "mean")
        )
    ),
    ("bidia", "--similarity", "bleu", "--similarity-option", "smoothing=add-1"),
    ("bidia", "--similarity", "wmd", "--similarity-option", "weights=log"),
    ("bidia", "--similarity", "token_f1"),
    ("bidia", "--similarity", "edit", "--answer", "either"),
    ("bidia", "--similarity", "embedding_cosine"),
    ("mbr", "--similarity", "edit"),
    ("mbr", "--similarity", "bleu_t", "--agreement", "mean"),
    ("loglinear", "--strategy-option", "reverse_weight=0.3", "--strategy-option", "length_weight=0.5"),
    ("loglinear", "--strategy-option", "candidates=both"),
    ("loglinear", "--strategy-option", "candidates=both", "--similarity", "bleu_t"),
    ("loglinear", "--strategy-option", "candidates=reverse", "--similarity", "wmd_t"),
]


def test_no_strategy_is_left_out() -> None:
    assert {name for name, *_ in CHOICES} == set(STRATEGIES.names())


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors for some of the words: the others count for nothing, live or not."""
    return write_vectors(tmp_path_factory.mktemp("vectors") / "toy.vec", ["sky", "!", *WORDS[2:]])


@pytest.mark.parametrize("choice", CHOICES, ids=" ".join)
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_live_and_from_a_file_it_is_the_same(
    unsure_run: Path,
    toy_data: PreparedData,
    tmp_path: Path,
    vectors: Path,
    search: tuple[str, ...],
    choice: tuple[str, ...],
) -> None:
    live, reranked = tmp_path / "live.jsonl", tmp_path / "reranked.jsonl"
    needs_vectors = {"wmd", "wmd_t", "embedding_cosine"} & set(choice)
    strategy = ("--strategy", *choice, *(("--vectors", vectors) if needs_vectors else ()))
    decode = ("decode", unsure_run, toy_data.path / "test.jsonl", *search, *strategy)
    length = (
        "--max-length",
        load_run(unsure_run).data["lengths"]["response"],
    )  # T, which a file does not know

    written = called(*decode, "--n-best", live)
    again = called("rerank", live, *strategy, *length, "--n-best", reranked)

    assert len(written.replies) == len(list(toy_data.examples("test")))
    assert again.out == written.out
    ours, theirs = lines_of(live), lines_of(reranked)
    for line in (*ours, *theirs):
        signature, _ = line["ranking"].pop("signature"), line["ranking"].pop("batch_size", None)
        assert signature.startswith(f"strategy:{choice[0]}")
    assert theirs == ours
    # Those who want nothing but the reply may take shortcuts, and arrive at the same.
    assert called(*decode).out == written.out
    assert called("rerank", live, *strategy, *length).out == written.out


def test_one_file_serves_all_that_choose_from_the_same_beam(
    unsure_run: Path, toy_data: PreparedData, tmp_path: Path
) -> None:
    out, search = tmp_path / "vbs.jsonl", SEARCHES["both finished"]
    decode = ("decode", unsure_run, toy_data.path / "test.jsonl", *search, "--strategy")
    assert called(*decode, "vbs", "--n-best", out).status == 0

    for choice in CHOICES:
        if choice[0] not in ("bidia", "reverse-vbs") and not {"candidates=both", "candidates=reverse"} & {
            *choice
        }:
            length = ("--max-length", load_run(unsure_run).data["lengths"]["response"])
            assert called("rerank", out, "--strategy", *choice, *length).out == called(*decode, *choice).out


def test_what_is_compared_here_is_not_all_the_same(
    unsure_run: Path, toy_data: PreparedData, tmp_path: Path
) -> None:
    """Strategies disagree, beams are wide and some hypotheses are cut off: a mistake would show."""
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    for path, search in zip((whole, cut), SEARCHES.values(), strict=True):
        flags = (*search, "--strategy", "bidia", "--n-best", path)
        called("decode", unsure_run, toy_data.path / "test.jsonl", *flags)
    lines = lines_of(cut)

    replies = {
        called("rerank", whole, "--strategy", *choice).out
        for choice in (("vbs",), ("longest",), ("random",), ("bidia",), ("bidia", "--answer", "either"))
    }

    assert len(replies) >= 4
    assert {len(line["regular"]) for line in lines} == {4}
    assert {len(line["reverse"]) for line in lines} == {3}
    assert {one["finished"] for line in lines for one in line["regular"]} == {True, False}
