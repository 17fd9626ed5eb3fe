"""Two batches on their way at once: while a device searches one, the interpreter is busy with the other.

A batch stays in one thread from its search to its results. Searches take turns, and so do the steps after
them: only so does one batch's search meet the other's rest, and a strategy is asked by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Event
from typing import Generic, TypeVar

import torch

from bidibeam.hypotheses import Beams
from bidibeam.interpreter import taking_turns
from bidibeam.protocols import BeamGenerator

Result = TypeVar("Result")

IN_FLIGHT = 2


@dataclass
class _Batch(Generic[Result]):
    """A batch on its way.

    Attributes:
        results: What will have been made of it.
        is_searched: Set when its search is over.
    """

    results: Future[list[Result]] = field(default_factory=Future)
    is_searched: Event = field(default_factory=Event)


def searched_ahead(
    generator: BeamGenerator,
    batches: Iterator[Sequence[Beams]],
    then: Callable[[Sequence[Beams]], Iterable[Result]],
) -> Iterator[Result]:
    """Search for batches, the next one while something is made of the last.

    All comes as it would one by one, errors too: after the results of the batches before. At most two batches
    are in memory.

    Args:
        generator: Where hypotheses come from. Its `begin` is called by two threads in turn, on a GPU each in
            its own stream, and what that returns beside the next `begin`.
        batches: The batches.
        then: Takes a batch with its hypotheses; one result a source. It is called for one batch at a time, in
            order.
    """
    with taking_turns(), _workers(torch.device(getattr(generator, "device", "cpu"))) as pool:
        before: _Batch[Result] | None = None
        while True:
            now = _begun(generator, batches, then, before, pool)
            if before is not None:
                yield from before.results.result()
            if now is None:
                return
            before = now


def _begun(
    generator: BeamGenerator,
    batches: Iterator[Sequence[Beams]],
    then: Callable[[Sequence[Beams]], Iterable[Result]],
    before: _Batch[Result] | None,
    pool: ThreadPoolExecutor,
) -> _Batch[Result] | None:
    """Read the next batch and have it worked on; None if there is none."""
    now = _Batch[Result]()
    try:
        sources = next(batches, None)
    except Exception as error:  # what comes before it comes first
        now.results.set_exception(error)
        return now
    if sources is None:
        return None

    def work() -> list[Result]:
        try:
            if before is not None:
                before.is_searched.wait()
            finish = generator.begin(sources)
        finally:
            now.is_searched.set()
        found = finish()
        if before is not None and before.results.exception() is not None:
            return []  # nobody will ask
        return list(then(found))

    now.results = pool.submit(work)
    return now


@contextmanager
def _workers(device: torch.device) -> Iterator[ThreadPoolExecutor]:
    """As many threads as batches; on a GPU each has a stream, so that none waits for another's work."""
    if device.type != "cuda":
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            yield pool
        return
    outer, streams = torch.cuda.current_stream(device), _streams(device)
    for stream in streams:
        stream.wait_stream(outer)  # for the weights
    left = iter(streams)
    try:
        with ThreadPoolExecutor(IN_FLIGHT, initializer=lambda: torch.cuda.set_stream(next(left))) as pool:
            yield pool
    finally:
        for stream in streams:
            outer.wait_stream(stream)


@lru_cache
def _streams(device: torch.device) -> tuple[torch.cuda.Stream, ...]:
    """Always the same ones: memory that a stream has used is kept for it alone."""
    return tuple(torch.cuda.Stream(device) for _ in range(IN_FLIGHT))  # type: ignore[no-untyped-call]
