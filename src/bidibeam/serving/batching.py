"""Dynamic batching: a bounded queue, and one worker thread that takes what fits together."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from bidibeam.work import StoppedError, wanted_while

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence


class QueueFullError(Exception):
    """The queue has no room for a request; `retry_after_s` is when it may have."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__()
        self.retry_after_s = retry_after_s


class ClosedError(Exception):
    """The batcher accepts nothing any more."""


@dataclass(frozen=True)
class Task:
    """What is done with items that may be done together.

    Attributes:
        kind: What metrics call it.
        key: Items of one kind whose keys are equal are done together.
        run: Takes items and returns as many results, in order.
        facts: What to tell of the results: the model, the strategy, the signature.
    """

    kind: str
    key: Hashable
    run: Callable[[Sequence[Any]], Sequence[Any]]
    facts: Mapping[str, str] = field(default_factory=dict)

    def goes_with(self, other: Task) -> bool:
        """Whether items of both may be done together."""
        return (self.kind, self.key) == (other.kind, other.key)


class Ticket(Future[Any]):
    """The future of an item, which whoever waits for it may give up."""

    is_wanted = True

    def give_up(self) -> None:
        """Lets the item never be begun, or its work stop at a step, once nobody wants its batch."""
        self.is_wanted = False
        self.cancel()


@dataclass
class _Job:
    task: Task
    item: Any
    future: Ticket = field(default_factory=Ticket)
    submitted_s: float = field(default_factory=time.monotonic)


class Batcher:
    """Runs items of many requests in few calls, one call at a time.

    The worker takes the oldest item and all that have its key, up to `max_batch`. Where there are fewer, it
    waits until the oldest is `max_wait_ms` old. One thread owns the models, so nothing else needs a lock.

    Args:
        max_batch: The most items of one call.
        max_wait_ms: How long an item waits for others, at most, while the worker is idle.
        capacity: The most items that wait; further requests are refused.
        watch: Is called with the kind of work and the seconds that each item waited, before each call.
    """

    def __init__(
        self,
        *,
        max_batch: int,
        max_wait_ms: float,
        capacity: int,
        watch: Callable[[str, list[float]], None] | None = None,
    ) -> None:
        self._max_batch, self._max_wait_s, self._capacity = max_batch, max_wait_ms / 1000, capacity
        self._watch = watch
        self._jobs: deque[_Job] = deque()
        self._changed = Condition()
        self._is_open, self._running = True, 0
        self._seconds_per_item = 0.1  # a running mean, to tell clients when to come back
        self._thread = Thread(target=self._work, name="bidibeam-worker", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many items wait that somebody waits for."""
        return sum(not job.future.cancelled() for job in [*self._jobs])

    @property
    def running(self) -> int:
        """How many items are being worked on."""
        return self._running

    @property
    def is_open(self) -> bool:
        """Whether new items are accepted."""
        return self._is_open

    @property
    def is_alive(self) -> bool:
        """Whether the worker works."""
        return self._thread.is_alive()

    def submit(self, task: Task, items: Sequence[Any]) -> list[Ticket]:
        """Queues all items of a request, or none of them, and returns their futures.

        Raises:
            QueueFullError: If they do not all fit into the queue.
            ClosedError: If the batcher was closed.
        """
        with self._changed:
            if not self._is_open:
                raise ClosedError
            if len(self._jobs) + len(items) > self._capacity:
                self._drop_cancelled()
            if len(self._jobs) + len(items) > self._capacity:
                raise QueueFullError(max(1, round(len(self._jobs) * self._seconds_per_item)))
            jobs = [_Job(task, item) for item in items]
            self._jobs.extend(jobs)
            self._changed.notify_all()
        return [job.future for job in jobs]

    def close(self, timeout_s: float | None = None) -> None:
        """Accepts nothing more, and returns once all that was accepted is done."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _work(self) -> None:
        for batch in self._batches():
            started_s = time.monotonic()
            self._running = len(batch)
            if self._watch is not None:
                self._watch(batch[0].task.kind, [started_s - job.submitted_s for job in batch])
            _run(batch)
            self._running = 0
            spent_s = (time.monotonic() - started_s) / len(batch)
            self._seconds_per_item += 0.2 * (spent_s - self._seconds_per_item)

    def _batches(self) -> Iterator[list[_Job]]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or not self._is_open)
                if not self._jobs:
                    return
                self._wait_for_more()
                batch = self._take()
            if batch:
                yield batch

    def _wait_for_more(self) -> None:
        """Waits while the oldest item is young and its batch is not full."""
        while self._is_open:
            self._drop_cancelled()
            if not self._jobs:
                return
            first = self._jobs[0]
            left_s = first.submitted_s + self._max_wait_s - time.monotonic()
            count = sum(job.task.goes_with(first.task) for job in self._jobs)
            if left_s <= 0 or count >= self._max_batch:
                return
            self._changed.wait(left_s)

    def _take(self) -> list[_Job]:
        """Takes the oldest item and those of its key out of the queue; items that nobody waits for go."""
        self._drop_cancelled()
        if not self._jobs:
            return []
        first = self._jobs[0].task
        batch = [job for job in self._jobs if job.task.goes_with(first)][: self._max_batch]
        taken = {id(job) for job in batch}
        self._jobs = deque(job for job in self._jobs if id(job) not in taken)
        return [job for job in batch if job.future.set_running_or_notify_cancel()]

    def _drop_cancelled(self) -> None:
        self._jobs = deque(job for job in self._jobs if not job.future.cancelled())


def _run(batch: Sequence[_Job]) -> None:
    """Answers all jobs; where a batch fails, each of it alone, so that one bad item spoils no other."""
    try:
        with wanted_while(lambda: any(job.future.is_wanted for job in batch)):
            results = batch[0].task.run([job.item for job in batch])
        answered = [*zip(batch, results, strict=True)]
    except BaseException as error:  # the worker outlives whatever a model raises
        if len(batch) == 1 or isinstance(error, StoppedError):
            for job in batch:
                job.future.set_exception(error)
            return
        for job in batch:
            _run([job])
        return
    for job, result in answered:
        job.future.set_result(result)
