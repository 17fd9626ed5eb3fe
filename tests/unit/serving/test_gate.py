"""What every request passes first, what is logged of it, and what operators see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bidibeam.models.base import Model
from bidibeam.serving.settings import RequestLimits
from tests.unit.serving.conftest import Served, serve

KEY = "a key"


@pytest.fixture
def keyed(toy_model: Model) -> Iterator[Served]:
    with serve({"toy": toy_model}, api_key=KEY, host="0.0.0.0") as served:
        yield served


@pytest.mark.parametrize("path", ["/health", "/ready", "/docs", "/openapi.json"])
def test_what_tells_nothing_of_what_models_say_needs_no_key(keyed: Served, path: str) -> None:
    assert keyed.client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (None, "The API key is missing: send it as Authorization: Bearer KEY."),
        ("Bearer other", "The API key is not the server's: send it as Authorization: Bearer KEY."),
        (KEY, "The API key is not the server's: send it as Authorization: Bearer KEY."),
        ("Bearer k\u00e9y", "The API key is not the server's: send it as Authorization: Bearer KEY."),
    ],
)
def test_all_else_does(keyed: Served, header: str | None, told: str) -> None:
    headers = {} if header is None else {"authorization": header.encode("latin1")}
    for path in ("/v1/models", "/metrics"):
        answer = keyed.client.get(path, headers=headers)  # type: ignore[arg-type]
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"] == {
            "message": told,
            "type": "authentication_error",
            "param": None,
            "code": "invalid_api_key",
        }


def test_the_key_opens(keyed: Served) -> None:
    for scheme in ("Bearer", "bearer"):
        assert keyed.client.get("/v1/models", headers={"authorization": f"{scheme} {KEY}"}).status_code == 200


@pytest.mark.parametrize("has_length", [True, False])
def test_a_large_body_is_refused_whether_it_says_so_or_not(toy_model: Model, has_length: bool) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(12):
            yield b"x" * 1000

    with serve({"toy": toy_model}, limits=RequestLimits(body_bytes=10_000)) as served:
        content = b"x" * 12_000 if has_length else parts()
        answer = served.client.post("/api/decode", content=content)

        assert answer.status_code == 413
        told = "The body has more than 10,000 bytes, the most on this server: send less at once."
        assert answer.json()["error"]["message"] == told


def test_a_request_has_an_id(served: Served) -> None:
    assert served.client.get("/health", headers={"x-request-id": "a.b-1"}).headers["x-request-id"] == "a.b-1"
    odd = served.client.get("/health", headers={"x-request-id": "a b"}).headers["x-request-id"]
    assert len(odd) == 32


def test_other_pages_may_not_ask_unless_allowed() -> None:
    asks = {"origin": "https://page.example", "access-control-request-method": "POST"}
    with serve({}) as served:
        answer = served.client.options("/api/rank", headers=asks)
        assert "access-control-allow-origin" not in answer.headers
    with serve({}, allowed_origins=("https://page.example",)) as served:
        answer = served.client.options("/api/rank", headers=asks)
        assert answer.headers["access-control-allow-origin"] == "https://page.example"
