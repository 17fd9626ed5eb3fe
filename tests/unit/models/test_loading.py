"""The one loader: which kind of model a name is, and what it is told otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

import bidibeam
from bidibeam.errors import RunError, SettingsError
from bidibeam.models.loading import find_kind


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
