"""What people and operators look at: the page, the description of the API, health and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from bidibeam._version import __version__
from bidibeam.reporting.page import render_page
from bidibeam.serving.errors import error_response, json_response
from bidibeam.serving.reference import render_reference
from bidibeam.serving.service import Asked
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies.settings import DEFAULT_SYSTEM

if TYPE_CHECKING:
    from bidibeam.serving.server import Server

OFFERED = (
    DEFAULT_SYSTEM,
    "bidis",
    "bidia",
    "bidia either",
    "loglinear",
    "loglinear both",
    "mbr",
    "vbs",
    "reverse-vbs",
    "longest",
)
"""The systems that the page offers by name; the API takes any."""
NOT_FRAMED = {"content-security-policy": "frame-ancestors 'none'", "referrer-policy": "no-referrer"}


def make_pages(server: Server) -> APIRouter:
    """Returns the routes."""
    router, batcher = APIRouter(tags=["operations"]), server.batcher
    whole_page = render_page([], server=describe_server(server))

    @router.get("/", include_in_schema=False)
    async def page() -> Response:
        """Shows the page; it holds nothing of the models but their names."""
        return HTMLResponse(whole_page, headers=NOT_FRAMED)

    @router.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        """Describes the API to people."""
        base = str(request.base_url)
        reference = render_reference(request.app.openapi(), server.settings.limits, base)
        return HTMLResponse(reference, headers=NOT_FRAMED)

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
            return json_response({"status": "ready"})
        return error_response(503, "The server is shutting down.")

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Returns counters and histograms as Prometheus reads them."""
        return Response(server.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router


def describe_server(server: Server) -> dict[str, Any]:
    """Returns what the page offers."""
    limits, models = server.settings.limits, [*server.service.models]
    return {
        "models": models,
        "default": server.service.decode(Asked(models[0])).facts["strategy"] if models else "",
        "strategies": [*OFFERED],
        "similarities": SIMILARITIES.names(),
        "examples": [*server.settings.examples],
        "limits": {"beam_size": limits.beam_size, "source_characters": limits.source_characters},
        "version": __version__,
    }
