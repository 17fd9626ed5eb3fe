"""What goes wrong with a request: the statuses that are documented, and OpenAI's shape for all of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bidibeam.errors import BidibeamError, SettingsError
from bidibeam.interchange.text_lines import to_line
from bidibeam.serving.batching import ClosedError, QueueFullError

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

INVALID, SERVER = "invalid_request_error", "server_error"
STATUSES = {
    400: (INVALID, "The request is malformed, or asks for what there is not."),
    401: ("authentication_error", "The API key is missing or wrong."),
    404: (INVALID, "There is no such model or route."),
    405: (INVALID, "The route has other methods."),
    408: ("timeout_error", "The body came too slowly."),
    413: (INVALID, "The body is too large."),
    429: ("rate_limit_error", "The queue is full; Retry-After says when to come back."),
    503: (SERVER, "The server is shutting down, or out of memory."),
    504: ("timeout_error", "The answer took longer than the server allows."),
}
"""The statuses of errors: what OpenAI calls the type, and what it means."""
LEFT = 499
"""What logs say of a client that left; nobody receives it."""
LONGEST_VALUE = 60
KIND = re.compile(r"str|bool|int|float|constrained-.*|(?:list|dict)\[.*")
"""What pydantic puts behind the place of a value that may be of several types."""


class RequestError(BidibeamError):
    """A request that cannot be answered, and the field that is to blame."""

    def __init__(
        self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.param, self.status, self.code = param, status, code


class ErrorBody(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """Any answer but 200."""

    error: ErrorBody


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": told} for status, (_, told) in STATUSES.items()
}
"""What OpenAPI says of every route's errors."""


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Returns JSON; half a surrogate pair, which UTF-8 cannot carry, is escaped."""
    return Response(to_line(value), status, headers, "application/json")


def error_response(
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """Returns an error in the shape that all routes share."""
    kind, _ = STATUSES.get(status, (SERVER if status >= 500 else INVALID, ""))
    content = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return json_response(content, status, headers)


def handle_errors(app: FastAPI) -> None:
    """Lets every error have that shape, and a status that is documented."""

    @app.exception_handler(BidibeamError)
    async def refuse(_request: Request, error: BidibeamError) -> Response:
        if isinstance(error, RequestError):
            return error_response(error.status, str(error), param=error.param, code=error.code)
        told = str(error).replace("lambda_", "lambda")  # which Python keeps for itself, and JSON does not
        return error_response(
            400, told, param=(getattr(error, "setting", None) or "").partition(" ")[0] or None
        )

    @app.exception_handler(QueueFullError)
    async def tell_full(_request: Request, error: QueueFullError) -> Response:
        told = f"The queue is full: try again in {error.retry_after_s} s."
        return error_response(429, told, code="queue_full", headers={"retry-after": str(error.retry_after_s)})

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
            400: "The body is no JSON that can be read: not UTF-8, too deep, or with too long a number.",
        }
        headers = None if error.headers is None else dict(error.headers)
        return error_response(
            error.status_code, told.get(error.status_code, str(error.detail)), headers=headers
        )

    @app.exception_handler(Exception)
    async def tell_bug(request: Request, error: Exception) -> Response:
        request.app.state.server.log.write_bug(error)
        return error_response(500, "This is a bug of bidibeam.", code="internal_error")


def _describe(error: RequestValidationError) -> tuple[str, str | None]:
    """Returns the first thing that is wrong with a body, in a sentence, and the field it is about."""
    first = error.errors()[0]
    parts = [str(part) for part in first["loc"][1:]]
    place = ".".join(part for part in parts if not KIND.fullmatch(part))
    if first["type"] == "json_invalid":
        return f"The body is not JSON: {first.get('ctx', {}).get('error', first['msg'])}.", None
    if not place:
        return "The body must be a JSON object, with the content type application/json.", None
    value = repr(first.get("input"))
    shown = value if len(value) <= LONGEST_VALUE else f"{value[: LONGEST_VALUE - 3]}..."
    if first["type"] == "extra_forbidden":
        return f"There is no field {place!r} here.", place
    if first["type"] == "missing":
        return f"The field {place!r} is missing.", place
    if first["type"] == "value_error":
        return f"{place} must be {first['ctx']['error']}, not {shown}.", place
    if KIND.fullmatch(parts[-1]):  # of several that it may be of, it is of none
        return f"{place} is of another type than it may have, received {shown}.", place
    if first["type"] == "string_pattern_mismatch":
        told = "a name here has no colon (package.module:name would run code) and no control characters"
        return f"{place}: {told}, received {shown}.", place
    told = first["msg"][0].lower() + first["msg"][1:]
    return f"{place}: {told}, received {shown}.", place


def setting_error(error: BidibeamError, param: str) -> RequestError:
    """Returns an error of the library as one of a request's field."""
    known = error.setting if isinstance(error, SettingsError) else None
    return RequestError(str(error), known or param)
