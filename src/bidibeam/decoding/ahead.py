"""Two batches on their way at once: while a device searches one, the interpreter is busy with the other.

A batch stays in one thread from its search to its results. Two searches may meet: the last steps of one have
too few hypotheses to keep a device busy. The threads take turns, and give theirs up where they wait for the
device, so that neither is held up in the middle of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

import torch

from bidibeam.hypotheses import Beams
from bidibeam.interpreter import Turns, away, pause, taking_turns
from bidibeam.protocols import BeamGenerator

Result = TypeVar("Result")

IN_FLIGHT = 2
AT_ONCE = 128
"""Sources of which something is made before the other thread may have its turn."""


def searched_ahead(
    generator: BeamGenerator,
    batches: Iterator[Sequence[Beams]],
    then: Callable[[Sequence[Beams]], Iterable[Result]],
) -> Iterator[Result]:
    """Search for batches, the next one while something is made of the last.

    All comes as it would one by one, errors too: after the results of the batches before. At most two batches
    are in memory.

    Args:
        generator: Where hypotheses come from. Its `begin`, and what that returns, is called by two threads at
            once, on a GPU each in its own stream.
        batches: The batches.
        then: Takes a batch with its hypotheses; one result a source. It is called for one batch at a time, in
            order.
    """
    with taking_turns(), _workers(torch.device(getattr(generator, "device", "cpu"))) as pool:
        before: Future[list[Result]] | None = None
        turns = Turns()
        while True:
            now = _begun(generator, batches, then, before, pool, turns)
            if before is not None:
                yield from before.result()
            if now is None:
                return
            before = now


def _begun(
    generator: BeamGenerator,
    batches: Iterator[Sequence[Beams]],
    then: Callable[[Sequence[Beams]], Iterable[Result]],
    before: Future[list[Result]] | None,
    pool: ThreadPoolExecutor,
    turns: Turns,
) -> Future[list[Result]] | None:
    """Read the next batch and have it worked on; None if there is none."""
    try:
        sources = next(batches, None)
    except Exception as error:  # what comes before it comes first
        failed: Future[list[Result]] = Future()
        failed.set_exception(error)
        return failed
    if sources is None:
        return None

    def work() -> list[Result]:
        with turns.mine():
            found = generator.begin(sources)()
            with away():
                if before is not None and before.exception() is not None:
                    return []  # nobody will ask
            results: list[Result] = []
            for first in range(0, len(found), AT_ONCE):
                results.extend(then(found[first : first + AT_ONCE]))
                pause()
            return results

    return pool.submit(work)


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
