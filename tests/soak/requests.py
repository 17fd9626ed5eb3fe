"""Random requests, drawn from the server's own description: documented statuses alone, no stuck worker."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
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
from bidibeam.serving.settings import Limits, ServerSettings
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
REFUSED_BY_RULE = "RejectedPositiveData"
"""A check that a description cannot follow: one field may forbid another, and a name may be of nothing."""


def run(seeds: Sequence[int], count: int | None, report: Callable[[str], None]) -> dict[str, Any]:
    """Send the requests of every seed to a server in this process, and count what came back."""
    return send_all(bidibeam.load(device="cpu"), seeds, count or FULL, report)


def send_all(model: Model, seeds: Sequence[int], count: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Send so many requests for each seed."""
    settings = ServerSettings(
        allowed_hosts=(HOST,), limits=Limits(beam_size=8, reply_tokens=12, sources=8), max_wait_ms=0, queue=8
    )
    app = create_app(Service({"toy": model}), settings, Log(io.StringIO()))
    statuses: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    schema: Any = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [found.ok() for found in schema.get_all_operations()]
    asked = [each for each in operations if each.path in VALID]
    for seed in seeds:
        for operation in operations:
            examples = -(-count // len(asked)) if operation in asked else 1
            _send(operation, seed, examples, statuses, failures)
        report(f"seed {seed}: {statuses.total()} requests, {len(failures)} failures")
    with TestClient(app, base_url=f"http://{HOST}") as client:  # the worker still works
        answer = client.post("/api/decode", json=VALID["/api/decode"])
        if client.get("/health").status_code != 200 or answer.status_code != 200:
            failures.append({"path": "/health", "said": answer.text})
    by_status = Counter(dict.fromkeys(map(str, (200, *STATUSES)), 0))
    for key, number in statuses.items():
        by_status[key.rpartition(" ")[2]] += number
    return {
        "requests": statuses.total(),
        "statuses": {status: number for status, number in sorted(by_status.items()) if number},
        "routes": dict(sorted(statuses.items())),
        "wrong": len(failures),
        "failures": failures,
    }


def _send(
    operation: Any, seed: int, examples: int, statuses: Counter[str], failures: list[dict[str, Any]]
) -> None:
    """Send requests of one route; what is wrong with an answer is noted, and the next one sent."""

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
        if operation.path in VALID and isinstance(case.body, dict) and data.draw(st.booleans()):
            drawn = (
                data.draw(st.lists(st.sampled_from(sorted(case.body, key=str)), max_size=2))
                if case.body
                else []
            )
            case.body = {**VALID[operation.path], **{name: case.body[name] for name in drawn}}
        answer = case.call()
        statuses[f"{operation.path} {answer.status_code}"] += 1
        place = {"path": operation.path, "body": repr(case.body)[:300]}
        failures.extend({**place, "said": said} for said in find_faults(case, answer))

    send()


def find_faults(case: Any, answer: Any) -> list[str]:
    """What is wrong with an answer: its status, its type, or its shape."""
    faults = []
    if answer.status_code not in (200, *STATUSES):
        faults.append(f"{answer.status_code}: {answer.text[:300]}")
    elif answer.status_code != 200 and {*json.loads(answer.text)["error"]} != {
        "message",
        "type",
        "param",
        "code",
    }:
        faults.append(f"shape: {answer.text[:300]}")
    try:
        case.validate_response(answer)
    except FailureGroup as group:
        named = [(type(each).__name__, str(each)) for each in group.exceptions]
        faults += [f"{name}: {said[:300]}" for name, said in named if name != REFUSED_BY_RULE]
    return faults
