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


OPTION = "true or false, a number up to 1,000,000, or a word of up to 100 letters without a colon"


@pytest.mark.parametrize(
    ("body", "told", "param"),
    [
        (
            {"strategy": "bidis", "strategy_options": {"lambda": 1_000_001}},
            f"strategy_options.lambda must be {OPTION}, not 1000001.",
            "strategy_options.lambda",
        ),
        (
            {"similarity": "bleu", "similarity_options": {"order": None}},
            f"similarity_options.order must be {OPTION}, not None.",
            "similarity_options.order",
        ),
        (
            {"similarity": "bleu_t", "similarity_options": {"max_length": -1}},
            "max_length (T) must be a whole number from 1 to 1,000,000, or median, not -1.",
            "max_length",
        ),
    ],
)
def test_an_option_that_cannot_be_is_named(
    served: Served, body: dict[str, object], told: str, param: str
) -> None:
    assert served.refuse("/api/decode", {"source": "red", **body}) == (told, param)


NO_TYPE = "prompt is of another type than it may have, received None."


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/completions", {"model": "toy", "prompt": None}, NO_TYPE),
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


def test_half_a_surrogate_pair_is_no_text(served: Served) -> None:
    said = r'{"model": "toy", "messages": [{"role": "user", "content": "\ud800 red"}]}'
    headers = {"content-type": "application/json"}
    answer = served.client.post("/v1/chat/completions", content=said, headers=headers)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages"
    assert "holds half a surrogate pair" in answer.json()["error"]["message"]
