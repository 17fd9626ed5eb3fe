"""Beam search over a Hugging Face model: ours, its own `generate`, and CTranslate2, in one run.

    python benchmarks/hf.py [--device cuda] [--beams 10,25,50] [--batches 1,8,32] [--out results.json]

The same BART (d_model 256, 3 + 3 layers, vocabulary 16k, random weights), the same sources, the same beam,
and all of it returned (num_return_sequences = num_beams). The systems take turns; a ratio is the median,
over turns, of a peer's time over ours in the same turn. "Products" are the matrix products of the same search
alone, by torch. Memory is what a fresh process needs at most above what it
had with the model loaded and searched once with a beam of 2, the median of three processes: resident memory,
or memory allocated on a GPU.
That includes the copies of matrices that our search makes and keeps with the model; how large they are is in
the JSON (`kept_MiB`). Each cell has a model of its own, so that no copies are there from another one.

On a GPU our search records itself when a shape of batch comes the second time. What is timed are later
searches of the same shape; how long the second took is in the JSON (`second_ms`).

`shares` in the JSON are those of the parts of our search in its time, taken in turns of their own, with a
clock around products, attention, the choice of candidates, what goes on and what ends (`advance`), the start
(keys and values of the sources, the layout of matrices), and what `generate` does before it calls us, the
encoder included; what one part does for another counts for itself alone. The rest are small calls.

CTranslate2 is measured where it is installed (`pip install 'bidibeam[peers]'`), in float32 and on as many
threads.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import platform
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import click
import torch
import transformers
from rich.console import Console
from rich.progress import track
from rich.table import Table
from transformers import BartConfig, BartForConditionalGeneration, GenerationMixin

from bidibeam import __version__
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.inplace import InPlace
from bidibeam.models.huggingface.machine import LANES, REGISTERS, are_fast
from bidibeam.models.huggingface.scoring import HFScorer
from bidibeam.models.huggingface.sides import Side, task_of
from bidibeam.models.huggingface.steps import layout
from bidibeam.models.huggingface.steps.now import Now
from bidibeam.models.huggingface.tiles import Tiles
from bidibeam.search.beam import BeamStepper

VOCABULARY, WIDTH, LAYERS, HEADS, INNER = 16_000, 256, 3, 4, 1024
SOURCE_LENGTH, REPLY_LENGTH = 15, 20
PAD, START, END = 1, 2, 2
TURNS, PROCESSES = 5, 3

Search = Callable[[torch.Tensor, int], Any]


def make_model(device: str) -> Any:
    """A BART with opinions: larger weights make some tokens likelier than others."""
    transformers.set_seed(0)
    config = BartConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        max_position_embeddings=128,
        pad_token_id=PAD,
        bos_token_id=0,
        eos_token_id=END,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
        init_std=0.05,
    )
    return BartForConditionalGeneration(config).eval().to(device)


def sources_of(batch: int, device: str) -> torch.Tensor:
    """Ids at random, (batch, length)."""
    torch.manual_seed(batch)
    return torch.randint(4, VOCABULARY, (batch, SOURCE_LENGTH), device=device)


def options(beam_size: int) -> dict[str, Any]:
    """What `generate` is told."""
    return {
        "num_beams": beam_size,
        "early_stopping": True,
        "length_penalty": 1.0,
        "max_new_tokens": REPLY_LENGTH,
        "do_sample": False,
    }


def ours(model: Any) -> Search:
    """Our search, inputs prepared by `generate` as for a person who calls it."""
    side = Side.of(model, Direction.REGULAR)

    def search(sources: torch.Tensor, beam_size: int) -> list[list[list[int]]]:
        task = model.generate(
            input_ids=sources,
            attention_mask=torch.ones_like(sources),
            custom_generate=task_of,
            **options(beam_size),
        )
        lists = side.sequences(task, task.rules.settings(task.config, beam_size))
        return [[list(sequence.tokens) for sequence in line] for line in lists]

    return search


def generate(model: Any) -> Search:
    """Hugging Face's own search."""

    def search(sources: torch.Tensor, beam_size: int) -> list[list[list[int]]]:
        found = model.generate(
            input_ids=sources,
            attention_mask=torch.ones_like(sources),
            num_return_sequences=beam_size,
            **options(beam_size),
        )
        rows = [_written(row) for row in found[:, 1:].tolist()]
        return [rows[first : first + beam_size] for first in range(0, len(rows), beam_size)]

    return search


def _written(row: list[int]) -> list[int]:
    return row[: row.index(END)] if END in row else row


def ctranslate2_search(model: Any, device: str, threads: int) -> Search | None:
    """CTranslate2 with the same weights; None if it is not installed."""
    try:
        import ctranslate2
        from ctranslate2.converters import transformers as loaders
    except ImportError:
        return None
    loader = loaders.BartLoader()
    for name, value in {
        "normalize_before": False,
        "normalize_embedding": True,
        "static_position_embeddings": False,
    }.items():
        if not hasattr(model.config, name):
            setattr(model.config, name, value)
    spec = loader.get_model_spec(model)
    names = [f"t{number}" for number in range(VOCABULARY)]
    names[END], names[PAD], names[3] = "</s>", "<pad>", "<unk>"
    names[0] = "<s>"
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<unk>"
    spec.config.decoder_start_token = "</s>"
    spec.config.add_source_bos = spec.config.add_source_eos = False
    folder = Path(tempfile.mkdtemp()) / "ct2"
    folder.mkdir()
    spec.validate()
    spec.optimize(quantization="float32")
    spec.save(str(folder))
    translator = ctranslate2.Translator(
        str(folder), device=device, compute_type="float32", intra_threads=threads
    )
    places = {name: number for number, name in enumerate(names)}

    def search(sources: torch.Tensor, beam_size: int) -> list[list[list[int]]]:
        words = [[names[one] for one in row] for row in sources.tolist()]
        found = translator.translate_batch(
            words,
            beam_size=beam_size,
            num_hypotheses=beam_size,
            max_decoding_length=REPLY_LENGTH,
            length_penalty=1.0,
            return_end_token=False,
            max_input_length=0,
        )
        return [[[places[word] for word in one] for one in result.hypotheses] for result in found]

    return search


def products(batch: int, beam_size: int, device: str) -> Callable[[], None]:
    """The matrix products of one search, encoder aside: (rows, in, out), how often a step."""
    rows = batch * beam_size
    shapes = [
        (WIDTH, WIDTH, 6 * LAYERS),
        (WIDTH, INNER, LAYERS),
        (INNER, WIDTH, LAYERS),
        (WIDTH, VOCABULARY, 1),
    ]
    calls = [
        (
            torch.randn(rows, inner, device=device),
            torch.randn(width, inner, device=device),
            torch.empty(rows, width, device=device),
            count,
        )
        for inner, width, count in shapes
    ]

    def multiply() -> None:
        for left, right, out, count in calls:
            for _ in range(count):
                torch.mm(left, right.t(), out=out)

    return multiply


PARTS: list[tuple[str, Any, str]] = [
    ("products", InPlace, "times"),
    ("products", Tiles, "times"),
    ("products", layout, "multiply"),
    ("attention", Now, "attend_own"),
    ("attention", Now, "attend_cross"),
    ("search", BeamStepper, "step"),
    ("start", HFScorer, "start_with"),
    ("generate", GenerationMixin, "generate"),
]


def shares(search: Search, sources: torch.Tensor, beam_size: int, turns: int) -> dict[str, float]:
    """Of the time of our search on a CPU, the shares of its parts."""
    spent: dict[str, float] = dict.fromkeys(("rest", *(part for part, _, _ in PARTS)), 0.0)
    inner = [0.0]  # of the parts that are at work, the time of those within them

    def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            inner.append(0.0)
            began = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                taken = time.perf_counter() - began
                spent[part] += taken - inner.pop()
                inner[-1] += taken

        return call

    with ExitStack() as stack:
        for part, owner, name in PARTS:
            stack.enter_context(patch.object(owner, name, timed(part, getattr(owner, name))))
        for _ in range(turns):
            timed("rest", search)(sources, beam_size)
    return {part: taken / sum(spent.values()) for part, taken in spent.items()}


def seconds(call: Callable[[], Any], device: str) -> float:
    """How long a call takes, the device's work included."""
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measured(
    searches: dict[str, Search], batch: int, beam_size: int, device: str, turns: int
) -> dict[str, Any]:
    """One cell of the table."""
    sources = sources_of(batch, device)
    found = {name: search(sources, beam_size) for name, search in searches.items()}  # warm, and to compare
    second = {
        name: seconds(partial(search, sources, beam_size), device) for name, search in searches.items()
    }  # on a GPU ours records this one, and plays the others
    multiply = products(batch, beam_size, device)
    multiply()
    times: dict[str, list[float]] = {name: [] for name in (*searches, "products")}
    for _ in range(turns):
        for name, search in searches.items():
            times[name].append(seconds(partial(search, sources, beam_size), device))
        times["products"].append(REPLY_LENGTH * seconds(multiply, device))
    own = times["ours"]
    ratios = {
        name: median(other / mine for other, mine in zip(taken, own, strict=True))
        for name, taken in times.items()
        if name != "ours"
    }
    same = {
        name: sum(
            one == other
            for mine, theirs in zip(found["ours"], lists, strict=True)
            for one, other in zip(mine, theirs, strict=False)
        )
        / (batch * beam_size)
        for name, lists in found.items()
        if name != "ours"
    }
    return {
        "batch": batch,
        "beam_size": beam_size,
        "ms": {name: 1000 * median(taken) for name, taken in times.items()},
        "second_ms": {name: 1000 * taken for name, taken in second.items()},
        "turns_ms": {name: [1000 * one for one in taken] for name, taken in times.items()},
        "times_ours": ratios,
        "same_hypotheses": same,
    }


def needed_memory(name: str, batch: int, beam_size: int, device: str, threads: int) -> float:
    """MiB that a search needs at most, above the model: the median of some processes."""
    return median(_needed(name, batch, beam_size, device, threads) for _ in range(PROCESSES))


def _needed(name: str, batch: int, beam_size: int, device: str, threads: int) -> float:
    """The same in one process of its own."""
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    process = context.Process(target=_need, args=(name, batch, beam_size, device, threads, queue))
    process.start()
    value: float = queue.get()
    process.join()
    return value


def _need(name: str, batch: int, beam_size: int, device: str, threads: int, queue: Any) -> None:
    torch.set_num_threads(threads)
    model = make_model(device)
    search = {"ours": ours, "generate": generate}[name](model)
    sources = sources_of(batch, device)
    search(sources[:1], 2)  # what is allocated once: kernels, buffers of libraries
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        search(sources, beam_size)
        queue.put((torch.cuda.max_memory_allocated() - before) / 2**20)
        return
    ctypes.CDLL(None).malloc_trim(0)  # what was freed goes back, so that it is counted when it is needed
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the highest size so far
    resident = _resident("VmRSS")
    search(sources, beam_size)
    queue.put(_resident("VmHWM") - resident)


def _resident(field: str) -> float:
    """MiB of this process' memory: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(field)) / 2**10


def numbers(_: Any, __: Any, value: str) -> list[int]:
    """A list of whole numbers from "10,25,50"."""
    return [int(one) for one in value.split(",")]


@click.command()
@click.option("--device", default="cpu", show_default=True)
@click.option("--threads", type=int, default=1, show_default=True, help="Torch's own, and CTranslate2's.")
@click.option("--beams", default="10,25,50", show_default=True, callback=numbers)
@click.option("--batches", default="1,8,32", show_default=True, callback=numbers)
@click.option("--turns", type=int, default=TURNS, show_default=True)
@click.option("--memory/--no-memory", default=True, show_default=True, help="Measure memory as well.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def main(
    device: str,
    threads: int,
    beams: list[int],
    batches: list[int],
    turns: int,
    memory: bool,
    out: Path | None,
) -> None:
    """Compare searches over the same Hugging Face model."""
    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    peer = ctranslate2_search(make_model(device), device, threads)
    cells = []
    grid = [(batch, beam) for batch in batches for beam in beams]
    for batch, beam in track(grid, description="Searching", console=Console(stderr=True)):
        model = make_model(device)
        searches: dict[str, Search] = {"ours": ours(model), "generate": generate(model)}
        if peer is not None:
            searches["ctranslate2"] = peer
        cell = measured(searches, batch, beam, device, turns)
        cell["kept_MiB"] = layout.kept_bytes(model) / 2**20
        if device == "cpu":
            cell["shares"] = shares(searches["ours"], sources_of(batch, device), beam, turns)
        if memory:
            cell["MiB"] = {
                name: needed_memory(name, batch, beam, device, threads) for name in ("ours", "generate")
            }
        cells.append(cell)
    report = {
        "bidibeam": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "ctranslate2": None if peer is None else _version(),
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
        "registers": f"{REGISTERS} of {LANES}" if device == "cpu" and are_fast() and threads == 1 else None,
        "threads": threads,
        "turns": turns,
        "model": {"d_model": WIDTH, "layers": f"{LAYERS}+{LAYERS}", "ffn": INNER, "vocabulary": VOCABULARY},
        "source_tokens": SOURCE_LENGTH,
        "reply_tokens": REPLY_LENGTH,
        "cells": cells,
    }
    show(report)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def _version() -> str:
    import ctranslate2

    return str(ctranslate2.__version__)


def show(report: dict[str, Any]) -> None:
    """Print the table."""
    table = Table(title="Time over ours, same run")
    columns = [
        "batch x beam",
        "ours, ms",
        "generate",
        "ctranslate2",
        "products",
        "same as generate",
        "MiB ours / generate",
    ]
    for column in columns:
        table.add_column(column, justify="right")
    for cell in report["cells"]:
        ratios, need = cell["times_ours"], cell.get("MiB")
        table.add_row(
            f"{cell['batch']} x {cell['beam_size']}",
            f"{cell['ms']['ours']:.0f}",
            f"{ratios['generate']:.2f}",
            f"{ratios['ctranslate2']:.2f}" if "ctranslate2" in ratios else "-",
            f"{ratios['products']:.2f}",
            f"{cell['same_hypotheses']['generate']:.1%}",
            f"{need['ours']:.0f} / {need['generate']:.0f}" if need else "-",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
