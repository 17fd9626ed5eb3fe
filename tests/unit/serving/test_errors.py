"""What is wrong with a request, in one shape."""

from __future__ import annotations

import pytest

from tests.unit.serving.conftest import Served


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


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        (
            "/v1/completions",
            {"model": "toy", "prompt": []},
            "prompt is an empty list: give a source at least.",
        ),
        ("/v1/completions", {"model": "toy"}, "The field 'prompt' is missing."),
        ("/api/decode", ["red"], "The body must be a JSON object, with the content type application/json."),
    ],
)
def test_a_body_that_lacks_something_is_told_what(served: Served, path: str, body: object, told: str) -> None:
    assert served.refuse(path, body)[0] == told


def test_a_body_of_another_content_type_is_refused(served: Served) -> None:
    answer = served.client.post(
        "/api/decode", content=b'{"source": "red"}', headers={"content-type": "text/plain"}
    )

    assert answer.status_code == 400
    assert "content type application/json" in answer.json()["error"]["message"]


def test_a_server_that_shuts_down_says_so(served: Served) -> None:
    batcher = served.client.app.state.server.batcher  # type: ignore[attr-defined]
    batcher.close()

    assert served.refuse("/api/decode", {"source": "red"}, 503)[0] == "The server is shutting down."
    assert served.client.get("/ready").status_code == 503
    assert served.client.get("/health").status_code == 200


def test_a_worker_that_died_is_told(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    batcher = served.client.app.state.server.batcher  # type: ignore[attr-defined]
    monkeypatch.setattr(type(batcher), "is_alive", False)

    answer = served.client.get("/health")

    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "The worker has died: start the server again."
