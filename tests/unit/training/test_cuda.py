"""On a GPU: a captured graph trains as plain steps do, and a trained network answers as it does on a CPU."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bidibeam.api import load_decoder, load_run
from bidibeam.data.prepared import PreparedData
from bidibeam.hf import FineTuneSettings, fine_tune
from bidibeam.models.huggingface.training import ModelWithLoss
from bidibeam.training.settings import RunSettings, TrainingSettings
from bidibeam.training.train import train
from tests.conftest import TINY_MODEL
from tests.unit.models.huggingface.tiny import write_config
from tests.unit.training.runs import losses_of, newest

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SETTINGS = TrainingSettings(
    epochs=2, batch_size=64, learning_rate=0.01, log_every=1, precision="float32", tensorboard=False
)
FINE_TUNING = FineTuneSettings(
    epochs=2,
    batch_size=64,
    learning_rate=0.002,
    log_every=1,
    precision="float32",
    tensorboard=False,
    max_source_length=20,
    max_response_length=20,
)


def test_a_captured_graph_trains_as_plain_steps_do(toy_data: PreparedData, tmp_path: Path) -> None:
    model = replace(TINY_MODEL, dropout=0.0)
    for name, graphs in (("graphs", True), ("plain", False)):
        settings = replace(SETTINGS, cuda_graphs=graphs)
        train(toy_data, tmp_path / name, RunSettings(model, settings))

    one, other = (losses_of(tmp_path / name, "loss_regular", "train") for name in ("graphs", "plain"))
    assert len(one) > 30
    assert one == pytest.approx(other, abs=2e-3)


@pytest.mark.parametrize(
    ("kind", "direction"), [("bart", "both"), ("marian", "regular"), ("t5", "both"), ("llama", "regular")]
)
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_captured_hugging_face_model_trains_as_plain_steps_do(
    kind: str,
    direction: str,
    accumulation: int,
    toy_data: PreparedData,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    base = str(write_config(tmp_path / "base", kind))
    options: dict[str, Any] = {"base": base, "direction": direction}
    for name, graphs in (("graphs", True), ("plain", False)):
        settings = replace(FINE_TUNING, cuda_graphs=graphs, accumulation=accumulation)
        with caplog.at_level(logging.WARNING, "bidibeam"):
            fine_tune(toy_data, tmp_path / name, settings=settings, **options)

    assert not caplog.records  # nothing fell back
    one, other = (losses_of(tmp_path / name, "loss_regular", "train") for name in ("graphs", "plain"))
    assert one == pytest.approx(other, abs=5e-3)
    assert one[-1] < one[0] - 0.5


def test_a_model_that_cannot_be_captured_trains_by_plain_steps(
    toy_data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    forward = ModelWithLoss.forward

    def waits(self: Any, *batch: Any, **options: Any) -> Any:
        batch[0].sum().item()
        return forward(self, *batch, **options)

    base = str(write_config(tmp_path / "base", "bart", dropout=0.1))
    fine_tune(toy_data, tmp_path / "plain", base=base, settings=replace(FINE_TUNING, cuda_graphs=False))
    monkeypatch.setattr(ModelWithLoss, "forward", waits)
    with caplog.at_level(logging.WARNING, "bidibeam"):
        fine_tune(toy_data, tmp_path / "fallen", base=base, settings=FINE_TUNING)

    assert [record.getMessage()[:40] for record in caplog.records] == [
        "The training step cannot be captured as "
    ]
    fallen, plain = (losses_of(tmp_path / name, "loss_regular", "train") for name in ("fallen", "plain"))
    assert fallen == pytest.approx(plain, abs=0.1)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_graphed_run_is_resumed(toy_data: PreparedData, tmp_path: Path, precision: str) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    settings = replace(SETTINGS, precision=precision)
    train(toy_data, whole, RunSettings(TINY_MODEL, settings))
    train(toy_data, parts, RunSettings(TINY_MODEL, replace(settings, max_steps=11)))
    train(toy_data, parts, RunSettings(TINY_MODEL, settings), resume=True)

    # the same dropout, but sums in another order
    one, other = (losses_of(run, "loss_reverse", "train") for run in (whole, parts))
    assert one == pytest.approx(other, abs=0.05)
    assert "cuda" in load_file(newest(parts) / "random-0.safetensors")


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
