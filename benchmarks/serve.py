"""How many requests a server of this machine answers, and how soon, beside one `decode` of the same sources.

    python benchmarks/serve.py [--model RUN] [--requests 400] [--soak 5000] [--out FILE]

It starts `bidibeam serve` at 127.0.0.1, with batching and without, and asks it from 1, 8 and 32 clients, each
of which sends its next request once the last is answered. Clients and server share the machine's cores. Then
--soak requests from 32 clients show that none is lost, and what memory the server takes. The sources are the
first of the chitchat corpus, each different. Nothing but this machine is asked.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from statistics import quantiles
from threading import local
from typing import Any

import click
import torch

from bidibeam import __version__
from bidibeam.data.corpora import CORPORA

CLIENTS = (1, 8, 32)
BATCHES = {"on": 16, "off": 1}
MOST_REQUESTS = 100_000
LOCAL = "127.0.0.1"
BIDIBEAM = [sys.executable, "-m", "bidibeam"]
STEPS = 5
"""How often memory is read while the last requests are sent."""


@click.command(help=__doc__)
@click.option(
    "--model", type=click.Path(exists=True, path_type=Path), help="A run; else the model in the box."
)
@click.option("--requests", "count", type=click.IntRange(8, MOST_REQUESTS), default=400, show_default=True)
@click.option("--soak", type=click.IntRange(0, MOST_REQUESTS), default=5000, show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def main(model: Path | None, count: int, soak: int, out: Path | None) -> None:
    """Measure, print."""
    turns = (turn.text for said in CORPORA.create("chitchat").read(None) for turn in said.utterances)
    sources = [*islice(dict.fromkeys(text for text in turns if text.strip()), max(count, soak))]
    rows = [measure_decode(model, sources[:count])]
    tell(rows[0])
    for batching, size in BATCHES.items():
        with serve(model, "--max-batch", size) as server:
            server.ask_all(sources[:40], 8)  # kernels are compiled, memory is there
            for clients in CLIENTS:
                rows.append({"what": f"batching {batching}", "clients": clients})
                rows[-1] |= server.measure(sources[:count], clients)
                tell(rows[-1])
    lasting: dict[str, Any] = {}
    if soak:
        with serve(model) as server:
            lasting = server.last(sources[:soak])
            click.echo(f"{lasting['answered']} of {soak} answered; MiB of memory: {lasting['memory_mib']}")
    if out is not None:
        signature = {
            "bidibeam": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "processor": platform.processor() or platform.machine(),
            "model": str(model or "bundled"),
            "requests": count,
        }
        content = {"signature": signature, "rows": rows, "lasting": lasting}
        out.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def tell(row: dict[str, Any]) -> None:
    """Print a row."""
    click.echo("  ".join(f"{name} {value}" for name, value in row.items()))


def measure_decode(model: Path | None, sources: Sequence[str]) -> dict[str, Any]:
    """One call of `bidibeam decode`, without the time that it takes for a single source."""
    alone, together = (time_decode(model, given) for given in (sources[:1], sources))
    return {"what": "decode", "per_s": round((len(sources) - 1) / (together - alone), 1)}


def time_decode(model: Path | None, sources: Sequence[str]) -> float:
    """The seconds of a whole call."""
    command = [*BIDIBEAM, "decode", *([str(model)] if model else [])]
    began = time.perf_counter()
    text = "".join(f"{source}\n" for source in sources)
    subprocess.run(command, input=text, text=True, check=True, capture_output=True)
    return time.perf_counter() - began


class Server:
    """A server of this machine, and many clients that ask it."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process, self._port, self._own = process, port, local()

    def ask(self, source: str) -> float:
        """Ask for a reply; the seconds until it is there."""
        connection = getattr(self._own, "connection", None)
        if connection is None:  # each client keeps its own
            connection = self._own.connection = HTTPConnection(LOCAL, self._port, timeout=120)
        body = json.dumps({"source": source}).encode()
        began = time.perf_counter()
        connection.request("POST", "/api/decode", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        content = json.loads(answer.read())
        if answer.status != 200 or len(content["replies"]) != 1:
            raise click.ClickException(f"{answer.status}: {content}")
        return time.perf_counter() - began

    def ask_all(self, sources: Sequence[str], clients: int) -> list[float]:
        """Ask for all replies, by so many clients at once."""
        with ThreadPoolExecutor(clients) as pool:
            return [*pool.map(self.ask, sources)]

    def measure(self, sources: Sequence[str], clients: int) -> dict[str, Any]:
        """Requests a second, and percentiles of the time for one."""
        began = time.perf_counter()
        times = self.ask_all(sources, clients)
        per_s = len(sources) / (time.perf_counter() - began)
        cuts = quantiles(times, n=100)
        shown = {f"p{place}_ms": round(1000 * cuts[place - 1], 1) for place in (50, 95, 99)}
        return {"per_s": round(per_s, 1), **shown}

    def last(self, sources: Sequence[str]) -> dict[str, Any]:
        """Ask for many replies; how many came, and the memory of the server at each fifth of them."""
        answered, memory = 0, [self.read_memory()]
        step = -(-len(sources) // STEPS)
        for start in range(0, len(sources), step):
            answered += len(self.ask_all(sources[start : start + step], max(CLIENTS)))
            memory.append(self.read_memory())
        return {"requests": len(sources), "answered": answered, "memory_mib": memory}

    def read_memory(self) -> int:
        """The server's resident memory in MiB."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) // 1024
        raise click.ClickException("This system does not say how much memory a process has.")


@contextmanager
def serve(model: Path | None, *options: object) -> Iterator[Server]:
    """A server at a port that is free, for as long as the block runs."""
    command = [*BIDIBEAM, "serve", *([str(model)] if model else []), "--port", "0", *map(str, options)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next((line for line in process.stderr if " at http://" in line), "")
        port = int(line.partition(f"http://{LOCAL}:")[2].split()[0])
        with ThreadPoolExecutor(1) as pool:
            pool.submit(process.stderr.read)  # its log
            yield Server(process, port)
            process.terminate()


if __name__ == "__main__":
    main()
