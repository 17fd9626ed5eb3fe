"""Steps of a search on a GPU, captured once as a CUDA graph and replayed, for scorers with static shapes.

A small search keeps the interpreter busier than the GPU, since each step is hundreds of small kernels. A
graph needs no interpreter, but has no choice either: beams stay B wide, and a source that is done goes on
with an empty beam until all are. One graph serves every step of every search of the same shape, because all
that differs from step to step is read from device memory.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch

from bidibeam import work
from bidibeam.search.backpointers import Entries, ScoredSequence, Step
from bidibeam.search.beam import BROKEN, BeamState, BeamStepper, Moment, broken_logits
from bidibeam.search.candidates import round_up

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from torch import Tensor

    from bidibeam.protocols import StaticScorer

    Begun = tuple[BeamState, Any, Step]  # a search after its first step: beams, the scorer's state, the step

MOST_GRAPHS, MOST_KEYS = 4, 1000
"""Graphs that a cache keeps, each with a search's memory, and shapes that it remembers; the last used."""
MOST_LOGITS = 1 << 27
"""Logits per step. With more the GPU is the busier one, and sources that are done had better leave."""
INTERVAL = 2
"""Steps after which the host looks whether all sources are done."""
FILLS = {"log_probs": -torch.inf, "tokens": 0, "widths": 0, "finished": 0, "kept_scores": -torch.inf}
"""What goes from step to step, and what it is for sources that a search does not have."""

_LOG = logging.getLogger(__name__)
_CAPTURING = Lock()  # one capture at a time in a process


class CudaCapture:
    """Records work of a GPU as CUDA graphs. An emulation on a CPU overrides all of it."""

    device_type = "cuda"

    def record(
        self, body: Callable[[], None], device: torch.device, prepare: Callable[[], None]
    ) -> Callable[[], None]:
        """Returns a function that replays a call; two real ones come first, so that libraries warm up."""
        graph, stream = torch.cuda.CUDAGraph(), capture_stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.device(device), torch.cuda.stream(stream):  # left even if the capture fails
            for _ in range(2):
                prepare()
                body()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                body()
        torch.cuda.current_stream(device).wait_stream(stream)
        return graph.replay

    def fetch(self, tensor: Tensor) -> Callable[[], Tensor]:
        """Starts to copy a tensor to the host; the returned function waits until it is there."""
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
        event = torch.cuda.current_stream(tensor.device).record_event()

        def read() -> Tensor:
            event.synchronize()
            return copy

        return read


@cache
def capture_stream(device: torch.device) -> torch.cuda.Stream:
    """Returns always the same stream: libraries keep memory for every stream that they have met."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class GraphCache:
    """The graphs of a model's searches: the second of the same shape is captured, later ones are replayed."""

    def __init__(self, capture: CudaCapture | None = None) -> None:
        self._capture = capture or CudaCapture()
        self._graphs: OrderedDict[Hashable, SearchGraph | None] = OrderedDict()  # None: seen, not captured
        self._lock = Lock()

    def get(self, scorer: StaticScorer[Any], stepper: BeamStepper, begun: Begun) -> SearchGraph | None:
        """Returns the graph for a search, not ready if it is to be captured; None for an eager search."""
        (beams, state, _), settings = begun, stepper.settings
        count, width = beams.tokens.shape
        room = count if count <= 2 else 4 if count <= 4 else round_up(count, 8)  # few shapes
        if (
            beams.tokens.device.type != self._capture.device_type
            or settings.max_length == 1
            or width != settings.beam_size
            or room * width * stepper.vocabulary > MOST_LOGITS
            or (own := scorer.static_key(state)) is None
        ):
            return None
        key = (own, room, settings, stepper.roles, stepper.is_normalised, stepper.vocabulary)
        with self._lock:
            if key not in self._graphs:
                self._graphs[key] = None
                if len(self._graphs) > MOST_KEYS:
                    self._graphs.popitem(last=False)
                return None
            self._graphs.move_to_end(key)
            graph = self._graphs[key]
            if graph is not None:
                return graph if graph.is_ready else None  # another thread captures it, or nobody can
            graph = self._graphs[key] = SearchGraph(self._capture, room)
            held = [one for one, other in self._graphs.items() if other is not None and other.captured]
            for one in held[: 1 - MOST_GRAPHS]:
                self._graphs[one] = None
            return graph


class SearchGraph:
    """The graph of searches of one shape. It is ready once its first replay agreed with an eager step."""

    def __init__(self, capture: CudaCapture, room: int) -> None:
        self._capture, self._room = capture, room
        self.captured: CapturedSearch | None = None
        self.is_ready = False

    def _pad(self, scorer: StaticScorer[Any], begun: Begun) -> Begun:
        """Returns the state with B rows per source, which had one; the last source fills up the room."""
        beams, state, first = begun
        count, width = beams.tokens.shape
        sources = torch.arange(self._room, device=beams.tokens.device).clamp_(max=count - 1)  # (room,)
        rows = sources.unsqueeze(1).expand(-1, width)  # (room, B)
        return beams, scorer.select(state, rows, None if self._room == count else sources), first

    def capture(self, scorer: StaticScorer[Any], stepper: BeamStepper, begun: Begun) -> Any:
        """Captures a search, replays its second step for `verify`, and returns its state, B rows each."""
        begun = self._pad(scorer, begun)
        try:
            self.captured = CapturedSearch(self._capture, scorer, stepper, begun, self._room)
        except RuntimeError as error:
            _LOG.debug("The search cannot be captured: %s", error)
        return begun[1]

    def verify(self, logits: Tensor, sources: Tensor) -> None:
        """Compares the replayed second step with the eager one of some sources: (rows, vocabulary)."""
        if self.captured is None:
            return
        eager = logits.float().view(len(sources), -1, logits.shape[1])  # (sources, beams, vocabulary)
        replayed = self.captured.logits.float().view(self._room, -1, logits.shape[1])
        replayed, is_finite = replayed[sources, : eager.shape[1]], eager.isfinite()
        error = (replayed - eager).where(is_finite, 0).abs().amax() / eager.where(is_finite, 0).abs().amax()
        tolerance = max(1e-4, 8 * torch.finfo(self.captured.dtype).eps)  # of the largest logit
        self.is_ready = bool((replayed.isfinite() == is_finite).all() & ~(error > tolerance))
        if not self.is_ready:
            _LOG.debug("The search is not replayed: a step differs by %.2g of the largest logit.", error)
            self.captured = None

    def replay(self, scorer: StaticScorer[Any], begun: Begun) -> list[list[ScoredSequence]]:
        """Returns what a search finds, or raises a ScorerError as it would."""
        assert self.captured is not None
        return self.captured.replay(self._pad(scorer, begun))


class CapturedSearch:
    """One step and the reading back, captured, with the memory that they read and write."""

    @torch.inference_mode()
    def __init__(
        self, capture: CudaCapture, scorer: StaticScorer[Any], stepper: BeamStepper, begun: Begun, room: int
    ) -> None:
        (beams, state, _), device = begun, begun[0].tokens.device
        steps, width = stepper.settings.max_length, stepper.settings.beam_size
        candidates = min(width + width * len(stepper.roles.ends), width * stepper.vocabulary)
        self._fetch, self._stepper, self._lock = capture.fetch, stepper, Lock()
        fields = (getattr(beams, name) for name in BeamState.__slots__)
        self._beams = BeamState(*(field.new_zeros(room, *field.shape[1:]) for field in fields))
        self._first_rows = torch.arange(0, room * width, width, device=device).unsqueeze(1)  # (room, 1)
        self._broken = torch.zeros(room, dtype=torch.long, device=device)  # the step; 0 if a source is well
        self._number = torch.zeros(1, dtype=torch.long, device=device)  # of the last step
        moments = [stepper.moment(number) for number in range(1, steps + 1)]
        self._moments = torch.tensor(moments, dtype=torch.float64, device=device)  # (steps, fields)
        live = torch.zeros(steps, room, width, dtype=torch.long, device=device)
        pointers = torch.zeros(steps, room, candidates, dtype=torch.long, device=device)
        self._history = live, pointers, torch.zeros(pointers.shape, device=device)  # as in `Step`
        with _CAPTURING:
            self._static = scorer.static_state(state, steps - 1)
            self.dtype = self._static.dtype
            self._replay_step = capture.record(self._step, device, lambda: self._load(begun))
            self._replay_end = capture.record(self._read_back, device, lambda: None)
        self._load(begun)  # what came before has written
        self._replay_step()

    @torch.inference_mode()
    def replay(self, begun: Begun) -> list[list[ScoredSequence]]:
        """Replays until all sources are done, as far as the host knows: it looks an interval late."""
        settings, count, news = self._stepper.settings, len(begun[0].sources), None
        with self._lock:
            self._load(begun)
            for number in range(2, settings.max_length + 1):
                self._replay_step()
                work.count(projected_rows=self._beams.tokens.numel())
                if number % INTERVAL == 0:
                    if news is not None and not (news() > 0).any():
                        break
                    news = self._fetch(self._beams.widths)
            self._replay_end()
            sequences = Entries(*(part[:count] for part in self._entries)).sequences(settings)
            broken = self._broken[:count].tolist()
        if any(broken):
            step = min(filter(None, broken))
            raise broken_logits(broken.index(step), step)
        return sequences

    def _load(self, begun: Begun) -> None:
        """Copies a search into the memory; sources that it does not have are done."""
        beams, state, first = begun
        count = len(beams.sources)
        self._static.load(state)
        for name, fill in FILLS.items():
            own = getattr(self._beams, name)
            own[:count], own[count:] = getattr(beams, name), fill
        self._number.fill_(1)
        self._broken.copy_(self._beams.widths == BROKEN)
        self._history[2].fill_(-torch.inf)  # at steps that are never taken, too
        for history, given in zip(self._history, first[1:], strict=True):
            history[0, :count, : given.shape[1]] = given

    def _step(self) -> None:
        index = self._number.clone()  # of this step, counted from 0
        self._number.add_(1)
        ended, current, shortest, may_end, is_last = self._moments.index_select(0, index)[0].unbind()
        moment = Moment(ended, current, shortest, may_end > 0, is_last > 0)
        self.logits = self._static.step(self._beams.tokens.view(-1))  # (rows, vocabulary)
        beams, step = self._stepper.step(self._beams, self.logits, moment, self._beams.tokens.shape[1])
        beams = replace(beams, widths=beams.widths.where(self._beams.widths > 0, 0))  # done stays done
        self._broken.copy_(self._number.where(beams.widths == BROKEN, self._broken))
        for history, new in zip(self._history, step[1:], strict=True):
            history.index_copy_(0, index, new.unsqueeze(0))
        for name in FILLS:
            getattr(self._beams, name).copy_(getattr(beams, name))
        self._static.reorder((beams.parents + self._first_rows).flatten())

    def _read_back(self) -> None:
        steps = [Step(self._beams.sources, *parts) for parts in zip(*self._history, strict=True)]
        self._entries = self._stepper.read_back(steps, self._beams.log_probs)
