"""The one loader: which kind of model a name is, and a run told from any other by its weights."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import bidibeam
from bidibeam.api import describe_model, load_run
from bidibeam.errors import RunError, SettingsError
from bidibeam.models.loading import MODELS, find_kind
from bidibeam.registry import Registry


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


class Echo:
    """A kind of model in one class: it recognises its folders, describes and loads them."""

    title = "echo"

    @staticmethod
    def recognises(path: Path) -> bool:
        return path.suffix == ".echo"

    @staticmethod
    def describe(folder: Path) -> dict[str, Any]:
        return {"folder": folder.name}

    @staticmethod
    def load(name: Path, reverse: Path | None, **options: Any) -> Any:
        return name, reverse, options


def test_a_new_kind_is_a_class_and_a_line(
    toy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "one.echo"
    folder.mkdir()
    ours = {"run": "bidibeam.models.run:RunModel", "echo": f"{__name__}:Echo"}
    registry: Registry[Any] = Registry("kind of model", group="no.such.group", locations=ours)
    for module in ("models.loading", "api"):
        monkeypatch.setattr(f"bidibeam.{module}.MODELS", registry)

    loaded: Any = bidibeam.load(folder, device="cpu")

    assert loaded == (folder, None, {"device": "cpu", "dtype": None, "trust_remote_code": False})
    assert describe_model(folder) == ("Echo", {"folder": "one.echo"})
    assert describe_model(toy_run)[0] == "Run"
    assert {"run", "huggingface", "ctranslate2"} <= set(MODELS.names())


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
