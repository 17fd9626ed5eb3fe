"""What every request passes first, what is logged of it, and what operators see."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bidibeam.errors import SettingsError
from bidibeam.models.base import Model
from bidibeam.serving.settings import Limits, ServerSettings
from tests.unit.serving.conftest import Served, serve

KEY = "a key"


@pytest.fixture
def keyed(toy_model: Model) -> Iterator[Served]:
    with serve({"toy": toy_model}, api_key=KEY, host="0.0.0.0") as served:
        yield served


@pytest.mark.parametrize("path", ["/health", "/ready", "/docs", "/openapi.json"])
def test_what_tells_nothing_of_models_needs_no_key(keyed: Served, path: str) -> None:
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


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("localhost", True),
        ("LOCALHOST:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("192.168.0.7", True),
        ("mine.example", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_the_host_header_is_checked(host: str, is_allowed: bool) -> None:
    with serve({}, allowed_hosts=("mine.example",)) as served:
        answer = served.client.get("/ready", headers={"host": host})

        assert answer.status_code == (200 if is_allowed else 400)
        if not is_allowed:
            assert answer.json()["error"]["code"] == "invalid_host"


def test_a_server_that_others_reach_needs_a_key() -> None:
    for host in ("0.0.0.0", "::", "192.168.0.7", "box.example"):
        with pytest.raises(SettingsError, match=f"^At {host} others can reach the server"):
            ServerSettings(host=host)
        assert ServerSettings(host=host, api_key="k").host == host
    for host in ("127.0.0.1", "::1", "localhost", "127.0.0.2"):
        assert ServerSettings(host=host).api_key is None


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"max_batch": 0}, "max_batch must be a whole number of at least 1, not 0."),
        ({"max_wait_ms": float("nan")}, "max_wait_ms must be between 0 and 60,000, not nan."),
        ({"timeout_s": 0.0}, "timeout_s must be above 0 and at most 86,400, not 0.0."),
        ({"api_key": " "}, "api_key must be ASCII and not blank: clients send it in a header."),
        (
            {"queue": 3},
            "queue must hold the sources of one request at least: it is 3, and max_sources is 64.",
        ),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        ServerSettings(**settings)  # type: ignore[arg-type]
    assert str(refused.value) == told


@pytest.mark.parametrize("has_length", [True, False])
def test_a_large_body_is_refused_whether_it_says_so_or_not(toy_model: Model, has_length: bool) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(12):
            yield b"x" * 1000

    with serve({"toy": toy_model}, limits=Limits(body_bytes=10_000)) as served:
        content = b"x" * 12_000 if has_length else parts()
        answer = served.client.post("/api/decode", content=content)

        assert answer.status_code == 413
        told = "The body has more than 10,000 bytes, the most on this server: send less at once."
        assert answer.json()["error"]["message"] == told


def test_a_body_that_is_no_json_is_refused(served: Served) -> None:
    for content in (b"{", b"\xff\xfe", b"[" * 100_000, b'{"source": ' + b"9" * 5000 + b"}", b'"text"', b""):
        answer = served.client.post(
            "/api/decode", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400, content[:20]
        assert answer.json()["error"]["type"] == "invalid_request_error"


def test_what_is_not_there_has_the_same_shape(served: Served) -> None:
    assert served.client.get("/nowhere").json()["error"]["message"] == "There is nothing at /nowhere."
    wrong = served.client.get("/api/decode")
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (405, "GET is not allowed here.")
    assert wrong.headers["allow"] == "POST"


def test_requests_are_logged_without_texts_unless_asked(toy_model: Model) -> None:
    for logs_texts in (False, True):
        with serve({"toy": toy_model}, logs_texts=logs_texts) as served:
            served.post("/api/decode", {"source": "red cat"}, headers={"x-request-id": "mine-1"})
            served.client.post("/v1/completions", json={"model": "toy", "prompt": "red cat"})
            served.client.post("/api/decode", json={"source": ""})

            first, second, refused = served.log
            assert {key: first[key] for key in ("event", "id", "method", "route", "status", "model")} == {
                "event": "request",
                "id": "mine-1",
                "method": "POST",
                "route": "/api/decode",
                "status": 200,
                "model": "toy",
            }
            assert second["route"] == "/v1/completions"
            assert refused["status"] == 400
            assert ("red cat" in json.dumps(first)) is logs_texts
            assert ("red cat" in json.dumps(second)) is logs_texts


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


def test_metrics_are_as_prometheus_reads_them(served: Served) -> None:
    served.post("/api/decode", {"sources": ["red", "blue"]})
    served.client.get("/nowhere")

    answer = served.client.get("/metrics", follow_redirects=False)

    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert answer.status_code == 200
    assert samples["bidibeam_requests_total", "/api/decode", "200", "POST"] == 1
    assert samples["bidibeam_requests_total", "404", "GET", "other"] == 1
    assert samples["bidibeam_sources_total", "decode"] == 2
    assert samples["bidibeam_sources_waiting",] == 0
    assert samples["bidibeam_queue_duration_seconds_count",] == 2


def test_nothing_of_the_reference_comes_from_elsewhere(served: Served) -> None:
    page = served.client.get("/docs").text

    assert "src=" not in page
    assert "default-src 'none'" in page
    for path in ("/api/decode", "/v1/chat/completions", "/metrics"):
        assert path in page
