"""What operators see: Prometheus metrics, and logs of one JSON object a request."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

from bidibeam._version import __version__

if TYPE_CHECKING:
    from typing import TextIO

    from bidibeam.serving.batching import Batcher

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counts what the server does; labels are closed sets, never texts or ids."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        kind: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter(
            "bidibeam_requests_total",
            "Requests by route, method and status.",
            ["route", "method", "status"],
            **kind,
        )
        self.durations = Histogram(
            "bidibeam_request_duration_seconds",
            "From the first byte to the last.",
            ["route"],
            buckets=SECONDS,
            **kind,
        )
        self.waits = Histogram(
            "bidibeam_queue_duration_seconds", "How long sources waited.", buckets=SECONDS, **kind
        )
        self.batches = Histogram(
            "bidibeam_batch_rows", "Sources or lists of a call.", ["kind"], buckets=ROWS, **kind
        )
        self.sources = Counter("bidibeam_sources_total", "Sources and lists answered.", ["kind"], **kind)
        self.dropped = Counter("bidibeam_requests_dropped_total", "Requests whose client left.", **kind)
        self.waiting = Gauge("bidibeam_sources_waiting", "Sources that wait.", **kind)
        self.running = Gauge("bidibeam_sources_running", "Sources being worked on.", **kind)
        Info("bidibeam_build", "The version.", **kind).info({"version": __version__})

    def watch(self, kind: str, waits_s: list[float]) -> None:
        """Counts a call of the worker."""
        self.batches.labels(kind).observe(len(waits_s))
        self.sources.labels(kind).inc(len(waits_s))
        for wait_s in waits_s:
            self.waits.observe(wait_s)

    def watch_queue(self, batcher: Batcher) -> None:
        """Reads how many sources wait, and are worked on, whenever metrics are read."""
        self.waiting.set_function(lambda: batcher.waiting)
        self.running.set_function(lambda: batcher.running)

    def text(self) -> bytes:
        """Returns all of it in Prometheus' format."""
        return generate_latest(self.registry)


class Log:
    """Writes one JSON object a line.

    Args:
        stream: Where to; stderr by default.
        has_texts: Whether `texts` of a line are written.
    """

    def __init__(self, stream: TextIO | None = None, *, has_texts: bool = False) -> None:
        self._stream, self._has_texts = stream, has_texts

    def write_bug(self, error: BaseException) -> None:
        """Writes a bug of ours or a model's; its message may hold a text, so it is written if those are."""
        trace = traceback.extract_tb(error.__traceback__)
        place = f"{trace[-1].filename}:{trace[-1].lineno}" if trace else None
        told = " ".join(str(error).split())
        self.write("bug", kind=type(error).__name__, place=place, texts={"message": told})

    def write(self, event: str, *, texts: dict[str, Any] | None = None, **facts: Any) -> None:
        """Writes a line."""
        now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        line = {"time": f"{now}Z", "event": event, **facts, **((texts or {}) if self._has_texts else {})}
        print(json.dumps(line), file=self._stream or sys.stderr, flush=True)


class LogHandler(logging.Handler):
    """Writes what the web server's own library logs as lines of the same kind."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line."""
        self._log.write(record.name, level=record.levelname.lower(), message=record.getMessage())
