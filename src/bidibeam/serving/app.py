"""The application: our own API and OpenAI's, each route a few lines between a request and the worker."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response, StreamingResponse

from bidibeam._version import __version__
from bidibeam.serving.errors import RESPONSES, RequestError, handle_errors, json_response
from bidibeam.serving.gate import Gate
from bidibeam.serving.openai import (
    ChatRequest,
    CompletionJob,
    CompletionRequest,
    describe_model,
    describe_models,
    stream_events,
)
from bidibeam.serving.pages import make_pages
from bidibeam.serving.reference import describe_limits
from bidibeam.serving.requests import (
    DecodeRequest,
    ExplainRequest,
    RankRequest,
    RepliesResponse,
    check_sources,
    read_lists,
    write_replies,
)
from bidibeam.serving.server import Server, note
from bidibeam.serving.telemetry import Log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bidibeam.serving.service import Service
    from bidibeam.serving.settings import ServerSettings

EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {}}, "application/json": {}}}
}
"""What OpenAPI says of answers that may be streams."""


def create_app(service: Service, settings: ServerSettings, log: Log | None = None) -> FastAPI:
    """Returns the application; when it shuts down, what was accepted is answered first."""
    server = Server(service, settings, log or Log(has_texts=settings.logs_texts))

    @asynccontextmanager
    async def run_until_shutdown(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(server.batcher.close, settings.timeout_s)  # nobody waits for longer

    app = FastAPI(
        title="bidibeam",
        version=__version__,
        summary="Decodes from both ends.",
        docs_url=None,  # FastAPI's own page loads its scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=run_until_shutdown,
    )
    app.state.server = server
    app.add_middleware(Gate, settings=settings, metrics=server.metrics, log=server.log)
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[*settings.allowed_origins],
            allow_methods=["GET", "POST"],
            allow_headers=["*"],  # clients of OpenAI send some of their own
        )
    for make in (make_api, make_openai_api, make_pages):
        app.include_router(make(server), responses=RESPONSES)
    handle_errors(app)
    describe_limits(app.openapi(), [*service.models], settings.limits)  # which FastAPI keeps
    return app


def make_api(server: Server) -> APIRouter:
    """Returns our own routes."""
    router, service, limits = (
        APIRouter(prefix="/api", tags=["bidibeam"]),
        server.service,
        server.settings.limits,
    )

    @router.post("/decode", response_model=RepliesResponse)
    async def decode(request: Request, body: DecodeRequest) -> Response:
        """Answers one source or many, with n-best lists and scores on request."""
        sources = body.read_sources(limits)
        note(request, sources=len(sources), texts={"source": sources})
        task = await server.prepare(
            service.decode, body.to_asked(service, limits, replies_only=not body.n_best)
        )
        answers = await server.perform(request, task, sources)
        note(request, texts={"source": sources, "reply": [answer.text for answer in answers]})
        return json_response(write_replies(answers, task.facts, n_best=body.n_best, scores=body.scores))

    @router.post("/explain")
    async def explain(request: Request, body: ExplainRequest) -> Response:
        """Returns both beams of a source or a list, their similarities, and each strategy's choice."""
        if (body.source is None) == (body.list is None):
            raise RequestError("Give source, a string, or list, an n-best object, and not both.", "source")
        if body.source is None:
            lists = await server.prepare(read_lists, [body.list or {}], limits, "list")
            note(request, lists=1)
            task = await server.prepare(service.explain_lists, body.to_selection(), lists)
            return json_response((await server.perform(request, task, lists))[0])
        check_sources([body.source], limits)
        note(request, sources=1, texts={"source": [body.source]})
        task = await server.prepare(service.explain, body.to_asked(service, limits, replies_only=False))
        return json_response((await server.perform(request, task, [body.source]))[0])

    @router.post("/rank", response_model=RepliesResponse)
    async def rank(request: Request, body: RankRequest) -> Response:
        """Ranks n-best lists from anywhere; no model is needed."""
        lists = await server.prepare(read_lists, body.lists, limits)
        note(request, lists=len(lists))
        task = await server.prepare(service.rank, body.to_selection(), lists)
        answers = await server.perform(request, task, lists)
        return json_response(write_replies(answers, task.facts, n_best=body.n_best, with_ids=True))

    return router


def make_openai_api(server: Server) -> APIRouter:
    """Returns the routes of OpenAI's clients."""
    router, service, limits = APIRouter(prefix="/v1", tags=["OpenAI"]), server.service, server.settings.limits

    async def complete(request: Request, body: ChatRequest | CompletionRequest) -> Response:
        sources, is_chat = body.read_sources(limits), isinstance(body, ChatRequest)
        note(request, sources=len(sources), texts={"source": sources})
        asked = body.to_asked(service, limits)
        answering = await server.prepare(service.decode, asked)
        job = CompletionJob(service.models[asked.model], answering, is_chat, body.count, body.with_log_probs)
        whole = job.assemble(await server.perform(request, job.task(), sources))
        note(request, texts={"source": sources, "reply": job.read_replies(whole)})
        if not body.stream:
            return json_response(whole)
        with_usage = bool(body.stream_options and body.stream_options.include_usage)
        events = stream_events(whole, with_usage=with_usage)
        return StreamingResponse(
            events, media_type="text/event-stream", headers={"cache-control": "no-cache"}
        )

    @router.post("/chat/completions", responses=EVENTS)
    async def chat_completions(request: Request, body: ChatRequest) -> Response:
        """Answers the last message of the user; earlier messages are not read, as models have no memory."""
        return await complete(request, body)

    @router.post("/completions", responses=EVENTS)
    async def completions(request: Request, body: CompletionRequest) -> Response:
        """Answers a prompt or several, each a source."""
        return await complete(request, body)

    @router.get("/models")
    async def models() -> dict[str, Any]:
        """Lists the models."""
        return describe_models(service)

    @router.get("/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        """Describes a model."""
        return describe_model(service.find_model(name))

    return router
