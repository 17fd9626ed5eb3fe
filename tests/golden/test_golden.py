"""What the commands write has not changed: to the digit of frozen lists, to 1e-4 where a model computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.calls import DATA, check_same, expected_of, parse_lists
from tests.golden.cases import CASES, observe
from tests.unit.cli.calls import called

SEARCHED = 1e-4
FORMERLY = ("--max-length", 20, "--strategy", "bidia", "--similarity-option", "max_length=20")
"""Flags for what was the default when the lists were frozen."""
TO_THE_DIGIT = ("rerank", "evaluate", "analyse", "convert")


@pytest.fixture(autouse=True)
def _in_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are made in the folder of the data, on a terminal of 80 columns."""
    monkeypatch.chdir(DATA)
    monkeypatch.setenv("COLUMNS", "80")


def lines_of(*commands: str) -> list[Any]:
    return [pytest.param(line, id=line) for command in commands for line in CASES[command]]


@pytest.mark.parametrize("line", lines_of(*TO_THE_DIGIT))
def test_lists_are_treated_as_before_to_the_digit(line: str, tmp_path: Path) -> None:
    expected = expected_of(line.split()[0])[line]

    check_same(observe(line, tmp_path), expected)


@pytest.mark.parametrize("line", lines_of("decode", "score"))
def test_models_write_and_score_as_before(line: str, tmp_path: Path) -> None:
    expected = expected_of(line.split()[0])[line]

    check_same(observe(line, tmp_path), expected, tolerance=SEARCHED)


@pytest.mark.parametrize("line", lines_of("info"))
def test_info_tells_all_that_it_told(line: str, tmp_path: Path) -> None:
    """Keys may be added."""
    found = observe(line, tmp_path)

    for key, value in expected_of("info")[line].items():
        check_same(found[key], value, where=key)


def test_every_field_of_a_search_is_as_before(tmp_path: Path) -> None:
    done = called("decode", "sources.tsv", *FORMERLY, "--n-best", tmp_path / "both.jsonl")

    assert done.status == 0, done.err
    found, expected = parse_lists(tmp_path / "both.jsonl"), parse_lists(DATA / "searched.jsonl")
    assert {each["ranking"].pop("batch_size") for each in found} == {32}
    for each in (*found, *expected):
        each["ranking"]["signature"] = each["ranking"]["signature"].partition("|bidibeam:")[0]
    check_same(found, expected, tolerance=SEARCHED)
    assert done.out.splitlines() == [each["ranking"]["replies"][0]["text"] for each in expected]


@pytest.mark.parametrize("flags", [("--batch-size", "1"), ("--batch-size", "7"), ("--workers", "3")])
def test_batches_and_workers_change_no_reply(flags: tuple[str, ...]) -> None:
    expected = [each["ranking"]["replies"][0]["text"] for each in parse_lists(DATA / "searched.jsonl")]

    assert called("decode", "sources.tsv", *FORMERLY, *flags).out.splitlines() == expected


def test_sources_come_by_every_way(tmp_path: Path) -> None:
    sources = (DATA / "two.txt").read_text()
    (tmp_path / "two.jsonl").write_text(
        "".join(f"{json.dumps({'source': s})}\n" for s in sources.splitlines())
    )
    flags = ("--beam-size", "4", "--strategy", "vbs")

    answers = {
        called("decode", "two.txt", *flags).out,
        called("decode", "-", *flags, typed=sources).out,
        called("decode", *flags, typed=sources).out,
        called("decode", tmp_path / "two.jsonl", *flags).out,
    }

    assert len(answers) == 1
    assert len(answers.pop().splitlines()) == 2


def test_a_blank_line_and_a_long_one_are_sources_too() -> None:
    typed = f"\n{'tea and bread ' * 60}\nhello\n"

    assert len(called("decode", "--beam-size", "4", typed=typed).out.splitlines()) == 3


def test_lists_come_and_go_by_pipes_and_compressed(tmp_path: Path) -> None:
    lists = (DATA / "both.jsonl").read_bytes()
    expected = called("rerank", "both.jsonl").out

    assert called("rerank", "-", typed=lists).out == expected
    for ending in ("gz", "xz"):
        packed = tmp_path / f"lists.jsonl.{ending}"
        assert called("convert", "both.jsonl", "-o", packed).status == 0
        assert called("rerank", packed).out == expected
