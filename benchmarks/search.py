"""Time of a beam-search step beside the machine's own matrix products of the same shapes.

    python benchmarks/search.py [--quick] [--out results.json]

The network has the paper's shape and random weights; the end token is forbidden up to the last step, so every
search takes all its steps at full width. "Products" are the step's matrix products alone, written into memory
allocated beforehand: what no search with this network can go below. Searches and products take turns, so that
a busy machine slows both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import click
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from bidibeam import __version__
from bidibeam.data.tokenization import END_ID, PAD_ID, START_ID, UNKNOWN_ID
from bidibeam.hypotheses import Direction
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.gru.scorer import GRUScorer
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.protocols import StepScorer
from bidibeam.search import beam
from bidibeam.search.candidates import best_candidates
from bidibeam.search.settings import SearchSettings, VocabularyRoles

SHAPE = ModelSettings(directions=("regular",))
"""The paper's network; only its regular decoder is searched."""
EMBEDDING, HIDDEN, ATTENTION = SHAPE.embedding_size, SHAPE.decoder_size, SHAPE.attention_size
MEMORY, READOUT = SHAPE.memory_size, SHAPE.readout_size
SOURCE_LENGTH = 15
ROLES = VocabularyRoles(start=START_ID, end=END_ID, forbidden=frozenset({PAD_ID, UNKNOWN_ID, START_ID}))
PRODUCTS_A_TURN = 8


def make_scorer(vocabulary: int, device: torch.device) -> StepScorer[Any]:
    """The scorer to measure with; larger output weights make some words likelier than others."""
    model = BidirectionalModel(SHAPE, vocabulary).to(device).eval()
    with torch.no_grad():
        model.w_output.mul_(8)
    return GRUScorer(model, Direction.REGULAR)


def products(batch: int, beam_size: int, vocabulary: int, device: torch.device) -> Callable[[], None]:
    """The matrix products of one step of that network, and nothing else."""
    rows = batch * beam_size
    shapes = [
        (1, rows, HIDDEN, ATTENTION + 3 * HIDDEN),
        (1, rows, EMBEDDING, 3 * HIDDEN),
        (1, rows * SOURCE_LENGTH, ATTENTION, 1),
        (batch, beam_size, SOURCE_LENGTH, MEMORY),
        (1, rows, MEMORY, 3 * HIDDEN),
        (1, rows, HIDDEN + MEMORY + EMBEDDING, READOUT),
        (1, rows, READOUT, vocabulary),
    ]
    calls: list[tuple[Tensor, Tensor, Tensor]] = []
    for count, height, inner, width in shapes:
        left, right = torch.randn(count, height, inner), torch.randn(count, inner, width)
        calls.append((left.to(device), right.to(device), torch.empty(count, height, width, device=device)))

    def multiply() -> None:
        for left, right, out in calls:
            if left.shape[0] == 1:
                torch.mm(left[0], right[0], out=out[0])
            else:
                torch.bmm(left, right, out=out)

    return multiply


@dataclass
class Stopwatch:
    """Seconds spent in parts of a search, and when each step began."""

    device: torch.device
    began: list[float] = field(default_factory=list)
    scorer: list[float] = field(default_factory=list)
    candidates: list[float] = field(default_factory=list)

    def now(self) -> float:
        """The time, after the device has done what it was asked to."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def forget(self) -> None:
        """Start anew."""
        for times in (self.began, self.scorer, self.candidates):
            times.clear()

    def timed(self, function: Callable[..., Any], into: list[float]) -> Callable[..., Any]:
        """The same function, its time written down."""

        def call(*args: Any) -> Any:
            began = self.now()
            result = function(*args)
            into.append(self.now() - began)
            return result

        return call


class TimedScorer:
    """A scorer that writes down how long it takes."""

    def __init__(self, scorer: StepScorer[Any], watch: Stopwatch) -> None:
        self.start = scorer.start
        self._step = watch.timed(scorer.step, watch.scorer)
        self.select = watch.timed(scorer.select, watch.scorer)
        self._watch = watch

    def step(self, last_tokens: Tensor, state: Any) -> Any:
        """A step begins here."""
        self._watch.began.append(self._watch.now())
        return self._step(last_tokens, state)


@dataclass(frozen=True)
class Row:
    """Medians over steps, in milliseconds a step."""

    batch: int
    beam: int
    step_ms: float
    products_ms: float
    scorer_ms: float
    candidates_ms: float
    bookkeeping_ms: float
    read_back_ms: float

    @property
    def ratio(self) -> float:
        """The whole step over the products."""
        return self.step_ms / self.products_ms


def measure(
    scorer: StepScorer[Any], sources: Tensor, settings: SearchSettings, *, vocabulary: int, turns: int
) -> Row:
    """Take turns between searches and products; the first search only warms up."""
    watch = Stopwatch(sources.device)
    multiply = products(sources.shape[0], settings.beam_size, vocabulary, sources.device)
    timed_candidates = watch.timed(best_candidates, watch.candidates)
    floor: list[float] = []
    parts: dict[str, list[float]] = {
        name: [] for name in ("step", "scorer", "candidates", "rest", "read_back")
    }
    for turn in range(turns + 1):
        watch.forget()
        with patch.object(beam, "best_candidates", timed_candidates):
            beam.beam_search(TimedScorer(scorer, watch), sources, settings, ROLES)
        ended = watch.now()
        for _ in range(PRODUCTS_A_TURN):
            watch.timed(multiply, floor)()
        if not turn:
            floor.clear()
            continue
        # From the second step on the beam is full; the last one selects nothing and reads back instead.
        for step in range(1, settings.max_length - 1):
            whole = watch.began[step + 1] - watch.began[step]
            scored = watch.scorer[2 * step] + watch.scorer[2 * step + 1]
            parts["step"].append(whole)
            parts["scorer"].append(scored)
            parts["candidates"].append(watch.candidates[step])
            parts["rest"].append(whole - scored - watch.candidates[step])
        last = ended - watch.began[-1] - watch.scorer[-1] - watch.candidates[-1]
        parts["read_back"].append(last / settings.max_length)
    ms = {name: 1000 * median(times) for name, times in parts.items()}
    names = ("scorer", "candidates", "rest", "read_back")
    shares = (ms[name] for name in names)
    return Row(sources.shape[0], settings.beam_size, ms["step"], 1000 * median(floor), *shares)


def table(rows: list[Row], signature: dict[str, Any]) -> Table:
    """The rows for people."""
    shown = Table(
        title="Beam search, ms a step", caption=" ".join(f"{key}={signature[key]}" for key in signature)
    )
    for name in (
        "batch x beam",
        "step",
        "products",
        "ratio",
        "scorer",
        "candidates",
        "bookkeeping",
        "read back",
    ):
        shown.add_column(name, justify="right")
    for row in rows:
        cells = [
            f"{row.batch} x {row.beam}",
            f"{row.step_ms:.2f}",
            f"{row.products_ms:.2f}",
            f"{row.ratio:.2f}",
        ]
        parts = (row.scorer_ms, row.candidates_ms, row.bookkeeping_ms, row.read_back_ms)
        cells.extend(f"{part:.2f} ({part / row.step_ms:.0%})" for part in parts)
        shown.add_row(*cells)
    return shown


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="Fewer shapes, one turn each.")
@click.option(
    "--batch", "batches", type=click.IntRange(min=1), multiple=True, default=(1, 8, 32), show_default=True
)
@click.option(
    "--beam", "beams", type=click.IntRange(min=1), multiple=True, default=(10, 25, 50), show_default=True
)
@click.option("--steps", type=click.IntRange(min=3), default=20, show_default=True)
@click.option("--vocabulary", type=click.IntRange(min=4), default=16_000, show_default=True)
@click.option("--stopping", default="shrinking", show_default=True)
@click.option("--turns", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--device", default="cpu", show_default=True)
@click.option(
    "--threads", type=click.IntRange(min=1), help="Torch's own threads; as many as it likes if absent."
)
@click.option("--seed", default=1, show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def main(
    *,
    quick: bool,
    batches: tuple[int, ...],
    beams: tuple[int, ...],
    steps: int,
    vocabulary: int,
    stopping: str,
    turns: int,
    device: str,
    threads: int | None,
    seed: int,
    out: Path | None,
) -> None:
    """Measure each shape, print a table."""
    if quick:
        batches, beams, turns = (8,), (10, 25), 1
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(seed)
    where = torch.device(device)
    scorer = make_scorer(vocabulary, where)
    rows = []
    shapes = [(batch, beam_size) for batch in batches for beam_size in beams]
    for batch, beam_size in track(shapes, console=Console(stderr=True), description="Searching"):
        settings = SearchSettings(
            beam_size=beam_size, max_length=steps, min_length=steps - 1, stopping=stopping
        )
        sources = torch.randint(END_ID + 1, vocabulary, (batch, SOURCE_LENGTH), device=where)
        rows.append(measure(scorer, sources, settings, vocabulary=vocabulary, turns=turns))
    signature = {
        "bidibeam": __version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(where) if where.type == "cuda" else device,
        "threads": torch.get_num_threads(),
        "seed": seed,
        "vocabulary": vocabulary,
        "steps": steps,
        "stopping": stopping,
        "turns": turns,
    }
    Console(width=120).print(table(rows, signature))
    if out:
        results = [{**asdict(row), "ratio": row.ratio} for row in rows]
        out.write_text(
            json.dumps({"signature": signature, "rows": results}, indent=2) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
