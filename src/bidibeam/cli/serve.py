"""`bidibeam serve`."""

from __future__ import annotations

import logging
import os
import signal
import socket
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli import options
from bidibeam.cli.console import note, notice_if_slow, tell
from bidibeam.cli.inputs import count_cores, load_model
from bidibeam.errors import InputError, SettingsError
from bidibeam.serving.settings import TOLD, RequestLimits, ServerSettings

if TYPE_CHECKING:
    from collections.abc import Sequence


BUNDLED_NAME = "bidibeam"
"""What the small model that comes with the package is called."""
BACKLOG = 1024
"""Connections that may wait to be accepted."""
EXAMPLES = ("i have an exam tomorrow.", "what do you do for fun?", "hi, how are you?")
"""Sources for it to try."""

limits = options.together(
    *(
        options.option(
            f"--max-{each.name.replace('_', '-')}", each.metadata[TOLD], options.COUNT, each.default
        )
        for each in fields(RequestLimits)
    )
)
"""The most that one request may ask for."""


@click.command()
@options.model_argument
@options.option(
    "--model models",
    "A model by the name that clients ask for: a folder or name of one, or of a pair as REGULAR,REVERSE. May "
    "be repeated; the first answers where none is asked for.",
    "NAME=PATH",
    multiple=True,
)
@options.model
@options.vectors
@options.option(
    "--host", "The address to listen at; one that others reach needs a key.", default=ServerSettings.host
)
@options.option("--port", "0 takes any that is free.", click.IntRange(0, 65_535), 8000)
@options.option(
    "--api-key",
    "What clients send as Authorization: Bearer KEY.  [default: none, on this machine alone]",
    "KEY",
    envvar="BIDIBEAM_API_KEY",
    show_envvar=True,
)
@options.option(
    "--allowed-host allowed_hosts",
    "A name by which clients call the server, besides localhost and addresses. May be repeated.",
    "NAME",
    multiple=True,
)
@options.option(
    "--allowed-origin allowed_origins",
    "An origin of another page that may ask from a browser (CORS), such as https://example.org. May be "
    "repeated.",
    "ORIGIN",
    multiple=True,
)
@options.option(
    "--max-batch", "Sources that are searched together, at most.", options.COUNT, ServerSettings.max_batch
)
@options.option(
    "--max-wait-ms",
    "How long a source waits for others while the server is idle.",
    float,
    ServerSettings.max_wait_ms,
)
@options.option(
    "--queue", "Sources that wait; more are refused with 429.", options.COUNT, ServerSettings.queue
)
@options.option(
    "--timeout-s", "How long a request may take, its wait included.", float, ServerSettings.timeout_s
)
@options.option(
    "--example examples", "A source that the page offers to try. May be repeated.", "TEXT", multiple=True
)
@limits
@options.option("--log-texts logs_texts", "Let logs hold sources and replies.", bool)
@options.workers
def serve(
    model: str | None, models: tuple[str, ...], host: str, port: int, workers: int | None, **flags: Any
) -> None:
    """Answer over HTTP: a page that shows both beams, an API, and OpenAI's API.

    MODEL is what `bidibeam decode` takes; left out, it is the small model that comes with bidibeam. The page
    is at /, the description of the API at /docs. OpenAI's clients work with the address and /v1. Requests
    that arrive together are searched together. Logs go to stderr, one JSON object a request, without texts.

    \b
    bidibeam serve
    bidibeam serve runs/first --port 8080
    bidibeam serve bart --reverse bart-reverse
    bidibeam serve --model chat=runs/first --model de-en=marian,marian-reverse
    BIDIBEAM_API_KEY=... bidibeam serve runs/first --host 0.0.0.0
    curl localhost:8000/api/decode -H 'content-type: application/json' -d '{"source": "how are you?"}'
    """  # noqa: D301
    _require_server()
    from bidibeam.serving.app import create_app
    from bidibeam.serving.service import Service

    named = _name_models(model, models, flags)
    own_limits = RequestLimits(**{each.name: flags.pop(f"max_{each.name}") for each in fields(RequestLimits)})
    vectors = flags.pop("vectors")
    if BUNDLED_NAME in named and not flags["examples"]:
        flags["examples"] = EXAMPLES
    settings = ServerSettings(host=host, limits=own_limits, **flags)
    with _listen(host, port) as listening:  # also if a model cannot be loaded, it is let go
        loaded = {name: load_model(**given) for name, given in named.items()}
        service = Service(
            loaded, vectors=vectors, max_batch=settings.max_batch, workers=workers or count_cores()
        )
        with notice_if_slow("Making ready ..."):
            service.warm_up()
        tell(f"Serving {', '.join(loaded)} at {_address(listening)} (Ctrl-C ends).")
        _run(create_app(service, settings), listening)


def _require_server() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"The server needs {error.name}, which is not installed: pip install 'bidibeam[serve]'"
        ) from error


def _name_models(
    model: str | None, models: Sequence[str], flags: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Takes what names models out of a command's parameters: arguments of `load_model` by name."""
    regular, reverse = flags.pop("regular"), flags.pop("reverse")
    common = {name: flags.pop(name) for name in ("device", "dtype", "trust_remote_code", "device_map")}
    if models and (model or regular or reverse):
        raise click.UsageError("Give MODEL, or --regular and --reverse, or --model NAME=PATH, not several.")
    if model is not None and regular is not None:
        raise click.UsageError(f"--regular {regular} stands instead of MODEL, not beside {model}.")
    if not models:
        given = model or regular
        name = Path(given or reverse or BUNDLED_NAME).name or BUNDLED_NAME
        return {name: {"name": given, "reverse": reverse, **common}}
    named: dict[str, dict[str, Any]] = {}
    for each in models:
        name, equals, path = each.partition("=")
        if not (name and equals and path):
            raise click.UsageError(f"--model must be NAME=PATH, not {each!r}.")
        if name in named:
            raise click.UsageError(f"Two models are called {name!r}: give each a name of its own.")
        first, comma, second = path.partition(",")
        named[name] = {"name": first or None, "reverse": second if comma else None, **common}
    return named


def _listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens, before models are loaded.

    It says that it is of TCP: only then does asyncio send an answer's parts at once, and not 40 ms apart.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        number = socket.create_server((host, port), family=family, backlog=BACKLOG).detach()
        return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=number)
    except OSError as error:
        told = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror  # no address
        raise InputError(
            f"The server cannot listen at {host}, port {port}: {told}. Choose another --port or --host."
        ) from error


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _run(app: Any, listening: socket.socket) -> None:
    """Serves until a signal comes; then answers what was accepted, and returns."""
    import uvicorn

    from bidibeam.serving.telemetry import LogHandler

    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [LogHandler(app.state.server.log)], False
        logger.setLevel(logging.WARNING)
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False)
    for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises the signal again once it has ended
        signal.signal(number, lambda *_: None)
    uvicorn.Server(config).run(sockets=[listening])
    note("The server has ended; all that was accepted was answered.")
