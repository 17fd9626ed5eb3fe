"""How far the losses of a training that several processes share differ from those of one process.

    python benchmarks/processes_training.py --out results/training-processes/cpu.json

Each model, without dropout, trains for 50 steps on chitchat by itself, then again with the same batches in
other numbers of processes: two from the start, or one number until it is stopped and another that resumes.
They are started by `accelerate launch`; on a machine with fewer than two GPUs they train on the CPU. Every
step's training losses are compared, and the validation losses of every tenth step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch

from bidibeam import __version__
from bidibeam.training.logs import read_metrics

STEPS, STOPPED_AFTER, BATCH_SIZE = 50, 20, 32
COMMON = {
    "max_steps": STEPS,
    "batch_size": BATCH_SIZE,
    "log_every": 1,
    "evaluate_every": 10,
    "save_every": 10,
    "precision": "float32",
    "tensorboard": "false",
}
BART: dict[str, Any] = {
    "model_type": "bart",
    "d_model": 128,
    "max_position_embeddings": 128,
    "dropout": 0.0,
    **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 4 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 512 for side in ("encoder", "decoder")},
}
GPT2: dict[str, Any] = {"model_type": "gpt2", "n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 128}
GPT2 |= {f"{name}_pdrop": 0.0 for name in ("attn", "embd", "resid")}
HUGGING_FACE = "--set max_source_length=64 --set max_response_length=64 --learning-rate 1e-3"
MODELS = {
    "GRU, both directions": "--preset demo --set model.dropout=0",
    "BART, both directions": f"--base bart.json --direction both {HUGGING_FACE}",
    "GPT-2, reverse": f"--base gpt2.json --direction reverse {HUGGING_FACE}",
}


class Case(NamedTuple):
    """Processes from first to last, and each one's batches a step at the beginning."""

    name: str
    processes: tuple[int, ...]
    accumulation: int


CASES = (
    Case("2 processes", (2,), 1),
    Case("2, stopped, then 1", (2, 1), 1),
    Case("1, stopped, then 2", (1, 2), 2),
    Case("1, stopped, then 2 that share each batch", (1, 2), 1),
)


def command(model: str, out: Path, processes: int, accumulation: int) -> list[str]:
    """Train a model, or go on."""
    section = "" if "--base" in MODELS[model] else "training."
    settings = [f"--set={section}{name}={value}" for name, value in COMMON.items()]
    settings.append(f"--set={section}accumulation={accumulation}")
    launcher = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", str(processes)]
    launcher = launcher if processes > 1 else []
    words = ["bidibeam", "train", "data", "--out", str(out), *MODELS[model].split(), *settings]
    return [sys.executable, *launcher, "-m", *words, "--no-tune", "--resume"]


def train(model: str, out: Path, processes: tuple[int, ...], accumulation: int) -> int:
    """Train with each number of processes in its turn; return the checkpoint that was last gone on from."""
    environment = {**os.environ, "ACCELERATE_USE_CPU": str(torch.cuda.device_count() < 2).lower()}
    resumed_at = 0
    for number, count in enumerate(processes, start=1):
        options: dict[str, Any] = {"env": environment, "cwd": out.parent}
        with (out.parent / "log.txt").open("w+") as log:
            process = subprocess.Popen(command(model, out, count, accumulation), stderr=log, **options)
            if number < len(processes):
                resumed_at = stop(process, out)
            elif process.wait():
                sys.exit(f"{model} by {count} processes failed:\n{(out.parent / 'log.txt').read_text()}")
    return resumed_at


def stop(process: subprocess.Popen[bytes], out: Path) -> int:
    """Stop a training at once when it has come so far; return its newest checkpoint."""
    while process.poll() is None and newest_step(out) < STOPPED_AFTER:
        time.sleep(0.002)
    process.terminate()  # a launcher ends its processes
    if not process.wait():
        sys.exit("It was over before it could be stopped.")
    return newest_step(out)


def newest_step(out: Path) -> int:
    """The newest checkpoint of a training; -1 before the first."""
    return max((int(path.name[-8:]) for path in (out / "training").glob("step-*")), default=-1)


def largest_difference(expected: Path, found: Path, kind: str) -> float:
    """Between the losses of two runs, relative."""
    one, other = (
        [each for each in read_metrics(run) if each["kind"] == kind and each["step"] <= STEPS]
        for run in (expected, found)
    )
    if [each["step"] for each in one] != [each["step"] for each in other]:
        sys.exit(f"{found.name} reported other steps than {expected.name}.")
    return max(
        float(abs(after[name] - before[name]) / before[name])
        for before, after in zip(one, other, strict=True)
        for name in before
        if name.startswith("loss")
    )


def measure(model: str, folder: Path) -> list[dict[str, Any]]:
    """Every case of a model."""
    rows = []
    for case in CASES:
        batches = case.processes[0] * case.accumulation
        alone, shared = folder / f"alone-{batches}", folder / case.name.replace(" ", "-")
        if not alone.exists():
            train(model, alone, (1,), batches)
        resumed_at = train(model, shared, case.processes, case.accumulation)
        row = {"model": model, "case": case.name, "batches_per_step": batches, "resumed_at": resumed_at}
        row |= {kind: largest_difference(alone, shared, kind) for kind in ("train", "validation")}
        print(f"{model:24s}{case.name:42s}{row['train']:10.1e}{row['validation']:10.1e}", flush=True)
        rows.append(row)
    return rows


def main() -> None:
    """Compare every model, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = []
    for model in MODELS:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for base, config in (("bart", BART), ("gpt2", GPT2)):
                (folder / f"{base}.json").write_text(json.dumps(config))
            prepare = ["-m", "bidibeam", "prepare", "chitchat", "--out", "data"]
            subprocess.run([sys.executable, *prepare], cwd=folder, check=True, stderr=subprocess.DEVNULL)
            rows += measure(model, folder)
    signature = {
        "bidibeam": __version__,
        "torch": torch.__version__,
        "device": "cpu" if torch.cuda.device_count() < 2 else torch.cuda.get_device_name(),
        "steps": STEPS,
        "settings": COMMON,
        "models": {**MODELS, "bart.json": BART, "gpt2.json": GPT2},
    }
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps({"signature": signature, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
