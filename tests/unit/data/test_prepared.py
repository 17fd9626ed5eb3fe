"""Prepared data are mapped into memory; what is missing or damaged is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import FILES, INFO, PAIRS, STATISTICS, TOKENIZER, PreparedData
from bidibeam.errors import RunError


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    lines = [json.dumps({"source": f"tea {i}?", "response": f"yes {i}."}) for i in range(50)]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    return prepare(PrepareSettings(corpus="jsonl"), tmp_path / "c.jsonl", tmp_path / "out").path


def test_arrays_are_mapped_not_read_and_are_what_the_safetensors_library_reads(prepared: Path) -> None:
    pairs = PreparedData.open(prepared).split("test")

    for array in (pairs.tokens, pairs.source_start, pairs.response_length):
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
    assert pairs.source_start.dtype == np.int64
    assert len(pairs) == len(pairs.response_start)
    expected = load_file(prepared / PAIRS)
    np.testing.assert_array_equal(expected["tokens"], pairs.tokens)
    np.testing.assert_array_equal(expected["test.response_start"], pairs.response_start)


def test_a_split_that_is_not_there(prepared: Path) -> None:
    with pytest.raises(KeyError):
        PreparedData.open(prepared).split("development")


@pytest.mark.parametrize(
    ("name", "corpus"), [("mine.jsonl.gz", "jsonl"), ("mine.tsv", "tsv"), ("mine.zip", "CORPUS")]
)
def test_a_file_is_to_be_prepared_first(name: str, corpus: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()

    with pytest.raises(RunError, match=rf"is a file, .*: make one of it with `bidibeam prepare {corpus}`"):
        PreparedData.open(tmp_path / name)


def test_a_file_of_prepared_data_names_their_directory(prepared: Path) -> None:
    with pytest.raises(RunError, match=rf"test\.jsonl is a file, .* give {prepared}, which it is in\.$"):
        PreparedData.open(prepared / "test.jsonl")


@pytest.mark.parametrize("name", FILES)
def test_what_is_missing_is_named_and_how_to_make_it(name: str, prepared: Path) -> None:
    (prepared / name).unlink()

    with pytest.raises(RunError, match=rf"holds no {name}: it is not prepared data, or not all of it\. Pre"):
        PreparedData.open(prepared)
    with pytest.raises(RunError, match=r"^There is no directory .*nowhere: make it with `bidibeam prepare"):
        PreparedData.open(prepared / "nowhere")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"format_version": 9, "bidibeam_version": "7.0"},
            r"is in format 9, written by bidibeam 7\.0; this version reads format 1\. Pr",
        ),
        ({"pairs": {"test": 999}}, r"pairs\.safetensors is damaged: its \w+ split does not fit data\.json\."),
    ],
)
def test_other_versions_and_files_of_two_corpora_are_refused(
    changes: dict[str, Any], message: str, prepared: Path
) -> None:
    info = json.loads((prepared / INFO).read_text())
    (prepared / INFO).write_text(json.dumps({**info, **changes}))

    with pytest.raises(RunError, match=message):
        PreparedData.open(prepared)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (INFO, b"{", r"data\.json is damaged \(.+\)\. Prepare it again with `bidibeam prepare"),
        (INFO, b"[]", r"data\.json is damaged \(.+\)\. Prepare it again"),
        (STATISTICS, b"{", r"stats\.json is damaged"),
        (TOKENIZER, b"{", r"tokenizer\.json is damaged"),
        (PAIRS, b"\x08" + b"\0" * 7 + b"\xffnoise!!" + b"\0" * 64, r"pairs\.safetensors is damaged"),
        (PAIRS, save({"weight": np.zeros(3, np.int64)}), r"pairs\.safetensors and data\.json do not belong"),
    ],
)
def test_damaged_files_are_named(name: str, content: bytes, message: str, prepared: Path) -> None:
    (prepared / name).write_bytes(content)

    with pytest.raises(RunError, match=message):
        _ = PreparedData.open(prepared).statistics


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_file_that_is_cut_off_is_damaged(keep: int, prepared: Path) -> None:
    (prepared / PAIRS).write_bytes((prepared / PAIRS).read_bytes()[:keep])

    with pytest.raises(RunError, match=r"pairs\.safetensors is damaged \(.+\)\. Prepare it again"):
        PreparedData.open(prepared)
