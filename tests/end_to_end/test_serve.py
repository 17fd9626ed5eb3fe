"""The server as a process: clients that leave, bytes that are no request, and its end."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from bidibeam import load_decoder
from tests.conftest import WORDS
from tests.soak.kills import BIDIBEAM, ENVIRONMENT

WAIT_S = 60


@dataclass
class Process:
    """A server of its own, and how to ask it."""

    process: subprocess.Popen[str]
    port: int

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the value of an answer; text where it is no JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                status, raw = answer.status, answer.read().decode()
        except HTTPError as error:
            status, raw = error.code, error.read().decode()
        return status, raw if path == "/metrics" else json.loads(raw)

    def decode(self, source: str) -> tuple[int, Any]:
        return self.ask("/api/decode", {"source": source, "strategy": "vbs"})

    def metric(self, name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.ask("/metrics")[1], flags=re.MULTILINE)
        return float(found[1]) if found else 0.0

    def connect(self, sent: bytes) -> socket.socket:
        """A connection that has sent some bytes."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        connection.sendall(sent)
        return connection


@contextmanager
def started(*arguments: object) -> Iterator[Process]:
    command = [*BIDIBEAM, "serve", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next((line for line in process.stderr if " at http://" in line), "")
        port = int(re.findall(r":(\d+) ", line)[0])
        with ThreadPoolExecutor(1) as pool:
            logged = pool.submit(process.stderr.read)  # so that its logs never fill the pipe
            try:
                yield Process(process, port)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(WAIT_S)
        *lines, last = logged.result().splitlines()
        assert [json.loads(line) for line in lines]  # a JSON object a line, whatever was sent
        assert last == "Note: The server has ended; all that was accepted was answered."


def wait_until(is_met: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_met():
        assert time.monotonic() < end_s, "it never came about"
        time.sleep(0.02)


def request_bytes(source: str) -> bytes:
    body = json.dumps({"source": source, "strategy": "vbs"}).encode()
    head = (
        "POST /api/decode HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: "
    )
    return f"{head}{len(body)}\r\n\r\n".encode() + body


def test_nothing_is_lost_among_many_clients(toy_run: Path) -> None:
    sources = [f"{first} {second}" for first in WORDS for second in WORDS] * 2
    expected = [each.best.text for each in load_decoder(toy_run, "vbs").decode(sources)]

    with started(toy_run, "--max-batch", "8") as server, ThreadPoolExecutor(16) as pool:
        answers = [*pool.map(server.decode, sources)]

        assert {status for status, _ in answers} == {200}
        assert [answer["replies"][0]["text"] for _, answer in answers] == expected
        assert server.metric('bidibeam_sources_total{kind="decode"}') == len(sources)
        assert server.metric('bidibeam_batch_rows_count{kind="decode"}') < len(sources)


def test_a_full_queue_says_when_to_come_back(toy_run: Path) -> None:
    options = ("--queue", "4", "--max-sources", "4", "--max-wait-ms", "60000", "--max-batch", "64")
    with started(toy_run, *options) as server:
        waiting = [server.connect(request_bytes("red")) for _ in range(4)]
        wait_until(lambda: server.metric("bidibeam_sources_waiting") == 4)

        status, answer = server.decode("blue")

        assert status == 429
        assert answer["error"]["code"] == "queue_full"
        assert re.fullmatch(r"The queue is full: try again in \d+ s\.", answer["error"]["message"])
        for connection in waiting:
            connection.close()


@pytest.mark.parametrize("is_half", [False, True])
def test_a_client_that_leaves_is_not_worked_for(toy_run: Path, is_half: bool) -> None:
    with started(toy_run, "--max-wait-ms", "60000", "--max-batch", "2") as server:
        with server.connect(request_bytes("red")) as connection:
            wait_until(lambda: server.metric("bidibeam_sources_waiting") == 1)
            if is_half:  # it says that it has nothing more to send
                connection.shutdown(socket.SHUT_WR)
                wait_until(lambda: server.metric("bidibeam_sources_waiting") == 0)
        wait_until(lambda: server.metric("bidibeam_sources_waiting") == 0)

        assert server.metric("bidibeam_requests_dropped_total") == 1
        with ThreadPoolExecutor(2) as pool:  # which fill a batch
            assert [status for status, _ in pool.map(server.decode, ["green", "blue"])] == [200, 200]
        assert server.metric('bidibeam_sources_total{kind="decode"}') == 2


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\xff\xfe\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /api/decode HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
        b"POST /api/decode HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /api/decode HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["bytes", "half a head", "half a body", "negative length", "bad chunk"],
)
def test_what_is_no_request_stops_nobody(server: Process, sent: bytes) -> None:
    with server.connect(sent) as broken:
        assert server.decode("red cat")[0] == 200
        broken.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            answered = broken.recv(65536)
            assert not answered or b" 400 " in answered.partition(b"\r\n")[0]
    assert server.ask("/health") == (200, {"status": "ok"})


@pytest.fixture(scope="module")
def server(toy_run: Path) -> Iterator[Process]:
    with started(toy_run) as running:
        yield running


def test_a_body_that_never_ends_is_given_up(toy_run: Path) -> None:
    with started(toy_run, "--timeout-s", "0.3") as server:
        slow = server.connect(request_bytes("red")[:-1])
        assert slow.recv(65536).startswith(b"HTTP/1.1 408 ")
        slow.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_its_end_answers_what_was_accepted(toy_run: Path, number: signal.Signals) -> None:
    with started(toy_run, "--max-wait-ms", "1500") as server:
        accepted = [server.connect(request_bytes("red cat")) for _ in range(3)]
        wait_until(lambda: server.metric("bidibeam_sources_waiting") == 3)
        server.process.send_signal(number)

        for connection in accepted:
            with connection:
                answer = b"".join(iter(partial(connection.recv, 65536), b""))
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"red cat!" in answer
        assert server.process.wait(WAIT_S) == 0
        with pytest.raises(ConnectionRefusedError):
            server.connect(b"")
