"""The API as a page to read, and what its description says of limits."""

from __future__ import annotations

from bidibeam.models.base import Model
from bidibeam.serving.settings import RequestLimits
from bidibeam.similarities import SIMILARITIES
from tests.unit.serving.conftest import Served, serve


def test_nothing_of_the_reference_comes_from_elsewhere(served: Served) -> None:
    page = served.client.get("/docs").text

    assert "src=" not in page
    assert "default-src 'none'" in page
    for path in ("/api/decode", "/v1/chat/completions", "/metrics"):
        assert path in page


def test_limits_and_names_are_described(toy_model: Model) -> None:
    limits = RequestLimits(sources=7, source_characters=81, beam_size=13, reply_tokens=29, body_bytes=54_321)
    with serve({"toy": toy_model}, limits=limits) as served:
        schemas = served.client.get("/openapi.json").json()["components"]["schemas"]
        page = served.client.get("/docs").text

    decode, chat = schemas["DecodeRequest"]["properties"], schemas["ChatRequest"]["properties"]
    assert decode["beam_size"]["anyOf"][0]["maximum"] == 13
    assert decode["source"]["anyOf"][0]["maxLength"] == 81
    assert decode["sources"]["anyOf"][0]["maxItems"] == 7
    assert decode["similarity"]["anyOf"][0]["enum"] == SIMILARITIES.names()
    assert chat["model"]["enum"] == ["toy"]
    assert chat["n"]["anyOf"][0]["maximum"] == 13
    assert chat["max_completion_tokens"]["anyOf"][0]["maximum"] == 29
    prompt = schemas["CompletionRequest"]["properties"]["prompt"]["anyOf"]
    assert [prompt[0]["maxLength"], prompt[1]["maxItems"]] == [81, 7]
    assert schemas["RankRequest"]["properties"]["lists"]["maxItems"] == 7
    assert "54,321 bytes" in page
    assert '<td data-label="at most">81 letters</td>' in page
    assert '<td data-label="at most">1,000,000</td>' in page
    assert '<td data-label="type">list of object</td>' in page  # n-best lists
