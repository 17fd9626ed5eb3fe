"""Time an epoch of training beside the arithmetic it must do, and check that fast variants learn the same.

    python benchmarks/training.py DATA --epochs 3 --variants graphs-bf16 plain-bf16 plain-float32 --out F.json
    python benchmarks/training.py DATA --preset transformer

DATA is what `bidibeam prepare` wrote. Every variant trains the same network from the same seed. The floor, of
the GRU alone, is the floating-point operations of real tokens (no padding) over this device's own rate on a
large product.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from bidibeam import __version__
from bidibeam.config import resolve
from bidibeam.data.prepared import PreparedData
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.training.logs import TrainingObserver
from bidibeam.training.settings import RunSettings
from bidibeam.training.train import train


class Stopwatch(TrainingObserver):
    """An observer that notes when each epoch's steps began and ended, and what the losses were."""

    def __init__(self) -> None:
        self.epochs: list[float] = []
        self.losses: list[dict[str, Any]] = []
        self.curve: list[dict[str, Any]] = []

    def on_start(self, *, metadata: dict[str, Any], **_: Any) -> None:
        """The first epoch begins."""
        self.directions = metadata["directions"]
        self._restart()

    def on_report(self, *, step: int, record: dict[str, Any]) -> None:
        """Losses are known, so the device is done with every step before: read the clock."""
        self._last_report = time.perf_counter()
        self.curve.append({"step": step, **record})

    def on_evaluation(self, *, step: int, record: dict[str, Any]) -> None:
        """An epoch is over; the evaluation is not part of it."""
        self.epochs.append(self._last_report - self._since)
        self.losses.append({"step": step, **record})
        self._restart()

    def _restart(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._since = self._last_report = time.perf_counter()


def operations(settings: ModelSettings, data: PreparedData) -> float:
    """Floating-point operations of an epoch of the GRU, forward and backward."""
    pairs = data.split("train")
    sources = pairs.source_length.astype("int64") + 1
    responses = pairs.response_length.astype("int64") + 1
    e, h, m = settings.embedding_size, settings.decoder_size, settings.memory_size
    a, hidden = settings.attention_size, settings.encoder_size
    layers = [e] + [m] * (settings.encoder_layers - 1)
    per_source = sum(2 * 3 * hidden * (size + hidden) for size in layers)
    directions = len(settings.directions)
    per_source += directions * m * a
    width = settings.output_width
    vocabulary = data.tokenizer.vocabulary_size
    per_target = h * (a + 3 * h) + m * 3 * h + e * 3 * h + (h + m + e) * width + width * vocabulary
    attended = int((sources * responses).sum()) * directions * (a + m)
    products = int(sources.sum()) * per_source + int(responses.sum()) * directions * per_target + attended
    return 3 * 2 * float(products)


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a large product, the median of several."""
    size = 8192 if device.type == "cuda" else 1024
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    times = []
    for _ in range(8):
        if device.type == "cuda":
            torch.cuda.synchronize()
        since = time.perf_counter()
        left @ right
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - since)
    return 2 * size**3 / sorted(times)[len(times) // 2]


def measure(data: PreparedData, variant: str, settings: RunSettings) -> dict[str, Any]:
    """Train one variant and note its epochs."""
    kind, precision = variant.split("-")
    training = replace(settings.training, precision=precision, cuda_graphs=kind == "graphs")
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        train(data, Path(folder) / "run", replace(settings, training=training), observer=watch)
    tokens = int(data.split("train").response_length.sum()) + len(data.split("train"))
    floating = operations(settings.model, data) if settings.architecture == "gru" else None
    directions = len(watch.directions)
    steady = min(watch.epochs[1:] or watch.epochs)
    memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    return {
        "variant": variant,
        "epoch_s": watch.epochs,
        "best_epoch_s": steady,
        "tokens_per_s": tokens * directions / steady,
        "operations_per_epoch": floating,
        "achieved_flop_per_s": floating / steady if floating else None,
        "peak_memory_gib": memory,
        "validation": watch.losses,
        "curve": watch.curve,
    }


def main() -> None:
    """Run every variant, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--variants", nargs="+", default=["graphs-bf16", "plain-bf16"])
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    fixed = [f"training.epochs={arguments.epochs}", "training.tensorboard=false", "training.save_every=0"]
    resolved = resolve(preset=arguments.preset, overrides=[*fixed, *arguments.overrides])
    data = PreparedData.open(arguments.data)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    results = []
    for variant in arguments.variants:
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        result = measure(data, variant, resolved)
        dtype = torch.bfloat16 if variant.endswith("bf16") else torch.float32
        result["matrix_flop_per_s"] = matrix_rate(device, dtype)
        floor = (result["operations_per_epoch"] or 0) / result["matrix_flop_per_s"]
        result |= {"floor_s": floor, "fraction_of_floor": floor / result["best_epoch_s"]}
        results.append(result)
        validation = result["validation"][-1]
        print(
            f"{variant:14s} epochs {' '.join(f'{s:.2f}' for s in result['epoch_s'])} s  "
            f"{result['tokens_per_s']:,.0f} tokens/s  floor {result['floor_s']:.2f} s "
            f"({result['fraction_of_floor']:.1%} of it reached)  "
            f"validation {validation['loss_regular']:.4f} / {validation['loss_reverse']:.4f}",
            flush=True,
        )
    signature = {
        "bidibeam": __version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "data": data.info,
        **asdict(resolved),
    }
    if arguments.out:
        arguments.out.write_text(json.dumps({"signature": signature, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
