"""Weights lie where their file is mapped into memory, so that processes with one model share them."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch

import bidibeam
from bidibeam.data.tokenization import Tokenizer
from bidibeam.hypotheses import Direction
from bidibeam.models.base import Model
from bidibeam.models.checkpoint import to_half_precision, write_weights
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.huggingface.adapter import HuggingFaceModel
from bidibeam.models.run import RunModel
from bidibeam.search.settings import SearchSettings
from tests.conftest import TINY_MODEL, make_once
from tests.unit.models.huggingface.folders import write_model

PROCESS = Path("/proc/self")
SEARCH = SearchSettings(beam_size=2, max_length=4)
KINDS = ("run", "huggingface")

pytestmark = pytest.mark.skipif(
    not (PROCESS / "smaps_rollup").is_file(), reason="memory is told by Linux alone"
)


def write_large(folder: Path, toy_run: Path) -> None:
    """Models of each kind with some 100 MB of weights."""
    tokenizer = Tokenizer.load(toy_run / "tokenizer.json")
    wide = replace(TINY_MODEL, encoder_size=1024, decoder_size=512, attention_size=256, dropout=0.0)
    BidirectionalModel(wide, tokenizer.vocabulary_size).save_pretrained(folder / "run")
    shutil.copy(toy_run / "tokenizer.json", folder / "run")
    write_model(folder / "huggingface", "gpt2", n_embd=1024, n_layer=2, initializer_range=0.02)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, toy_run: Path) -> Path:
    return make_once(tmp_path_factory, "large", lambda folder: write_large(folder, toy_run))


def networks(model: Model) -> list[torch.nn.Module]:
    """What computes: the network itself, and what a search steps through."""
    if isinstance(model, RunModel):
        return [model.network, *(model.scorer(each).decoder for each in model.directions)]
    assert isinstance(model, HuggingFaceModel)
    return [each.model for each in model.models.values()]


def mapped(weights: Path) -> list[range]:
    """Where a file lies in this process's memory."""
    lines = (PROCESS / "maps").read_text().splitlines()
    found = [re.match(r"(\w+)-(\w+)", line) for line in lines if line.endswith(str(weights.resolve()))]
    return [range(int(each[1], 16), int(each[2], 16)) for each in found if each]


def find_unmapped(model: Model, weights: Path) -> list[str]:
    """The parameters that lie elsewhere."""
    places = mapped(weights)
    return [
        name
        for network in networks(model)
        for name, weight in network.named_parameters()
        if not any(weight.data_ptr() in place for place in places)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_used_where_their_file_is_mapped(large: Path, kind: str) -> None:
    folder = large / kind
    model = bidibeam.load(folder, device="cpu")

    assert mapped(folder / "model.safetensors")
    assert find_unmapped(model, folder / "model.safetensors") == []


def test_weights_of_another_precision_are_converted_and_so_not_mapped(toy_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(toy_run, tmp_path / "half")
    weights = to_half_precision(BidirectionalModel.from_pretrained(toy_run).state_dict())
    write_weights(folder / "model.safetensors", weights)

    loaded = bidibeam.load(folder, device="cpu")

    assert {*find_unmapped(loaded, folder / "model.safetensors")} >= {*weights}


def test_a_changed_weight_stays_in_this_process(toy_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(toy_run, tmp_path / "run")
    before = (folder / "model.safetensors").read_bytes()
    network = BidirectionalModel.from_pretrained(folder)

    with torch.no_grad():
        network.b_output.add_(1.0)

    assert (folder / "model.safetensors").read_bytes() == before
    assert all(weight.requires_grad for weight in network.parameters())


def test_a_run_written_anew_leaves_a_loaded_one_as_it_was(toy_run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(toy_run, tmp_path / "run")
    network = BidirectionalModel.from_pretrained(folder)
    kept = network.b_output.clone()

    weights = {name: torch.zeros_like(each) for name, each in network.state_dict().items()}
    write_weights(folder / "model.safetensors", weights)

    assert kept.any()
    assert torch.equal(network.b_output, kept)


def read_memory(path: Path) -> int:
    """The memory in bytes that is this process's own, and no file's."""
    (line,) = (each for each in path.read_text().splitlines() if each.startswith("Anonymous:"))
    return int(line.split()[1]) * 1024


def search(folder: Path) -> Any:
    """Load a model and write something, in each direction that it has."""
    model = bidibeam.load(folder, device="cpu")
    found = [model.n_best(each, ["red cat"], SEARCH) for each in Direction if each in model.directions]
    return model, [[one.text for one in beam] for (beam,) in found]


def measure(warm_up: Path, folder: Path) -> tuple[int, Any]:
    """What a search grows this process's own memory by, after one with another model; and what it writes."""
    search(warm_up)
    before = read_memory(PROCESS / "smaps_rollup")
    _model, found = search(folder)
    return read_memory(PROCESS / "smaps_rollup") - before, found


def test_a_second_process_needs_little_memory_of_its_own(large: Path, toy_run: Path, tmp_path: Path) -> None:
    small = {"run": toy_run, "huggingface": write_model(tmp_path / "small", "gpt2")}
    here = {kind: search(large / kind) for kind in KINDS}

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = {kind: pool.submit(measure, small[kind], large / kind).result() for kind in KINDS}

    for kind in KINDS:
        grown, found = there[kind]
        size = (large / kind / "model.safetensors").stat().st_size
        assert size > 90e6
        assert grown < size / 4
        assert found == here[kind][1], "and the same bits give the same replies"
