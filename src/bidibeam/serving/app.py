"""The routes of the server: the page, our own API, OpenAI's, and what operators ask."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from bidibeam._version import __version__
from bidibeam.decoding.explaining import system_of
from bidibeam.errors import BidibeamError
from bidibeam.reporting.page import render_page
from bidibeam.serving.batching import Batcher, ClosedError, QueueFullError
from bidibeam.serving.gate import Gate, error_response, json_response
from bidibeam.serving.openai import (
    ChatRequest,
    Completion,
    CompletionRequest,
    describe_model,
    describe_models,
    stream_events,
)
from bidibeam.serving.reference import describe_limits, render_reference
from bidibeam.serving.requests import (
    SEARCH,
    DecodeRequest,
    ErrorResponse,
    ExplainRequest,
    RankRequest,
    Replies,
    check_sources,
    read_lists,
    write_replies,
)
from bidibeam.serving.service import RequestError, Service
from bidibeam.serving.telemetry import Log, Metrics
from bidibeam.similarities import SIMILARITIES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from bidibeam.serving.batching import Work
    from bidibeam.serving.settings import ServerSettings

Result = TypeVar("Result")
STATUSES = {
    400: "The request is malformed, or asks for what there is not.",
    401: "The API key is missing or wrong.",
    404: "There is no such model or route.",
    405: "The route has other methods.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    429: "The queue is full; Retry-After says when to come back.",
    503: "The server is shutting down, or out of memory.",
    504: "The answer took longer than the server allows.",
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": told} for status, told in STATUSES.items()
}
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {}}, "application/json": {}}}
}
OFFERED = ("bidis", "bidia", "bidia either", "loglinear", "mbr", "vbs", "reverse-vbs", "longest")
"""The systems that the page offers by name; the API takes any."""
NOT_FRAMED = {"content-security-policy": "frame-ancestors 'none'", "referrer-policy": "no-referrer"}
LEFT = 499
"""What logs say of a client that left; nobody receives it."""


class Server:
    """What the routes share: the service, the batcher, and how a request waits for its results."""

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

    async def perform(self, request: Request, work: Work, items: Sequence[Any]) -> list[Any]:
        """Returns the results of all items; the request is dropped if its client leaves."""
        futures = self.batcher.submit(work, items)
        results = asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
        leaving = asyncio.ensure_future(_wait_until_gone(request))
        both: set[asyncio.Future[Any]] = {results, leaving}
        try:
            await asyncio.wait(both, timeout=self.settings.timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if results.done():
                return [self._check(each) for each in results.result()]
            if leaving.done():
                self.metrics.dropped.inc()
                raise RequestError("The client left.", status=LEFT)
            raise RequestError(
                f"The answer took longer than {self.settings.timeout_s:g} s, the most on this server: ask "
                "for less at once, or a smaller beam.",
                status=504,
                code="timeout",
            )
        finally:
            leaving.cancel()
            results.cancel()
            for future in futures:  # what has not begun never will
                future.cancel()

    def _check(self, result: Any) -> Any:
        """Returns a result; an error of the work is raised, and one that is a bug is logged."""
        if not isinstance(result, BaseException):
            return result
        if isinstance(result, BidibeamError):
            raise result
        name, told = type(result).__name__, " ".join(str(result).split())
        if isinstance(result, MemoryError) or name == "OutOfMemoryError":
            raise RequestError(
                "There is not enough memory for this: a smaller beam, or fewer sources, need less.",
                status=503,
                code="out_of_memory",
            ) from result
        self.log.write("error", kind=name, message=told)
        raise RequestError(
            f"This is a bug of bidibeam or of the model ({name}).", status=500, code="internal_error"
        ) from result


def create_app(service: Service, settings: ServerSettings, log: Log | None = None) -> FastAPI:
    """Returns the application; when it shuts down, what was accepted is answered first."""
    server = Server(service, settings, log or Log(has_texts=settings.logs_texts))

    @asynccontextmanager
    async def run_until_shutdown(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(server.batcher.close)

    app = FastAPI(
        title="bidibeam",
        version=__version__,
        summary="Decodes from both ends.",
        docs_url=None,  # FastAPI's own page loads its scripts from elsewhere
        redoc_url=None,
        lifespan=run_until_shutdown,
    )
    app.state.server = server
    app.add_middleware(Gate, settings=settings, metrics=server.metrics, log=server.log)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[*settings.allowed_origins],
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    for make in (make_api, make_openai_api, make_operations):
        app.include_router(make(server), responses=RESPONSES)
    _handle_errors(app)
    describe_limits(app.openapi(), [*service.models], settings.limits)  # which FastAPI keeps
    return app


def make_api(server: Server) -> APIRouter:
    """Returns our own routes."""
    router, service, limits = (
        APIRouter(prefix="/api", tags=["bidibeam"]),
        server.service,
        server.settings.limits,
    )

    @router.post("/decode", response_model=Replies, response_model_exclude_none=True)
    async def decode(request: Request, body: DecodeRequest) -> Any:
        """Answers one source or many, with n-best lists and scores on request."""
        sources = body.read_sources(limits)
        asked = body.asked(service, limits, replies_only=not body.n_best)
        work = await server.prepare(service.decode, asked)
        answers = await server.perform(request, work, sources)
        decoder = service.decoder(asked)
        texts = {"source": sources, "reply": [answer.text for answer in answers]}
        _note(request, model=asked.model, strategy=decoder.system, sources=len(sources), texts=texts)
        return write_replies(
            answers,
            n_best=body.n_best,
            scores=body.scores,
            model=asked.model,
            strategy=decoder.system,
            signature=str(decoder.signature),
        )

    @router.post("/explain")
    async def explain(request: Request, body: ExplainRequest) -> Response:
        """Returns both beams of a source or a list, their similarities, and each strategy's choice."""
        if (body.source is None) == (body.list is None):
            raise RequestError("Give source, a string, or list, an n-best object, and not both.", "source")
        if body.source is not None:
            check_sources([body.source], limits)
            asked = body.asked(service, limits, replies_only=False)
            _note(request, model=asked.model, sources=1, texts={"source": [body.source]})
            work = await server.prepare(service.explain, asked)
            (document,) = await server.perform(request, work, [body.source])
        else:
            lists = read_lists([body.list or {}], limits, "list")
            _note(request, lists=1)
            work = await server.prepare(service.explain_lists, body.selection(), lists)
            (document,) = await server.perform(request, work, lists)
        return json_response(document)

    @router.post("/rank", response_model=Replies, response_model_exclude_none=True)
    async def rank(request: Request, body: RankRequest) -> Any:
        """Ranks n-best lists from anywhere; no model is needed."""
        lists = read_lists(body.lists, limits)
        _note(request, lists=len(lists))
        work = await server.prepare(service.rank, body.selection(), lists)
        answers = await server.perform(request, work, lists)
        strategy, _ = service.strategy_for(body.selection(), lists)
        facts: dict[str, Any] = {"strategy": system_of(strategy), "signature": str(strategy.signature)}
        return write_replies(answers, n_best=body.n_best, with_ids=True, **facts)

    return router


def make_openai_api(server: Server) -> APIRouter:
    """Returns the routes of OpenAI's clients."""
    router, service, limits = APIRouter(prefix="/v1", tags=["OpenAI"]), server.service, server.settings.limits

    async def complete(
        request: Request, body: ChatRequest | CompletionRequest, sources: list[str]
    ) -> Response:
        is_chat = isinstance(body, ChatRequest)
        with_log_probs = bool(body.logprobs) if is_chat else body.logprobs is not None
        asked = body.asked_for(service, limits, needs_list=with_log_probs)
        completion = Completion(service, asked, is_chat, body.n, with_log_probs)
        work = await server.prepare(completion.work)
        whole = completion.assemble(await server.perform(request, work, sources))
        replies = [choice["message"]["content"] if is_chat else choice["text"] for choice in whole["choices"]]
        _note(request, model=asked.model, sources=len(sources), texts={"source": sources, "reply": replies})
        if not body.stream:
            return json_response(whole)
        with_usage = body.stream_options is not None and body.stream_options.include_usage
        events = stream_events(whole, with_usage=with_usage)
        return StreamingResponse(
            events, media_type="text/event-stream", headers={"cache-control": "no-cache"}
        )

    @router.post("/chat/completions", responses=EVENTS)
    async def chat_completions(request: Request, body: ChatRequest) -> Response:
        """Answers the last message of the user; earlier messages are not read, as models have no memory."""
        return await complete(request, body, [body.read_source(limits)])

    @router.post("/completions", responses=EVENTS)
    async def completions(request: Request, body: CompletionRequest) -> Response:
        """Answers a prompt or several, each a source."""
        return await complete(request, body, body.read_sources(limits))

    @router.get("/models")
    async def models() -> dict[str, Any]:
        """Lists the models."""
        return describe_models(service)

    @router.get("/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        """Describes a model."""
        return describe_model(service.find_model(name))

    return router


def make_operations(server: Server) -> APIRouter:
    """Returns the page, and what operators ask."""
    router, batcher = APIRouter(tags=["operations"]), server.batcher
    whole_page = render_page([], server=describe_server(server))

    @router.get("/", include_in_schema=False)
    async def page() -> Response:
        """Shows the page; it holds nothing of the models but their names."""
        return HTMLResponse(whole_page, headers=NOT_FRAMED)

    @router.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        """Describes the API to people."""
        return HTMLResponse(
            render_reference(request.app.openapi(), STATUSES, str(request.base_url)), headers=NOT_FRAMED
        )

    @router.get("/health")
    async def health() -> Response:
        """Says whether the worker works."""
        if batcher.is_alive or not batcher.is_open:
            return json_response({"status": "ok"})
        return error_response(503, "The worker has died: start the server again.")

    @router.get("/ready")
    async def ready() -> Response:
        """Says whether requests are accepted."""
        if batcher.is_open and batcher.is_alive:
            return json_response({"status": "ready", "models": [*server.service.models]})
        return error_response(503, "The server is shutting down.")

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Returns counters and histograms as Prometheus reads them."""
        return Response(server.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router


def describe_server(server: Server) -> dict[str, Any]:
    """Returns what the page offers."""
    limits = server.settings.limits
    return {
        "models": [*server.service.models],
        "strategies": [*OFFERED],
        "similarities": SIMILARITIES.names(),
        "examples": [*server.settings.examples],
        "limits": {
            "beam_size": limits.beam_size,
            "max_length": limits.max_length,
            "source_characters": limits.source_characters,
        },
        "version": __version__,
    }


def _note(request: Request, **facts: Any) -> None:
    """Adds to what is logged of a request."""
    request.state.facts.update(facts)


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _handle_errors(app: FastAPI) -> None:
    """Lets every error have OpenAI's shape, and a status that is documented."""

    @app.exception_handler(RequestError)
    async def refuse(_request: Request, error: RequestError) -> Response:
        return error_response(error.status, str(error), param=error.param, code=error.code)

    @app.exception_handler(BidibeamError)
    async def refuse_settings(_request: Request, error: BidibeamError) -> Response:
        word = re.match(r"`?(\w+)", str(error))
        param = word[1] if word is not None and word[1] in SEARCH else None
        return error_response(400, str(error), param=param)

    @app.exception_handler(QueueFullError)
    async def tell_full(_request: Request, error: QueueFullError) -> Response:
        return error_response(
            429,
            f"The queue is full: try again in {error.retry_after_s} s.",
            code="queue_full",
            headers={"retry-after": str(error.retry_after_s)},
        )

    @app.exception_handler(ClosedError)
    async def tell_closed(_request: Request, _error: ClosedError) -> Response:
        return error_response(503, "The server is shutting down.", code="shutting_down")

    @app.exception_handler(RequestValidationError)
    async def refuse_body(_request: Request, error: RequestValidationError) -> Response:
        message, param = _describe(error)
        return error_response(400, message, param=param)

    @app.exception_handler(HTTPException)
    async def refuse_route(request: Request, error: HTTPException) -> Response:
        told = {
            404: f"There is nothing at {request.url.path}.",
            405: f"{request.method} is not allowed here.",
        }
        headers = None if error.headers is None else dict(error.headers)
        return error_response(
            error.status_code, told.get(error.status_code, str(error.detail)), headers=headers
        )

    @app.exception_handler(Exception)
    async def tell_bug(request: Request, error: Exception) -> Response:
        request.app.state.server.log.write("error", kind=type(error).__name__, message=str(error))
        return error_response(500, "This is a bug of bidibeam.", code="internal_error")


def _describe(error: RequestValidationError) -> tuple[str, str | None]:
    """Returns the first thing that is wrong with a body, in a sentence, and the field it is about."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:])
    if first["type"] == "json_invalid":
        return f"The body is not JSON: {first.get('ctx', {}).get('error', first['msg'])}.", None
    if not place:
        return f"The body must be a JSON object with content type application/json: {first['msg']}.", None
    value = repr(first.get("input"))
    shown = value if len(value) <= 60 else f"{value[:57]}..."
    if first["type"] == "extra_forbidden":
        return f"There is no field {place!r} here.", place
    if first["type"] == "missing":
        return f"The field {place!r} is missing.", place
    told = first["msg"][0].lower() + first["msg"][1:]
    return f"{place}: {told}, received {shown}.", place
