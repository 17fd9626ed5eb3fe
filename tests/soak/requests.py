"""Random requests, drawn from the server's own description: documented statuses alone, no stuck worker."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import schemathesis
from hypothesis import strategies as st
from schemathesis.core.failures import FailureGroup
from starlette.testclient import TestClient

import bidibeam
from bidibeam.models.base import Model
from bidibeam.serving.app import create_app
from bidibeam.serving.errors import STATUSES
from bidibeam.serving.service import Service
from bidibeam.serving.settings import RequestLimits, ServerSettings
from bidibeam.serving.telemetry import Log

FULL = 3400
"""Requests of a seed in the full soak: 10,200 in all."""
HOST = "testserver"
LIST = {"regular": [{"text": "red cat"}, {"text": "blue"}], "reverse": [{"text": "red cat !"}]}
VALID: dict[str, dict[str, Any]] = {
    "/api/decode": {"source": "red cat", "beam_size": 4, "strategy": "bidia"},
    "/api/explain": {"source": "red cat", "strategy": "bidia"},
    "/api/rank": {"lists": [LIST], "strategy": "bidia"},
    "/v1/chat/completions": {"model": "toy", "messages": [{"role": "user", "content": "red cat"}]},
    "/v1/completions": {"model": "toy", "prompt": ["red cat", "blue"]},
}
"""Bodies that are answered; half of the requests change a few fields of one, so that many reach the model."""
ODD: dict[str, tuple[Any, ...]] = {
    "strategy": ("oracle", "bidia wmd_t either", "loglinear edit both", "random", "bidis lambda=nan", " "),
    "similarity": ("wmd_t", "embedding_cosine", "edit", "bleu\ud83d"),
    "stopping": ("patience=1e308", "patience=0.1", "exhaust", "optimal", "heuristic", "patience=-1"),
    "strategy_options": (
        {"similarity": "edit"},
        {"lambda": 1e308},
        {"answer": "either"},
        {"lambda_": True},
        {"seed": 0.5},
    ),
    "similarity_options": (
        {"max_length": 1},
        {"max_length": True},
        {"order": 16},
        {"weights": 1},
        {"form": "ratio"},
        {"": ""},
    ),
    "source": ("\ud83d red", "\0", "\ufffe", "red" * 3000, "\u202e", "\u5317\u4eac"),
    "prompt": ("\ud83d red", ["red", "\0"], "\u202e"),
    "lists": (
        [{"id": "\ud83d", **LIST}],
        [{**LIST, "regular": [{"text": "\ud83d"}]}],
        [{"reverse": []}],
        [LIST] * 9,
    ),
    "list": ({"regular": [{"text": "\ud83d a"}]}, {"regular": []}, LIST, {**LIST, "source": "\ufffe"}),
    "length_penalty": (-10, 10, 1e6),
    "repetition_penalty": (1e-300, 1e6),
    "min_length": (0, 11, 12),
    "max_tokens": (0, 1, None),
    "n": (None, 8, 9),
}
"""Values that have made a server fail, or could; one or two stand in each of half of the requests."""
SHAPE = {"message", "type", "param", "code"}
REFUSED_BY_RULE = "RejectedPositiveData"
"""A check that a description cannot follow: one field may forbid another, and a name may be of nothing."""


def run(seeds: Sequence[int], count: int | None, report: Callable[[str], None]) -> dict[str, Any]:
    """Send the requests of every seed to a server in this process, and count what came back."""
    return send_all(bidibeam.load(device="cpu"), seeds, count or FULL, report)


def send_all(model: Model, seeds: Sequence[int], count: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Send so many requests for each seed."""
    limits = RequestLimits(beam_size=8, reply_tokens=12, sources=8)
    settings = ServerSettings(allowed_hosts=(HOST,), limits=limits, max_wait_ms=0, queue=8)
    app = create_app(Service({"toy": model}), settings, Log(io.StringIO()))
    found = Found()
    schema: Any = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [each.ok() for each in schema.get_all_operations()]
    assert {each.path for each in operations if each.method == "post"} == {*VALID}
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as client:
        for seed in seeds:
            for operation in operations:
                if operation.path not in VALID:
                    send_drawn(operation, seed, 1, found)
                    continue
                each = -(-count // (2 * len(VALID)))
                send_drawn(operation, seed, each, found)
                names = ODD.keys() & find_fields(app.openapi(), operation.path)
                send_odd(client, operation.path, sorted(names), random.Random(seed), each, found)
            report(f"seed {seed}: {found.routes.total()} requests, {len(found.failures)} failures")
        answer = client.post("/api/decode", json=VALID["/api/decode"])  # the worker still works
        if client.get("/health").status_code != 200 or answer.status_code != 200:
            found.failures.append({"path": "/health", "said": answer.text})
    statuses: Counter[str] = Counter()
    for route, number in found.routes.items():
        statuses[route.rpartition(" ")[2]] += number
    return {
        "requests": found.routes.total(),
        "statuses": dict(sorted(statuses.items())),
        "routes": dict(sorted(found.routes.items())),
        "wrong": len(found.failures),
        "failures": found.failures,
    }


@dataclass
class Found:
    """What came back: requests by route and status, and answers that are wrong."""

    routes: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, path: str, body: Any, answer: Any, faults: list[str]) -> None:
        """Count an answer."""
        self.routes[f"{path} {answer.status_code}"] += 1
        self.failures += [{"path": path, "body": repr(body)[:300], "said": said} for said in faults]


def send_drawn(operation: Any, seed: int, examples: int, found: Found) -> None:
    """Send requests that the description allows, or just not; half of them have a few such fields."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[*hypothesis.HealthCheck],
    )
    @hypothesis.given(case=operation.as_strategy(), data=st.data())
    def send(case: Any, data: st.DataObject) -> None:
        if operation.path in VALID and isinstance(case.body, dict) and case.body and data.draw(st.booleans()):
            names = data.draw(st.lists(st.sampled_from(sorted(case.body)), max_size=2))
            case.body = {**VALID[operation.path], **{name: case.body[name] for name in names}}
        answer = case.call()
        found.add(operation.path, case.body, answer, [*find_faults(answer), *check_described(case, answer)])

    send()


def send_odd(
    client: TestClient, path: str, names: list[str], chooser: random.Random, count: int, found: Found
) -> None:
    """Send bodies with one or two odd values; half a surrogate pair is escaped, as JSON allows."""
    for _ in range(count):
        body = dict(VALID[path])
        for name in chooser.sample(names, chooser.choice((1, 2))):
            body[name] = chooser.choice(ODD[name])
        answer = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
        found.add(path, body, answer, find_faults(answer))


def find_fields(openapi: dict[str, Any], path: str) -> set[str]:
    """The fields of the body that a route takes by POST."""
    content = openapi["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    name = content["schema"]["$ref"].rpartition("/")[2]
    return {*openapi["components"]["schemas"][name]["properties"]}


def find_faults(answer: Any) -> list[str]:
    """What is wrong with an answer by itself: a status that is not documented, or another shape."""
    if answer.status_code not in (200, *STATUSES):
        return [f"{answer.status_code}: {answer.text[:300]}"]
    if answer.status_code != 200 and {*json.loads(answer.text)["error"]} != SHAPE:
        return [f"shape: {answer.text[:300]}"]
    return []


def check_described(case: Any, answer: Any) -> list[str]:
    """What of an answer is not as the server describes itself."""
    try:
        case.validate_response(answer)
    except FailureGroup as group:
        named = [(type(each).__name__, str(each)) for each in group.exceptions]
        return [f"{name}: {said[:300]}" for name, said in named if name != REFUSED_BY_RULE]
    return []
