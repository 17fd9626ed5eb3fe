"""The one loader: which kind of model a name is, and a run told from any other by its weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import bidibeam
from bidibeam.api import load_run
from bidibeam.errors import RunError, SettingsError
from bidibeam.models.loading import find_kind


@pytest.fixture
def copied(toy_run: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(toy_run / name, copy / name)
    return copy


def test_a_run_is_no_reverse_model(toy_run: Path) -> None:
    for name in (None, toy_run):
        with pytest.raises(
            SettingsError, match=f"^{toy_run} is one of bidibeam's own runs.*leave out .reverse"
        ):
            bidibeam.load(name, toy_run)
    with pytest.raises(SettingsError, match="computes in float32, not float16"):
        bidibeam.load(toy_run, dtype="float16")


def test_a_folder_tells_its_kind_and_what_is_no_folder_is_a_name_on_the_hub(
    toy_run: Path, tmp_path: Path
) -> None:
    assert find_kind(toy_run) == "run"
    assert find_kind("facebook/bart-base") == "huggingface"
    with pytest.raises(RunError, match=r"is not a run directory: it has no config\.json"):
        bidibeam.load(tmp_path)


def test_a_run_is_loaded_with_all_that_it_says(copied: Path) -> None:
    run = load_run(str(copied), device="cpu")

    assert run.path == copied
    assert run.limits.max_source_length == 8
    assert run.device == torch.device("cpu")
    assert run.network.vocabulary_size == run.tokenizer.vocabulary_size
    assert not run.network.training
    config = (copied / "config.json").read_text(encoding="utf-8")
    assert config.count('"max_source_length": 8') >= 1
    (copied / "config.json").write_text(config.replace('"max_source_length": 8', '"max_source_length": null'))
    assert load_run(copied).limits.max_source_length is None  # then it reads sources of any length


def test_the_fingerprint_is_that_of_the_weights(toy_run: Path, copied: Path) -> None:
    original, same = load_run(toy_run), load_run(copied)
    assert same.fingerprint  # before the weights change
    weights = load_file(copied / "model.safetensors")
    first = next(iter(weights))
    weights[first].view(-1)[0] += 1e-3
    save_file(weights, copied / "model.safetensors")

    other = load_run(copied)

    assert len(original.fingerprint) == 12
    assert same.fingerprint == original.fingerprint != other.fingerprint


def test_without_a_name_the_model_of_the_package_is_loaded(toy_run: Path) -> None:
    bundled = Path(bidibeam.__file__).parent / "bundled"

    run = load_run(device="cpu")

    assert run.path == load_run(None, device="cpu").path == bundled
    assert run.fingerprint == load_run(bundled).fingerprint != load_run(toy_run).fingerprint
    assert all(weight.dtype == torch.float32 for weight in run.network.parameters())
