"""What operators see of requests."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bidibeam.models.base import Model
from tests.unit.serving.conftest import Served, serve


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


def test_a_bug_is_logged_and_what_it_says_only_with_texts(
    toy_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    for logs_texts in (False, True):
        with serve({"toy": toy_model}, logs_texts=logs_texts) as served, monkeypatch.context() as patch:
            patch.setattr(type(toy_model), "n_best", break_down)
            told, _ = served.refuse("/api/decode", {"source": "red"}, 500)

            assert told == "This is a bug of bidibeam or of the model (ValueError)."
            bug, request = served.log
            assert (bug["event"], bug["kind"]) == ("bug", "ValueError")
            assert bug["place"].partition(":")[0] == __file__
            assert ("red" in json.dumps(bug)) is logs_texts
            assert (request["status"], request["model"]) == (500, "toy")


def break_down(*_: object) -> None:
    raise ValueError("of red")


@pytest.mark.parametrize("kind", [MemoryError, type("OutOfMemoryError", (RuntimeError,), {})])
def test_too_little_memory_is_told(
    toy_model: Model, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def run_out(*_: object) -> None:
        raise kind

    with serve({"toy": toy_model}) as served:
        monkeypatch.setattr(type(toy_model), "n_best", run_out)
        told, _ = served.refuse("/api/decode", {"source": "red"}, 503)

    assert told == "There is not enough memory for this: a smaller beam, or fewer sources, need less."
