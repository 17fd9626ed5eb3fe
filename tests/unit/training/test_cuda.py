"""On a GPU: a captured graph trains as plain steps do, and a trained network answers as it does on a CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bidibeam.api import load_decoder, load_run
from bidibeam.data.prepared import PreparedData
from bidibeam.training import state
from bidibeam.training.logs import read_metrics
from bidibeam.training.networks import train
from bidibeam.training.settings import TrainingSettings
from tests.conftest import TINY_MODEL

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SETTINGS = TrainingSettings(
    epochs=2, batch_size=64, learning_rate=0.01, log_every=1, precision="float32", tensorboard=False
)


def test_a_captured_graph_trains_as_plain_steps_do(toy_data: PreparedData, tmp_path: Path) -> None:
    model = replace(TINY_MODEL, dropout=0.0)
    for name, graphs in (("graphs", True), ("plain", False)):
        settings = replace(SETTINGS, cuda_graphs=graphs)
        train(toy_data, tmp_path / name, model_settings=model, settings=settings)

    one, other = (
        [record["loss_regular"] for record in read_metrics(tmp_path / name) if record["kind"] == "train"]
        for name in ("graphs", "plain")
    )
    assert len(one) > 30
    assert one == pytest.approx(other, abs=2e-3)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_graphed_run_is_resumed(toy_data: PreparedData, tmp_path: Path, precision: str) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    settings = replace(SETTINGS, precision=precision)
    train(toy_data, whole, model_settings=TINY_MODEL, settings=settings)
    train(toy_data, parts, model_settings=TINY_MODEL, settings=replace(settings, max_steps=11))
    train(toy_data, parts, model_settings=TINY_MODEL, settings=settings, resume=True)

    losses = [
        [record["loss_reverse"] for record in read_metrics(run) if record["kind"] == "train"]
        for run in (whole, parts)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=0.05)  # the same dropout, but sums in another order
    newest = state.newest(parts)
    assert newest is not None
    assert "cuda" in load_file(newest / "random-0.safetensors")


@pytest.mark.parametrize("strategy", ["vbs", "reverse-vbs", "bidis", "bidia"])
def test_replies_are_those_of_the_cpu(toy_run: Path, toy_data: PreparedData, strategy: str) -> None:
    sources = [example["source"] for example in toy_data.examples("test")]

    on_cpu, on_gpu = (
        load_decoder(load_run(toy_run, device=device), strategy, score_other=True).decode(sources)
        for device in ("cpu", "cuda")
    )

    for cpu, gpu in zip(on_cpu, on_gpu, strict=True):
        assert cpu.best.text == gpu.best.text
        assert cpu.best.log_prob == pytest.approx(gpu.best.log_prob, abs=1e-3)
        assert cpu.best.other_log_prob == pytest.approx(gpu.best.other_log_prob, abs=1e-3)
