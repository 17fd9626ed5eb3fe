"""Batches on their way at once: while a device searches one, the interpreter is busy with the others.

A batch stays in one thread from its search to its results; generators may let one search follow another. The
threads take turns, and give theirs up where they wait for the device, so that none is held up in the middle
of a step. They begin in the order of the batches: nothing comes of a batch before all of the one before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Generic, TypeVar

import torch

from bidibeam.hypotheses import Beams
from bidibeam.interpreter import taking_turns
from bidibeam.protocols import BeamGenerator
from bidibeam.turns import Place, Turns, away, pause

Result = TypeVar("Result")

IN_FLIGHT = 3
"""One that is searched, one that waits to be, and one of whose hypotheses something is made."""
AT_ONCE = 128
"""Sources of which something is made before the other thread may have its turn."""


def searched_ahead(
    generator: BeamGenerator,
    batches: Iterator[Sequence[Beams]],
    then: Callable[[Sequence[Beams]], Iterable[Result]],
) -> Iterator[Result]:
    """Search for batches, the next ones while something is made of the last.

    All comes as it would one by one, errors too: after the results of the batches before. At most `IN_FLIGHT`
    batches are in memory.

    Args:
        generator: Where hypotheses come from. Its `begin`, and what that returns, is called by several
            threads, on a GPU each in its own stream.
        batches: The batches.
        then: Takes sources with their hypotheses; one result a source. It is called by one thread at a time,
            in order.
    """
    with taking_turns(), _workers(torch.device(getattr(generator, "device", "cpu"))) as pool:
        line = _Line(generator, then, pool)
        under_way: deque[Future[list[Result] | None]] = deque()
        while True:
            while len(under_way) < IN_FLIGHT:
                begun = line.begun(batches, under_way[-1] if under_way else None)
                if begun is None:
                    break
                under_way.append(begun)
            if not under_way:
                return
            yield from under_way.popleft().result() or ()


class _Line(Generic[Result]):
    """What batches go through, one after another: arguments of `searched_ahead`, and threads."""

    def __init__(
        self,
        generator: BeamGenerator,
        then: Callable[[Sequence[Beams]], Iterable[Result]],
        pool: ThreadPoolExecutor,
    ) -> None:
        self._generator, self._then, self._pool = generator, then, pool
        self._turns = Turns()

    def begun(
        self, batches: Iterator[Sequence[Beams]], before: Future[list[Result] | None] | None
    ) -> Future[list[Result] | None] | None:
        """Read the next batch and have it worked on; None if there is none."""
        try:
            sources = next(batches, None)
        except Exception as error:  # what comes before it comes first
            failed: Future[list[Result] | None] = Future()
            failed.set_exception(error)
            return failed
        if sources is None:
            return None
        place = self._turns.place()
        try:
            work = self._pool.submit(self._worked_on, sources, before, place)
        except BaseException:
            self._turns.abandon(place)
            raise
        work.add_done_callback(lambda _: self._turns.abandon(place))  # if no thread ever began
        return work

    def _worked_on(
        self, sources: Sequence[Beams], before: Future[list[Result] | None] | None, place: Place
    ) -> list[Result] | None:
        """The results; None if those of the batch before did not come, since then nobody will ask."""
        with self._turns.mine(place if self._turns.claim(place) else None):
            found = self._generator.begin(sources)()
            with away():
                if before is not None and (before.exception() is not None or before.result() is None):
                    return None
            results: list[Result] = []
            for first in range(0, len(found), AT_ONCE):
                results.extend(self._then(found[first : first + AT_ONCE]))
                pause()
            return results


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
