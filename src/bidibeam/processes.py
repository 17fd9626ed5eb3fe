"""The same work in this process and in spawned ones: results in order, as one process alone gives them.

with sharing(answer, [recipe.on(device) for device in others]) as share:
    for answers in share(batches):
        print(answers)
"""

from __future__ import annotations

import logging
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from multiprocessing import get_context
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from bidibeam.errors import ProcessLostError
from bidibeam.work import Work, count, counting, wanted_while

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Batch = TypeVar("Batch")
Result = TypeVar("Result")

AHEAD = 4
"""Batches for each process that are under way or waiting, so that a slow one keeps no other from working."""


class Recipe(Protocol[Batch, Result]):
    """What makes the same function in any process; it is picklable."""

    def on(self, device: str | None) -> Recipe[Batch, Result]:
        """The same where a device computes, if one is named."""
        ...

    def build_work(self) -> Callable[[Batch], Result]:
        """Make the function, in the process that uses it."""
        ...


@contextmanager
def sharing(
    here: Callable[[Batch], Result], recipes: Sequence[Recipe[Batch, Result]]
) -> Iterator[Callable[[Iterable[Batch]], Iterator[Result]]]:
    """Yield a function that shares batches out, and gives their results in the order of the batches.

    Whichever process is free takes the next batch. An error comes where its batch's result would have come;
    what others have begun is then given up.

    Args:
        here: What this process does with a batch; it runs in a thread.
        recipes: For each other process, what makes the same function there.

    Raises:
        ProcessLostError: If a process ends before its work is done.
    """
    is_over = Event()

    def work_here(batch: Batch) -> Result:
        with wanted_while(lambda: not is_over.is_set()):
            return here(batch)

    workers: list[Worker[Batch, Result]] = []
    free: SimpleQueue[Callable[[Batch], Result]] = SimpleQueue()
    pool = ThreadPoolExecutor(1 + len(recipes))  # a thread waits for each process

    def perform(batch: Batch) -> Result:
        worker = free.get()
        try:
            return worker(batch)
        finally:
            free.put(worker)

    def share(batches: Iterable[Batch]) -> Iterator[Result]:
        rest, begun = iter(batches), deque[Future[Result]]()
        while True:
            wanted = AHEAD * (1 + len(recipes)) - len(begun)
            begun.extend(pool.submit(perform, batch) for batch in islice(rest, wanted))
            if not begun:
                return
            yield begun.popleft().result()

    try:
        workers += map(Worker, recipes)
        free.put(work_here)
        for worker in workers:
            free.put(worker)
        yield share
    finally:
        is_over.set()
        for worker in workers:
            worker.stop()
        pool.shutdown(cancel_futures=True)


class Worker(Generic[Batch, Result]):
    """A spawned process that does some work, one batch after another."""

    def __init__(self, recipe: Recipe[Batch, Result]) -> None:
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, recipe), daemon=True)
        with _blocking_interrupts():  # until it can ignore them, which takes the seconds of its imports
            self._process.start()
        theirs.close()  # so that the end of the process is the end of the pipe

    def __call__(self, batch: Batch) -> Result:
        """The result of a batch; the work is counted as if it had been done here."""
        try:
            self._ours.send(batch)
            result, error, work = self._ours.recv()
        except (EOFError, OSError) as gone:
            self._process.join()
            raise ProcessLostError(
                f"One of several `processes` ended before its work was done ({self._ended()}). Perhaps "
                "memory was short: fewer processes need less."
            ) from gone
        if error is not None:
            raise error
        count(**asdict(work))
        done: Result = result
        return done

    def _ended(self) -> str:
        code = self._process.exitcode or 0
        return f"by the signal {signal.Signals(-code).name}" if code < 0 else f"with the status {code}"

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._process.terminate()
        self._process.join()
        self._ours.close()


@contextmanager
def _blocking_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block; a process that is started in it begins so."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, recipe: Recipe[Any, Any]) -> None:
    """Answer batches until the process that sends them is gone; an error of the recipe is an answer, too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all: the first process ends the others
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    logging.getLogger("bidibeam").setLevel(logging.ERROR)  # it has said what there is to say, too
    work: Callable[[Any], Any] | None = None
    while True:
        try:
            batch = connection.recv()
        except (EOFError, OSError):
            return
        result = error = None
        with counting() as done:
            try:
                work = work or recipe.build_work()
                result = work(batch)
            except BaseException as raised:  # libraries in Rust panic with one of their own
                error = _portable(raised)
        try:
            connection.send((result, error, done if error is None else Work()))
        except OSError:
            return


def _portable(error: BaseException) -> BaseException:
    """The error, if another process can read it, or else one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
