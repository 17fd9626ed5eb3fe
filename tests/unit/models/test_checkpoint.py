"""Saving, loading, and what is said about a directory that is not right."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bidibeam.api import load_run
from bidibeam.errors import RunError, SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models import checkpoint
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.gru.scorer import GRUScorer
from bidibeam.models.gru.settings import ModelSettings
from tests.conftest import TINY_MODEL


def test_a_saved_model_comes_back_the_same(tmp_path: Path) -> None:
    model = BidirectionalModel(TINY_MODEL, 30)

    model.save_pretrained(tmp_path / "saved", note="kept")
    loaded = BidirectionalModel.from_pretrained(tmp_path / "saved")

    assert loaded.settings == TINY_MODEL
    assert not loaded.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name])
    assert json.loads((tmp_path / "saved" / "config.json").read_text())["note"] == "kept"


@pytest.mark.parametrize("tied_output", [False, True])
def test_half_precision_is_rounded_once_and_computed_with_in_full(tmp_path: Path, tied_output: bool) -> None:
    torch.manual_seed(0)
    model = BidirectionalModel(replace(TINY_MODEL, tied_output=tied_output), 30).eval()
    model.save_pretrained(tmp_path)
    checkpoint.write_weights(tmp_path / "model.safetensors", checkpoint.to_half_precision(model.state_dict()))

    loaded = BidirectionalModel.from_pretrained(tmp_path)

    assert {tensor.dtype for tensor in load_file(tmp_path / "model.safetensors").values()} == {torch.float16}
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, model.state_dict()[name].half().float())
    for direction in Direction:
        exact, rounded = (_first_logits(each, direction) for each in (model, loaded))
        torch.testing.assert_close(rounded, exact, rtol=0, atol=2e-3)
        assert not torch.equal(rounded, exact)


def _first_logits(model: BidirectionalModel, direction: Direction) -> torch.Tensor:
    scorer = GRUScorer(model, direction)
    state = scorer.start(torch.tensor([[5, 9, 7], [11, 4, 0]]))
    logits, _ = scorer.step(torch.tensor([2, 2]), state)
    return logits.clone()


@pytest.mark.parametrize("value", [65_520.0, -1e6, math.nan])
def test_what_half_precision_cannot_hold_is_refused(value: float) -> None:
    kept = {"small": torch.ones(2), "large": torch.tensor([65_504.0, 1.0])}
    assert checkpoint.to_half_precision(kept)["large"][0] == 65_504

    message = r"'w_large' holds numbers too large for half precision \(above 65,504.*full precision"
    with pytest.raises(RunError, match=message):
        checkpoint.to_half_precision({**kept, "w_large": torch.tensor([1.0, value])})


def edited(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        config = json.loads((run / "config.json").read_text())
        change(config)
        (run / "config.json").write_text(json.dumps(config))

    return edit


def without_tensor(run: Path) -> None:
    weights = load_file(run / "model.safetensors")
    weights.pop("b_output")
    save_file(weights, run / "model.safetensors")


def with_extra_tensor(run: Path) -> None:
    save_file({**load_file(run / "model.safetensors"), "extra": torch.ones(1)}, run / "model.safetensors")


def truncated(run: Path) -> None:
    content = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").write_bytes(content[: len(content) // 2])


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (
        lambda run: (run / "config.json").unlink(),
        r"is not a run directory: it has no config\.json",
    ),
    "config cut off": (lambda run: (run / "config.json").write_text('{"mod'), r"config\.json is damaged"),
    "a model of others": (
        lambda run: (run / "config.json").write_text('{"model_type": "bart"}'),
        r"run is a Hugging Face model, not one of bidibeam's own runs: bidibeam.load takes either",
    ),
    "other version": (
        edited(lambda config: config.update(format_version=7, bidibeam_version="9.1")),
        r"format version 7; bidibeam .* reads version 1\. Use the bidibeam that wrote it \(9\.1\)",
    ),
    "strange model": (
        edited(lambda config: config["model"].update(depth=3)),
        r"does not describe a model .*depth",
    ),
    "bad size": (
        edited(lambda config: config["model"].update(decoder_size=0)),
        r"does not describe a model \(model\.decoder_size is 0; it must be at least 1",
    ),
    "no vocabulary": (
        edited(lambda config: config.update(vocabulary_size=-3)),
        r"does not describe a model \(vocabulary_size is -3\)",
    ),
    "another architecture": (
        edited(lambda config: config.update(architecture="lstm")),
        r"does not describe a model \(Unknown architecture 'lstm'",
    ),
    "data a list": (
        edited(lambda config: config.update(data=[1])),
        r"does not describe a model \(data is \[1\]\)",
    ),
    "no weights": (
        lambda run: (run / "model.safetensors").unlink(),
        r"has no model\.safetensors: training has not reached its first evaluation there\. Continue it",
    ),
    "weights cut off": (truncated, r"model\.safetensors is damaged"),
    "tensor missing": (without_tensor, r"lacks the tensor 'b_output'"),
    "tensor left over": (with_extra_tensor, r"holds a tensor 'extra' that the network lacks"),
    "other shape": (
        edited(lambda config: config["model"].update(readout_size=5)),
        r"of shape \(.*\), but config\.json asks for \(.*\)\. Its weights and config\.json do not",
    ),
    "no tokenizer": (lambda run: (run / "tokenizer.json").unlink(), r"tokenizer\.json"),
    "tokenizer cut off": (lambda run: (run / "tokenizer.json").write_text("{"), r"tokenizer\.json"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_with_a_way_out(toy_run: Path, tmp_path: Path, kind: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(toy_run, run)
    damage, message = DAMAGE[kind]
    damage(run)

    with pytest.raises(RunError, match=message) as caught:
        load_run(run)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_of_another_run_is_refused(toy_run: Path, tmp_path: Path) -> None:
    from bidibeam.data.tokenization import Tokenizer

    run = tmp_path / "run"
    shutil.copytree(toy_run, run)
    Tokenizer.train(["only these words"], kind="word", vocabulary_size=20).save(run / "tokenizer.json")

    with pytest.raises(RunError, match=r"tokenizer\.json of 7 tokens, but its model knows 15"):
        load_run(run)


def test_a_device_that_is_not_there_is_named(toy_run: Path) -> None:
    for device in ("toaster", "meta", "cuda:99"):
        with pytest.raises(SettingsError, match=rf"There is no device '{device}' here that can compute"):
            load_run(toy_run, device=device)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder_layers": 0}, "model.encoder_layers is 0; it must be at least 1"),
        ({"dropout": 1.0}, "model.dropout is 1.0; it must lie in"),
        ({"directions": ()}, "name each direction once"),
        ({"directions": ("regular", "regular")}, "name each direction once"),
        ({"directions": ("forward",)}, "names 'forward'; choose from: regular, reverse"),
    ],
)
def test_shapes_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ModelSettings(**settings)
