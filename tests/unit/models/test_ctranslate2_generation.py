"""A generation config is followed by the CTranslate2 folder that is made of its model, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bidibeam
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction
from tests.unit.models.conversions import SEARCH, convert
from tests.unit.models.huggingface.folders import SOURCES, write_model

pytest.importorskip("ctranslate2")


@pytest.mark.parametrize(
    "generation",
    [
        {"min_new_tokens": 3},
        {"min_length": 5},
        {"forced_eos_token_id": 3},
        {"forced_bos_token_id": 2},
        {"forced_bos_token_id": 2, "forced_eos_token_id": 3, "suppress_tokens": [5]},
    ],
)
def test_a_generation_config_is_followed(tmp_path: Path, generation: dict[str, Any]) -> None:
    plain = bidibeam.load(write_model(tmp_path / "bart", "bart", generation=generation))

    lists = convert(plain, tmp_path / "out").n_best(Direction.REGULAR, SOURCES, SEARCH)

    least = max(generation.get("min_new_tokens", 0), generation.get("min_length", 1) - 1)
    scorer = plain.sequence_scorer(Direction.REGULAR)
    for source, nbest in zip(SOURCES, lists, strict=True):
        for each in nbest:
            tokens = each.ids[:-1] if each.finished else each.ids
            assert len(tokens) >= least
            assert not {*generation.get("suppress_tokens", ())} & {*tokens}
            begin = 1 if "forced_bos_token_id" in generation else 0
            assert begin == 0 or tokens[0] == 2
            assert each.finished or "forced_eos_token_id" not in generation
            is_forced = "forced_eos_token_id" in generation and len(each.ids) == SEARCH.max_length
            scored = each.ids[:-1] if is_forced else each.ids
            ((whole, start),) = scorer.log_probs([source], [[scored, scored[:begin]]])
            assert each.log_prob == pytest.approx(whole - start, abs=1e-4)


@pytest.mark.parametrize(
    ("generation", "named"),
    [
        ({"no_repeat_ngram_size": 2}, "NoRepeatNGram"),
        ({"repetition_penalty": 1.5}, "RepetitionPenalty"),
        ({"begin_suppress_tokens": [5]}, "begin_suppress_tokens"),
        ({"eos_token_id": [3, 7]}, "several end tokens"),
    ],
)
def test_what_a_generation_config_asks_for_and_the_engine_lacks_is_refused_by_name(
    tmp_path: Path, generation: dict[str, Any], named: str
) -> None:
    model = bidibeam.load(write_model(tmp_path / "bart", "bart", generation=generation))

    with pytest.raises(SettingsError, match=named):
        convert(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("generation", "named"),
    [
        ({"forced_bos_token_id": 2}, r"forced_bos_token_id \(regular None, reverse 2\)"),
        ({"forced_eos_token_id": 3}, r"forced_eos_token_id \(regular None, reverse 3\)"),
        ({"suppress_tokens": [5]}, r"suppress_tokens or padding \(regular \[0\], reverse \[0, 5\]\)"),
        ({"min_new_tokens": 3}, r"min_new_tokens or min_length \(regular 0, reverse 3\)"),
    ],
)
def test_directions_with_different_generation_configs_are_refused(
    tmp_path: Path, generation: dict[str, Any], named: str
) -> None:
    regular = write_model(tmp_path / "bart", "bart")
    reverse = write_model(tmp_path / "reverse", "bart", Direction.REVERSE, generation=generation)

    message = rf"^The directions of bart differ in {named}, .*: make them the same in generation_config\.json"
    with pytest.raises(SettingsError, match=message):
        convert(bidibeam.load(regular, reverse), tmp_path / "out")
    assert not (tmp_path / "out").exists()
