"""Transformers models that are loaded already: as those of a folder, or refused in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

import bidibeam
from bidibeam import load_decoder
from bidibeam.errors import InputError, ScorerError, SettingsError
from bidibeam.hf import BidirectionalSeq2Seq, HuggingFaceModel
from tests.unit.models.huggingface.folders import SOURCES, write_joint, write_pair


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
@pytest.mark.parametrize("strategy", ["bidia", "bidis"])
def test_loaded_models_answer_as_those_of_their_folders(tmp_path: Path, kind: str, strategy: str) -> None:
    folders = write_pair(tmp_path, kind)
    opener = AutoModelForCausalLM if kind == "gpt2" else AutoModelForSeq2SeqLM
    models = [opener.from_pretrained(folder).eval() for folder in folders]

    wrapped = HuggingFaceModel.wrap(*models, tokenizer=AutoTokenizer.from_pretrained(folders[0]))

    own, loaded = (
        load_decoder(each, strategy).decode(SOURCES) for each in (bidibeam.load(*folders), wrapped)
    )
    assert own == loaded
    assert wrapped.path is None


def test_a_shared_encoder_and_one_direction_alone(tmp_path: Path) -> None:
    joint = write_joint(tmp_path / "joint")
    model, tokenizer = (
        BidirectionalSeq2Seq.from_pretrained(joint).eval(),
        AutoTokenizer.from_pretrained(joint),
    )

    both = HuggingFaceModel.wrap(model, tokenizer=tokenizer)
    alone = HuggingFaceModel.wrap(reverse=model.reverse, tokenizer=tokenizer)

    assert load_decoder(both).decode(SOURCES) == load_decoder(joint).decode(SOURCES)
    expected = load_decoder(joint, "reverse-vbs").decode(SOURCES)
    assert load_decoder(alone, "reverse-vbs").decode(SOURCES) == expected


def test_what_cannot_be_wrapped_is_told_in_a_sentence(tmp_path: Path) -> None:
    folders = write_pair(tmp_path, "bart")
    models: list[Any] = [AutoModelForSeq2SeqLM.from_pretrained(folder).eval() for folder in folders]
    tokenizer = AutoTokenizer.from_pretrained(folders[0])

    with pytest.raises(
        InputError, match=r"^The models are swapped: .*bart-reverse, given as the regular one, wri"
    ):
        HuggingFaceModel.wrap(*models[::-1], tokenizer=tokenizer)
    with pytest.raises(
        InputError, match=r"^bart-regular was given as the reverse model, but it is a regular mo"
    ):
        HuggingFaceModel.wrap(reverse=models[0], tokenizer=tokenizer)
    with pytest.raises(InputError, match=r"^The tokenizer that was given for bart-regular cannot be used "):
        HuggingFaceModel.wrap(models[0], tokenizer=None)
    with pytest.raises(ScorerError, match=r"is in training mode, .*; call model\.eval"):
        HuggingFaceModel.wrap(models[0].train(), tokenizer=tokenizer)
    with pytest.raises(
        SettingsError, match=r"^No model was given: give a regular model, a reverse model, or both"
    ):
        HuggingFaceModel.wrap(tokenizer=tokenizer)
    with pytest.raises(
        InputError,
        match=r"^`model` is of type BartForConditionalGeneration, .* Give `bidibeam\.hf\.Hugg.*wrap\(",
    ):
        load_decoder(models[0])
    with pytest.raises(
        InputError, match=r"^`model` is of type int, which is not a model by itself\. Give a name or"
    ):
        load_decoder(3)  # type: ignore[arg-type]
