"""Prepared data are mapped into memory; what is missing or damaged of them is named."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from bidibeam.data.prepare import prepare
from bidibeam.data.prepared import FILES, INFO, PAIRS, STATISTICS, TOKENIZER, PreparedData
from bidibeam.errors import RunError
from tests.unit.data.made_corpora import corpus, settings


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    return prepare(settings(), corpus(folder / "c.jsonl"), folder / "out").path


@pytest.fixture
def prepared(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "out"))


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


def read_all(path: Path) -> None:
    data = PreparedData.open(path)
    assert data.statistics
    assert list(data.examples("test"))


DAMAGE: list[tuple[str, Any, str]] = [
    *((name, None, f"holds no {name}: it is not prepared data, or not all of it. Prepare") for name in FILES),
    (INFO, b"{", "data.json is damaged ("),
    (INFO, b"[]", "Prepare it again with `bidibeam prepare"),
    (INFO, {"format_version": 9, "bidibeam_version": "7.0"}, "is in format 9, written by bidibeam 7.0; this"),
    (INFO, {"pairs": {"test": 999}}, "split does not fit data.json. Prepare it again"),
    (INFO, {"pairs": 5}, "data.json is damaged (The setting pairs is 5"),
    (INFO, {"settings": {}}, "data.json is damaged (The setting settings.max_source_length is missing)"),
    (STATISTICS, b"{", "stats.json is damaged"),
    (TOKENIZER, b"{", "tokenizer.json is damaged"),
    (PAIRS, b"\x08" + b"\0" * 7 + b"\xffnoise!!" + b"\0" * 64, "pairs.safetensors is damaged"),
    (PAIRS, save({"weight": np.zeros(3, np.int64)}), "pairs.safetensors and data.json do not belong"),
    *((PAIRS, keep, "pairs.safetensors is damaged (") for keep in (0, 4, 100, -1)),
    ("test.jsonl", b'{"id": "1", "source": "a"}', "test.jsonl, line 1 is damaged (it has no 'reference')"),
    ("test.jsonl", b'{"id": "1", "source": "a", "reference": 5}', "must be strings). Prepare it again"),
    ("test.jsonl", b"5", "test.jsonl, line 1 is damaged ("),
    ("test.jsonl", b"[" * 100_000, "test.jsonl, line 1 is damaged (maximum recursion depth exceeded"),
    ("test.jsonl", b"\xe9\xff", "test.jsonl, line 1 is damaged ("),
]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("tokens", lambda tokens: tokens + 9000),
        ("test.source_start", lambda starts: starts - 1000),
        ("test.source_length", lambda lengths: lengths * 0),
        ("test.source_length", lambda lengths: lengths[:-1]),
        ("train.response_start", lambda starts: starts + 2**62),
    ],
)
def test_pairs_that_lead_nowhere_are_damage(name: str, change: Any, prepared: Path) -> None:
    arrays = load_file(prepared / PAIRS)
    (prepared / PAIRS).write_bytes(save({**arrays, name: change(arrays[name])}))

    with pytest.raises(RunError, match=r"pairs\.safetensors is damaged: it"):
        PreparedData.open(prepared)


@pytest.mark.parametrize(("name", "content", "fragment"), DAMAGE)
def test_what_is_missing_or_damaged_is_named(name: str, content: Any, fragment: str, prepared: Path) -> None:
    path = prepared / name
    if content is None:
        path.unlink()
    elif isinstance(content, dict):
        path.write_text(json.dumps({**json.loads(path.read_text()), **content}))
    else:
        path.write_bytes(path.read_bytes()[:content] if isinstance(content, int) else content)

    with pytest.raises(RunError, match=re.escape(fragment)):
        read_all(prepared)


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("mine.jsonl.gz", "is a file, and prepared data are a directory: make one of it with `bidibeam prep"),
        ("mine.jsonl.gz", "`bidibeam prepare jsonl`"),
        ("mine.tsv", "`bidibeam prepare tsv`"),
        ("mine.zip", "`bidibeam prepare CORPUS`"),
        ("out/test.jsonl", "out, which it is in."),
        ("nowhere", "nowhere: make it with `bidibeam prepare`"),
    ],
)
def test_what_is_no_directory_says_how_to_make_one(name: str, fragment: str, prepared: Path) -> None:
    path = prepared.parent / name
    if name != "nowhere":
        path.touch()

    with pytest.raises(RunError, match=re.escape(fragment)):
        PreparedData.open(path)
