from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import FILES, INFO, PAIRS, STATISTICS, TOKENIZER, PreparedData
from bidibeam.errors import RunError


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    lines = [json.dumps({"source": f"tea {i}?", "response": f"yes {i}."}) for i in range(50)]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    return prepare(PrepareSettings(corpus="jsonl"), tmp_path / "c.jsonl", tmp_path / "out").path


def test_arrays_are_mapped_not_read(prepared: Path) -> None:
    pairs = PreparedData.open(prepared).split("train")

    for array in (pairs.tokens, pairs.source_start, pairs.response_length):
        assert isinstance(array, np.memmap)
        assert not array.flags.writeable
    assert pairs.source_start.dtype == np.int64
    assert len(pairs) == len(pairs.response_start)


def test_the_safetensors_library_reads_the_same(prepared: Path) -> None:
    from safetensors.numpy import load_file

    read = load_file(prepared / PAIRS)

    np.testing.assert_array_equal(read["tokens"], PreparedData.open(prepared).split("test").tokens)
    np.testing.assert_array_equal(
        read["test.response_start"], PreparedData.open(prepared).split("test").response_start
    )


def test_a_split_that_is_not_there(prepared: Path) -> None:
    with pytest.raises(KeyError):
        PreparedData.open(prepared).split("development")


def test_a_missing_directory_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(
        RunError, match=r"^There is no directory .*nowhere: make it with `bidibeam prepare CORPUS"
    ):
        PreparedData.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "corpus"), [("mine.jsonl.gz", "jsonl"), ("mine.tsv", "tsv"), ("mine.zip", "CORPUS")]
)
def test_a_file_is_to_be_prepared_first(name: str, corpus: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.touch()

    with pytest.raises(RunError) as caught:
        PreparedData.open(file)

    assert str(caught.value) == (
        f"{file} is a file, and prepared data are a directory: make one with `bidibeam prepare {corpus} "
        f"--source {file} --out data`, and with --keep-text for `train --base`."
    )


def test_a_file_of_prepared_data_names_their_directory(prepared: Path) -> None:
    with pytest.raises(
        RunError, match=rf"test\.jsonl is a file, .* directory: give {prepared}, which it is in\.$"
    ):
        PreparedData.open(prepared / "test.jsonl")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(name: str, prepared: Path) -> None:
    (prepared / name).unlink()

    with pytest.raises(
        RunError, match=rf"holds no {name}: it is not prepared data, or not all of it\. Prepare it"
    ):
        PreparedData.open(prepared)


def test_another_version_is_refused(prepared: Path) -> None:
    info = json.loads((prepared / INFO).read_text())
    (prepared / INFO).write_text(json.dumps({**info, "format_version": 9, "bidibeam_version": "7.0"}))

    with pytest.raises(
        RunError, match=r"is in format 9, written by bidibeam 7\.0; this version reads format 1\. Pr"
    ):
        PreparedData.open(prepared)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_damaged_json_is_named(text: str, prepared: Path) -> None:
    (prepared / INFO).write_text(text)

    with pytest.raises(
        RunError, match=r"data\.json is damaged \(.+\)\. Prepare it again: `bidibeam prepare CORPUS"
    ):
        PreparedData.open(prepared)


def test_damaged_statistics_are_named_when_they_are_read(prepared: Path) -> None:
    (prepared / STATISTICS).write_text("{")

    with pytest.raises(RunError, match=r"stats\.json is damaged"):
        _ = PreparedData.open(prepared).statistics


def test_a_damaged_tokenizer_is_named(prepared: Path) -> None:
    (prepared / TOKENIZER).write_text("{")

    with pytest.raises(RunError, match=r"tokenizer\.json is damaged"):
        PreparedData.open(prepared)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_file_that_is_cut_off_is_damaged(keep: int, prepared: Path) -> None:
    (prepared / PAIRS).write_bytes((prepared / PAIRS).read_bytes()[:keep])

    with pytest.raises(RunError, match=r"pairs\.safetensors is damaged \(.+\)\. Prepare it again"):
        PreparedData.open(prepared)


def test_a_header_of_noise_is_damaged(prepared: Path) -> None:
    (prepared / PAIRS).write_bytes(b"\x08" + b"\0" * 7 + b"\xffnoise!!" + b"\0" * 64)

    with pytest.raises(RunError, match=r"pairs\.safetensors is damaged"):
        PreparedData.open(prepared)


def test_files_of_two_corpora_do_not_mix(prepared: Path) -> None:
    info = json.loads((prepared / INFO).read_text())
    (prepared / INFO).write_text(json.dumps({**info, "pairs": {**info["pairs"], "test": 999}}))

    with pytest.raises(
        RunError, match=r"pairs\.safetensors is damaged: its test split does not fit data\.json\."
    ):
        PreparedData.open(prepared)


def test_other_tensors_are_refused(prepared: Path) -> None:
    from safetensors.numpy import save

    (prepared / PAIRS).write_bytes(save({"weight": np.zeros(3, np.int64)}))

    with pytest.raises(
        RunError, match=r"is damaged: pairs\.safetensors and data\.json do not belong together\."
    ):
        PreparedData.open(prepared)
