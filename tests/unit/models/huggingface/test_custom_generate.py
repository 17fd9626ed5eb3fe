"""The folder that is pushed to the Hub with a model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from bidibeam.errors import BidibeamError
from bidibeam.hf import BidiGenerate
from tests.unit.models.huggingface.test_generate import inputs, pair

FOLDER = Path(__file__).parents[3] / "custom_generate"


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Path, Path]:
    """A model, its folder with our own generate in it, and the folder of the reverse model."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    model, reverse = pair("bart")
    model.save_pretrained(tmp_path / "regular")
    reverse.save_pretrained(tmp_path / "reverse")
    shutil.copytree(FOLDER, tmp_path / "regular" / "custom_generate")
    return model, tmp_path / "regular", tmp_path / "reverse"


def test_a_model_answers_from_both_ends_by_the_folder_alone(saved: tuple[Any, Path, Path]) -> None:
    model, folder, reverse = saved
    options: dict[str, Any] = {"num_beams": 6, "max_new_tokens": 6}

    found = model.generate(
        **inputs(model),
        **options,
        custom_generate=str(folder),
        trust_remote_code=True,
        reverse_model=str(reverse),
        strategy="bidis",
        strategy_options={"lambda_": 0.5},
    )

    _, other = pair("bart")
    expected = model.generate(
        **inputs(model), **options, custom_generate=BidiGenerate(other, "bidis", lambda_=0.5)
    )
    assert torch.equal(found, expected)


def test_the_config_may_name_the_reverse_model(saved: tuple[Any, Path, Path]) -> None:
    model, folder, reverse = saved
    model.config.bidibeam_reverse = str(reverse)

    found = model.generate(
        **inputs(model), custom_generate=str(folder), trust_remote_code=True, num_beams=4, max_new_tokens=4
    )

    assert len(found) == 3


def test_a_regular_model_is_no_reverse_model(saved: tuple[Any, Path, Path]) -> None:
    model, folder, _ = saved

    with pytest.raises(BidibeamError, match="direction"):
        model.generate(
            **inputs(model),
            custom_generate=str(folder),
            trust_remote_code=True,
            num_beams=4,
            max_new_tokens=4,
            reverse_model=str(folder),
        )
