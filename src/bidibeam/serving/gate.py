"""What every request passes first: its host, its key and the size of its body; it is logged and counted."""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from bidibeam.serving.errors import error_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from bidibeam.serving.settings import ServerSettings
    from bidibeam.serving.telemetry import Log, Metrics

OPEN_PATHS = ("/", "/health", "/ready", "/docs", "/openapi.json")
"""What may be read without a key: it tells the models' names and the limits, and nothing that they say."""
DRAINED = 8
"""A body that is too large by no more than so many times is read to its end before it is refused."""
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Gate:
    """Lets a request pass or refuses it, gives it an id, and logs and counts it when it is answered.

    Args:
        app: What answers.
        settings: Who may ask, and how much.
        metrics: Where requests are counted.
        log: Where requests are logged.
    """

    def __init__(self, app: ASGIApp, *, settings: ServerSettings, metrics: Metrics, log: Log) -> None:
        self._app, self._settings, self._metrics, self._log = app, settings, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s, headers = time.monotonic(), Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid4().hex
        status = 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = MutableHeaders(scope=message)
                own["x-request-id"] = request_id
                own["x-content-type-options"] = "nosniff"
            await send(message)

        facts: dict[str, Any] = {}
        scope.setdefault("state", {})["facts"] = facts
        try:
            refusal = self._refuse(scope["path"], headers)
            if refusal is None:
                body = await self._read_body(headers, receive)
                if isinstance(body, Response):
                    refusal = body
                else:
                    receive = _replay(body, receive)
            await (refusal or self._app)(scope, receive, send_with_id)
        finally:
            self._report(scope, request_id, status, time.monotonic() - started_s, facts)

    def _refuse(self, path: str, headers: Headers) -> Response | None:
        """Returns the refusal of a request that may not be made at all."""
        if not self._settings.allows_host(headers.get("host", "")):
            return error_response(
                400,
                f"The Host header {headers.get('host', '')!r} is none by which this server is called: use "
                "its address, or start it with --allowed-host.",
                code="invalid_host",
            )
        key = self._settings.api_key
        if key is None or path in OPEN_PATHS:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), key.encode()):
            return None
        told = "is not the server's" if given else "is missing"
        return error_response(
            401,
            f"The API key {told}: send it as Authorization: Bearer KEY.",
            code="invalid_api_key",
            headers={"www-authenticate": "Bearer"},
        )

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes | Response:
        """Returns the whole body, or the refusal of one that is too large or too slow.

        One that is a little too large is read all the same: clients listen only once they have sent all.
        """
        most = self._settings.limits.body_bytes
        told = headers.get("content-length", "0")
        size, read, parts = int(told) if told.isdecimal() else 0, 0, list[bytes]()
        has_more = size <= DRAINED * most
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                while has_more:
                    message = await receive()
                    parts.append(message.get("body", b""))
                    read += len(parts[-1])
                    if max(size, read) > most:
                        parts.clear()
                    has_more = message.get("more_body", False) and read <= DRAINED * most
        except TimeoutError:
            return error_response(408, f"The body did not come within {self._settings.timeout_s:g} s.")
        if max(size, read) <= most:
            return b"".join(parts)
        return error_response(
            413,
            f"The body has more than {most:,} bytes, the most on this server: send less at once.",
            headers={"connection": "close"},
        )

    def _report(
        self, scope: Scope, request_id: str, status: int, seconds: float, facts: dict[str, Any]
    ) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD", "OPTIONS") else "other"
        self._metrics.requests.labels(route, method, str(status)).inc()
        self._metrics.durations.labels(route).observe(seconds)
        texts = facts.pop("texts", None)
        self._log.write(
            "request",
            id=request_id,
            method=method,
            route=route,
            status=status,
            duration_ms=round(1000 * seconds, 1),
            texts=texts,
            **facts,
        )


def _replay(body: bytes, receive: Receive) -> Receive:
    """Returns a `receive` that gives a body that was read already, and then what comes behind it."""
    is_read = False

    async def receive_again() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
