"""What all routes share: the service, the worker, and how a request waits for its results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.concurrency import run_in_threadpool

from bidibeam.errors import BidibeamError
from bidibeam.serving.batching import Batcher
from bidibeam.serving.errors import LEFT, RequestError
from bidibeam.serving.telemetry import Log, Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastapi import Request

    from bidibeam.serving.batching import Task
    from bidibeam.serving.service import Service
    from bidibeam.serving.settings import ServerSettings

Result = TypeVar("Result")


class Server:
    """Takes the work of requests to the worker and brings back what becomes of it.

    Args:
        service: What can be asked for.
        settings: How it is served.
        log: Where requests and bugs are logged.
    """

    def __init__(self, service: Service, settings: ServerSettings, log: Log) -> None:
        self.service, self.settings, self.log = service, settings, log
        self.metrics = Metrics()
        self.batcher = Batcher(
            max_batch=settings.max_batch,
            max_wait_ms=settings.max_wait_ms,
            capacity=settings.queue,
            watch=self.metrics.watch,
        )
        self.metrics.watch_queue(self.batcher)

    async def prepare(self, make: Callable[..., Result], *given: Any) -> Result:
        """Returns what a call gives that may read files; it runs in a thread."""
        return await run_in_threadpool(make, *given)

    async def perform(self, request: Request, task: Task, items: Sequence[Any]) -> list[Any]:
        """Returns the results of all items.

        If the client leaves or the time is up, what has not begun never will, and what has stops at a step.

        Raises:
            RequestError: If the client leaves, the time is up, there is not enough memory, or it is a bug.
            BidibeamError: If an item cannot be worked on.
        """
        note(request, **task.facts)
        tickets = self.batcher.submit(task, items)
        futures = [*map(asyncio.wrap_future, tickets)]
        finishing = asyncio.ensure_future(asyncio.wait(futures))
        leaving = asyncio.ensure_future(_wait_until_gone(request))
        both: set[asyncio.Future[Any]] = {finishing, leaving}
        try:
            await asyncio.wait(both, timeout=self.settings.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (*both, *futures):  # those that are done stay so
                each.cancel()
            for ticket in tickets:
                ticket.give_up()
        if finishing.done() and not finishing.cancelled():
            return [self._read(future) for future in futures]
        if leaving.done() and not leaving.cancelled():
            self.metrics.dropped.inc()
            raise RequestError("The client left.", status=LEFT)
        raise RequestError(
            f"The answer took longer than {self.settings.timeout_s:g} s, the most on this server: ask for "
            "less at once, or a smaller beam.",
            status=504,
            code="timeout",
        )

    def _read(self, future: asyncio.Future[Any]) -> Any:
        """Returns a result, or raises what became of it instead; a bug is logged."""
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, BidibeamError):
            raise error
        name = type(error).__name__
        if isinstance(error, MemoryError) or name == "OutOfMemoryError":
            raise RequestError(
                "There is not enough memory for this: a smaller beam, or fewer sources, need less.",
                status=503,
                code="out_of_memory",
            ) from error
        self.log.write_bug(error)
        told = f"This is a bug of bidibeam or of the model ({name})."
        raise RequestError(told, status=500, code="internal_error") from error


def note(request: Request, **facts: Any) -> None:
    """Adds to what is logged of a request."""
    request.state.facts.update(facts)


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
