"""Saving, loading by the one loader, and what is said about a directory that is not right."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import bidibeam
from bidibeam.api import load_run
from bidibeam.data.tokenization import Tokenizer
from bidibeam.errors import RunError, SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models import checkpoint
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.gru.scorer import GRUScorer
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.models.loading import find_kind
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


def with_config(text: str) -> Callable[[Path], object]:
    return lambda run: (run / "config.json").write_text(text)


def without(name: str) -> Callable[[Path], object]:
    return lambda run: (run / name).unlink()


NO_MODEL = r"does not describe a model "
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (without("config.json"), r"is not a run directory: it has no config\.json"),
    "config cut off": (with_config('{"mod'), r"config\.json is damaged"),
    "a model of others": (
        with_config('{"model_type": "bart"}'),
        r"run is a Hugging Face model, not one of bidibeam's own runs: bidibeam.load takes either",
    ),
    "other version": (
        edited(lambda config: config.update(format_version=7, bidibeam_version="9.1")),
        r"format version 7; bidibeam .* reads version 1\. Use the bidibeam that wrote it \(9\.1\)",
    ),
    "strange model": (edited(lambda config: config["model"].update(depth=3)), NO_MODEL + ".*depth"),
    "bad size": (
        edited(lambda config: config["model"].update(decoder_size=0)),
        NO_MODEL + r"\(model\.decoder_size is 0; it must be at least 1",
    ),
    "no vocabulary": (
        edited(lambda config: config.update(vocabulary_size=-3)),
        NO_MODEL + r"\(vocabulary_size must be at least 1, not -3\)",
    ),
    "an endless vocabulary": (
        edited(lambda config: config.update(vocabulary_size=10**19)),
        NO_MODEL + r"\(vocabulary_size must be at most 1,000,000,000,000, not 10000000000000000000\)",
    ),
    "an infinite vocabulary": (
        edited(lambda config: config.update(vocabulary_size=float("inf"))),
        NO_MODEL + r"\(The setting vocabulary_size is Infinity; it must be a whole number\)",
    ),
    "another architecture": (
        edited(lambda config: config.update(architecture="lstm")),
        NO_MODEL + r"\(Unknown architecture 'lstm'",
    ),
    "data a list": (
        edited(lambda config: config.update(data=[1])),
        NO_MODEL + r"\(The setting data is \[1\]",
    ),
    "data.settings a number": (
        edited(lambda config: config["data"].update(settings=5)),
        NO_MODEL + r"\(The setting data\.settings is 5",
    ),
    "a size of 22 digits": (
        edited(lambda config: config["model"].update(embedding_size=1e21)),
        NO_MODEL + r"\(The setting model\.embedding_size is 1e\+21; it must be a whole number\)",
    ),
    "a size that no memory holds": (
        edited(lambda config: config["model"].update(decoder_size=900_000)),
        r"of shape \(.*\), but config\.json asks for \(.*900000.*\)",
    ),
    "a vocabulary that no memory holds": (
        edited(lambda config: config.update(vocabulary_size=10**12)),
        r"of shape \(.*\), but config\.json asks for \(.*1000000000000.*\)",
    ),
    "a tower of layers": (
        edited(lambda config: config["model"].update(encoder_layers=10**9)),
        NO_MODEL + r"\(model\.encoder_layers is 1000000000; it must be at most 1,000",
    ),
    "no weights": (
        without("model.safetensors"),
        r"has no model\.safetensors: training has not reached its first evaluation there\. Continue it",
    ),
    "weights cut off": (truncated, r"model\.safetensors is damaged"),
    "tensor missing": (without_tensor, r"lacks the tensor 'b_output'"),
    "tensor left over": (with_extra_tensor, r"holds a tensor 'extra' that the network lacks"),
    "other shape": (
        edited(lambda config: config["model"].update(readout_size=5)),
        r"of shape \(.*\), but config\.json asks for \(.*\)\. Its weights and config\.json do not",
    ),
    "no tokenizer": (without("tokenizer.json"), r"tokenizer\.json"),
    "tokenizer cut off": (lambda run: (run / "tokenizer.json").write_text("{"), r"tokenizer\.json"),
    "tokenizer of another run": (
        lambda run: Tokenizer.train(["only these"], kind="word", vocabulary_size=9).save(
            run / "tokenizer.json"
        ),
        r"tokenizer\.json of 6 tokens, but its model knows 15",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_with_a_way_out(copied_run: Path, kind: str) -> None:
    damage, message = DAMAGE[kind]
    damage(copied_run)

    with pytest.raises(RunError, match=message) as caught:
        load_run(copied_run)
    assert "\n" not in str(caught.value)


def test_a_device_that_is_not_there_is_named(toy_run: Path) -> None:
    for device in ("toaster", "meta", "cuda:99"):
        with pytest.raises(SettingsError, match=rf"There is no device '{device}' here that can compute"):
            load_run(toy_run, device=device)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder_layers": 0}, "model.encoder_layers is 0; it must be at least 1"),
        ({"dropout": 1.0}, "model.dropout is 1.0; it must lie in"),
        ({"embedding_scale": 0.0}, "model.embedding_scale is 0.0; it must be above 0 and at most 100"),
        ({"embedding_scale": float("nan")}, "model.embedding_scale is nan; it must be above 0"),
        ({"directions": ()}, "name each direction once"),
        ({"directions": ("regular", "regular")}, "name each direction once"),
        ({"directions": ("forward",)}, "names 'forward'; choose from: regular, reverse"),
    ],
)
def test_shapes_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        ModelSettings(**settings)


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


def test_a_run_is_loaded_with_all_that_it_says(copied_run: Path) -> None:
    run = load_run(str(copied_run), device="cpu")

    assert run.path == copied_run
    assert run.limits.max_source_length == 8
    assert run.device == torch.device("cpu")
    assert run.network.vocabulary_size == run.tokenizer.vocabulary_size
    assert not run.network.training
    config = (copied_run / "config.json").read_text(encoding="utf-8")
    assert config.count('"max_source_length": 8') >= 1
    (copied_run / "config.json").write_text(
        config.replace('"max_source_length": 8', '"max_source_length": null')
    )
    assert load_run(copied_run).limits.max_source_length is None  # then it reads sources of any length


def test_the_fingerprint_is_that_of_the_weights(toy_run: Path, copied_run: Path) -> None:
    original, same = load_run(toy_run), load_run(copied_run)
    assert same.fingerprint  # before the weights change
    weights = load_file(copied_run / "model.safetensors")
    first = next(iter(weights))
    weights[first].view(-1)[0] += 1e-3
    save_file(weights, copied_run / "model.safetensors")

    other = load_run(copied_run)

    assert len(original.fingerprint) == 12
    assert same.fingerprint == original.fingerprint != other.fingerprint


def test_without_a_name_the_model_of_the_package_is_loaded(toy_run: Path) -> None:
    bundled = Path(bidibeam.__file__).parent / "bundled"

    run = load_run(device="cpu")

    assert run.path == load_run(None, device="cpu").path == bundled
    assert run.fingerprint == load_run(bundled).fingerprint != load_run(toy_run).fingerprint
    assert all(weight.dtype == torch.float32 for weight in run.network.parameters())
