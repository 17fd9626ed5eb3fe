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
from bidibeam.protocols import StepScorer
from bidibeam.search import beam
from bidibeam.search.candidates import best_candidates
from bidibeam.search.settings import SearchSettings, VocabularyRoles

EMBEDDING, HIDDEN, ATTENTION, MEMORY, READOUT = 300, 512, 512, 512, 512
SOURCE_LENGTH = 15
ROLES = VocabularyRoles(start=1, end=2, forbidden=frozenset({0, 1, 3}))
PRODUCTS_A_TURN = 8


@dataclass(frozen=True, slots=True)
class State:
    """A row a hypothesis; memory and keys a source."""

    hidden: Tensor  # (sources, beams, hidden)
    memory: Tensor  # (sources, positions, memory)
    keys: Tensor  # (sources, positions, attention)


class RandomNetwork:
    """A decoder of the paper's shape: GRU, additive attention, tanh readout, projection. Random weights."""

    def __init__(self, vocabulary: int, *, device: torch.device) -> None:
        def weight(inputs: int, outputs: int) -> Tensor:
            return torch.randn(inputs, outputs).mul_(inputs**-0.5).to(device)

        self.embeddings = weight(vocabulary, EMBEDDING)
        self.w_key = weight(MEMORY, ATTENTION)
        self.w_state = weight(HIDDEN, ATTENTION + 3 * HIDDEN)
        self.w_word = weight(EMBEDDING, 3 * HIDDEN)
        self.w_context = weight(MEMORY, 3 * HIDDEN)
        self.w_readout = weight(HIDDEN + MEMORY + EMBEDDING, READOUT)
        self.w_output = weight(READOUT, vocabulary) * 4
        self.b_output = weight(1, vocabulary)
        self.v = weight(ATTENTION, 1)
        self._logits = torch.empty(0, device=device)

    def start(self, sources: Tensor) -> State:
        """Random encoder states: what they hold makes no difference to the time."""
        memory = torch.randn(*sources.shape, MEMORY, device=sources.device)
        return State(memory[:, :1], memory, memory @ self.w_key)

    def step(self, last_tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """One step, attention computed as (sources, beams, positions)."""
        hidden = state.hidden.flatten(0, 1)  # (rows, hidden)
        words = self.embeddings[last_tokens]  # (rows, embedding)
        from_state = hidden @ self.w_state  # (rows, attention + 3 hidden)
        query = from_state[:, :ATTENTION].view(*state.hidden.shape[:2], 1, ATTENTION)
        energies = (state.keys.unsqueeze(1) + query).tanh_() @ self.v  # (sources, beams, positions, 1)
        context = (energies.squeeze(-1).softmax(-1) @ state.memory).flatten(0, 1)  # (rows, memory)
        gates = torch.addmm(words @ self.w_word, context, self.w_context)  # (rows, 3 hidden)
        reset, update, fresh = gates.chunk(3, dim=1)  # (rows, hidden) each
        old_reset, old_update, old_fresh = from_state[:, ATTENTION:].chunk(3, dim=1)
        candidate = (fresh + (reset + old_reset).sigmoid_() * old_fresh).tanh_()  # (rows, hidden)
        hidden = torch.lerp(candidate, hidden, (update + old_update).sigmoid_())  # (rows, hidden)
        readout = (torch.cat((hidden, context, words), dim=1) @ self.w_readout).tanh_()  # (rows, readout)
        if self._logits.shape[:1] != readout.shape[:1]:
            self._logits = readout.new_empty(readout.shape[0], self.w_output.shape[1])
        logits = torch.addmm(self.b_output, readout, self.w_output, out=self._logits)  # (rows, vocabulary)
        return logits, State(hidden.view_as(state.hidden), state.memory, state.keys)

    def select(self, state: State, rows: Tensor) -> State:
        """Hidden states by row; memory and keys only move when a source leaves."""
        sources, beams = state.hidden.shape[:2]
        hidden = state.hidden.flatten(0, 1)[rows]  # (sources, beams, hidden)
        if rows.shape[0] == sources:
            return State(hidden, state.memory, state.keys)
        left = rows[:, 0] // beams  # (sources,)
        return State(hidden, state.memory[left], state.keys[left])


def make_scorer(vocabulary: int, device: torch.device) -> StepScorer[Any]:
    """The scorer to measure with."""
    return RandomNetwork(vocabulary, device=device)


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
        sources = torch.zeros(batch, SOURCE_LENGTH, dtype=torch.long, device=where)
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
