"""Our own routes: what Python answers, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from bidibeam import SearchSettings, load_decoder
from bidibeam.models.base import Model
from bidibeam.serving.settings import RequestLimits
from bidibeam.strategies import STRATEGIES
from bidibeam.work import count
from tests.unit.serving.conftest import Served, serve

KNOWN = ", ".join(STRATEGIES.names())
SOURCES = ["red cat", "blue", "green dog fish", "black horse"]
COLON = "a name here has no colon (package.module:name would run code) and no control characters"
NO_REVERSE = (
    "source '1' has no reverse hypotheses, and bidia needs them; add a list \"reverse\", or choose another "
    'strategy, such as "mbr mean".'
)
NO_VECTORS = (
    "This similarity needs word vectors, and the server was started without --vectors: compare by "
    "another one."
)
LISTS: list[dict[str, Any]] = [
    {
        "id": "a",
        "regular": [{"text": "i do not know"}, {"text": "at noon"}],
        "reverse": [{"text": "at noon"}],
    },
    {"regular": [{"text": "yes"}], "reverse": [{"text": "no"}]},
]


@pytest.mark.parametrize(
    "strategy", ["vbs", "bidis", "bidia", "bidia token_f1 either", "mbr mean", "longest"]
)
def test_replies_are_those_of_python(served: Served, toy_model: Model, strategy: str) -> None:
    search: dict[str, Any] = {"beam_size": 6, "max_length": 7}
    expected = load_decoder(toy_model, strategy, settings=SearchSettings(**search)).decode(SOURCES)

    answer = served.post("/api/decode", {"sources": SOURCES, "strategy": strategy, "n_best": 6, **search})

    found = [[each["text"] for each in reply["hypotheses"]] for reply in answer["replies"]]
    assert found == [[each.text for each in nbest] for nbest in expected]
    assert [reply["text"] for reply in answer["replies"]] == [nbest.best.text for nbest in expected]
    assert f"strategy:{strategy.split()[0]}" in answer["signature"]
    assert f"model:{toy_model.fingerprint}" in answer["signature"]


def test_replies_alone_are_the_same_as_with_their_lists(served: Served) -> None:
    body = {"sources": SOURCES, "strategy": "bidis"}

    alone, whole = served.post("/api/decode", body), served.post("/api/decode", {**body, "n_best": 3})

    assert [each["text"] for each in alone["replies"]] == [each["text"] for each in whole["replies"]]
    assert all("hypotheses" not in each for each in alone["replies"])


def test_scores_come_on_request(served: Served) -> None:
    body = {"source": "red cat", "n_best": 2, "strategy": "bidis"}

    (plain,) = served.post("/api/decode", body)["replies"]
    (scored,) = served.post("/api/decode", {**body, "scores": True})["replies"]

    first = scored["hypotheses"][0]
    assert {*plain["hypotheses"][0]} == {"text", "score", "direction", "place"}
    assert {"log_prob", "other_log_prob", "search_score", "length", "finished"} < {*first}
    assert first["score"] == pytest.approx(
        first["search_score"] + first["other_log_prob"] * first["search_score"] / first["log_prob"]
    )


def test_options_reach_the_strategy_and_its_similarity(served: Served) -> None:
    body = {
        "source": "red cat",
        "strategy": "bidia",
        "similarity_options": {"max_length": 3, "smoothing": "add-1"},
        "strategy_options": {"answer": "either"},
    }

    signature = served.post("/api/decode", body)["signature"]

    assert "|T:3|" in signature
    assert "|smoothing:add-1|" in signature
    assert "|answer:either|" in signature
    lambda_ = {"source": "red cat", "strategy": "bidis", "strategy_options": {"lambda": 0.25}}
    assert "|lambda:0.25|" in served.post("/api/decode", lambda_)["signature"]
    edit = served.post("/api/decode", {"source": "red cat", "similarity": "edit"})
    assert edit["strategy"] == "bidia edit"


def test_options_alone_say_whose_they_are_as_flags_do(served: Served) -> None:
    either = {"source": "red cat", "strategy_options": {"answer": "either"}}
    assert served.post("/api/decode", either)["strategy"] == "bidia bleu_t either"
    lists = [{"regular": [{"text": "a"}], "reverse": [{"text": "a"}]}]
    told, _ = served.refuse("/api/rank", {"lists": lists, "strategy_options": {"lambda": 0.5}})
    assert "and bidis needs it" in told
    vbs = {"source": "red", "strategy": "vbs", "similarity_options": {"order": 2}}
    told, param = served.refuse("/api/decode", vbs)
    assert told == "The strategy vbs compares no hypotheses, so it has no similarity_options."
    assert param == "similarity_options"


def test_each_model_answers_by_its_name(served: Served) -> None:
    assert served.post("/api/decode", {"source": "red"})["model"] == "toy"
    assert served.post("/api/decode", {"source": "red", "model": "again"})["model"] == "again"
    told = served.refuse("/api/decode", {"source": "red", "model": "none"}, 404)
    assert told == ("There is no model 'none'. There are: toy, again.", "model")


def test_requests_that_come_together_are_searched_together(toy_model: Model) -> None:
    with serve({"toy": toy_model}, max_wait_ms=60_000) as served:  # so that only a full batch goes at once
        with ThreadPoolExecutor(4) as pool:
            bodies = [{"source": source, "strategy": "vbs"} for source in SOURCES]
            answers = [*pool.map(lambda body: served.post("/api/decode", body), bodies)]

        expected = load_decoder(toy_model, "vbs").decode(SOURCES)
        assert [each["replies"][0]["text"] for each in answers] == [nbest.best.text for nbest in expected]
        metrics = served.client.get("/metrics").text
        assert 'bidibeam_batch_rows_count{kind="decode"} 1.0' in metrics
        assert 'bidibeam_batch_rows_sum{kind="decode"} 4.0' in metrics


def test_an_explanation_is_that_of_python(served: Served, toy_model: Model) -> None:
    expected = load_decoder(toy_model, "bidia", score_other=True).explain("red cat").to_dict()

    found = served.post("/api/explain", {"source": "red cat", "strategy": "bidia"})

    assert found["reply"] == expected["reply"]
    assert found["regular"] == expected["regular"]
    assert found["similarity"]["matrix"] == expected["similarity"]["matrix"]
    assert [each["system"] for each in found["choices"]] == [each["system"] for each in expected["choices"]]


def test_a_list_is_explained_without_a_model(served: Served) -> None:
    found = served.post("/api/explain", {"list": LISTS[0], "strategy": "bidia token_f1"})

    assert found["reply"] == "at noon"
    assert found["similarity"]["matrix"] == [[0.0], [1.0]]


def test_lists_are_ranked_without_a_model() -> None:
    with serve({}) as served:
        answer = served.post("/api/rank", {"lists": LISTS, "n_best": 2, "similarity": "token_f1"})

        assert [(each["id"], each["text"]) for each in answer["replies"]] == [("a", "at noon"), ("2", "yes")]
        assert answer["replies"][0]["hypotheses"][0] == {
            "text": "at noon",
            "score": 1.0,
            "direction": "regular",
            "place": 1,
            "partner": 0,
        }
        assert served.client.get("/ready").json() == {"status": "ready"}
        told, _ = served.refuse("/api/decode", {"source": "red"}, 404)
        assert told == "This server has no model: it ranks lists alone."


def test_the_default_for_lists_is_that_of_rerank(served: Served) -> None:
    scored = {"text": "yes", "log_prob": -1.0, "other_log_prob": -2.0, "score": -0.5}
    lists = [{"regular": [scored, {**scored, "text": "no", "other_log_prob": -1.0}]}]

    assert served.post("/api/rank", {"lists": LISTS})["strategy"] == "bidia bleu_t"
    answer = served.post("/api/rank", {"lists": lists})

    assert (answer["strategy"], answer["replies"][0]["text"]) == ("bidis", "no")


def test_the_oracle_ranks_lists_that_have_references(served: Served) -> None:
    lists = [{**LISTS[0], "reference": "at noon"}]

    assert served.post("/api/rank", {"lists": lists, "strategy": "oracle"})["replies"][0]["text"] == "at noon"
    told, param = served.refuse("/api/decode", {"source": "red", "strategy": "oracle"})
    assert told == "The oracle chooses by references, and sources have none: choose another strategy."
    assert param == "strategy"


@pytest.mark.parametrize(
    ("body", "told", "param"),
    [
        ({}, "Give source, a string, or sources, a list of strings, and not both.", "source"),
        ({"source": " "}, "The source is empty.", "source"),
        ({"sources": ["a", ""]}, "The source 2 is empty.", "sources"),
        ({"source": "a", "strategie": "vbs"}, "There is no field 'strategie' here.", "strategie"),
        ({"source": 5}, "source: input should be a valid string, received 5.", "source"),
        ({"source": "a" * 81}, "The source has 81 characters; 80 are the most on this server.", "source"),
        (
            {"sources": ["a"] * 9},
            "A request may have 8 sources on this server, not 9: send the others in another one.",
            "sources",
        ),
        (
            {"source": "a", "beam_size": 21},
            "beam_size must be at most 20 on this server, not 21.",
            "beam_size",
        ),
        ({"source": "a", "beam_size": 0}, "beam_size must be at least 1, not 0.", "beam_size"),
        (
            {"source": "a", "max_length": 31},
            "max_length must be at most 30 on this server, not 31.",
            "max_length",
        ),
        (
            {"source": "a", "strategy": "bidja"},
            f"Unknown strategy 'bidja'. Did you mean 'bidia'? Choose one of: {KNOWN}.",
            "strategy",
        ),
        (
            {"source": "a", "strategy": "vbs", "similarity": "edit"},
            "The strategy vbs compares no hypotheses, so it has no similarity.",
            "similarity",
        ),
        (
            {"source": "a", "strategy": "bidia os:getcwd"},
            f"strategy: {COLON}, received 'bidia os:getcwd'.",
            "strategy",
        ),
        (
            {"source": "a", "similarity": "os:getcwd"},
            f"similarity: {COLON}, received 'os:getcwd'.",
            "similarity",
        ),
        (
            {"source": "a", "similarity": "wmd", "similarity_options": {"space": "x"}},
            "The option 'space' is not taken here: leave it out.",
            "similarity_options",
        ),
        (
            {"source": "a", "strategy": "loglinear", "strategy_options": {"similarity": "edit"}},
            "The option 'similarity' is not taken here: leave it out.",
            "strategy_options",
        ),
        (
            {"source": "a", "stopping": "patience=1e308"},
            "stopping must have a factor of patience above 0 and at most 1,000,000, not 1e+308.",
            "stopping",
        ),
        (
            {"source": "a", "strategy": "bidis", "strategy_options": {"lamda": 1}},
            "The strategy bidis has no option lamda. Did you mean 'lambda'? It has: lambda.",
            None,
        ),
        (
            {"source": "a", "strategy": "bidis", "strategy_options": {"weight": 1}},
            "The strategy bidis has no option weight. It has: lambda.",
            None,
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(
    toy_model: Model, body: dict[str, Any], told: str, param: str | None
) -> None:
    limits = RequestLimits(sources=8, source_characters=80, beam_size=20, reply_tokens=30)
    with serve({"toy": toy_model}, limits=limits) as served:
        assert served.refuse("/api/decode", body) == (told, param)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"lists": []}, "lists: list should have at least 1 item after validation, not 0, received []."),
        (
            {"lists": [{"regular": 5}]},
            'lists[0]: "regular" must be a list, received the number 5.',
        ),
        (
            {"lists": [{"regular": [{"text": "a"}]}], "strategy": "bidia"},
            NO_REVERSE,
        ),
        (
            {"lists": [{"regular": [{"text": "a"}] * 4}]},
            "lists[0]: the number of regular hypotheses must be at most 3 on this server, not 4.",
        ),
        (
            {"lists": [{"regular": [{"text": "a" * 51}]}]},
            "lists[0]: the length of a hypothesis must be at most 50 on this server, not 51.",
        ),
        ({"lists": LISTS * 5}, "A request may have 8 lists on this server, not 10."),
        (
            {"lists": LISTS, "similarity": "wmd"},
            NO_VECTORS,
        ),
    ],
)
def test_lists_that_cannot_be_ranked_are_refused(body: dict[str, Any], told: str) -> None:
    with serve({}, limits=RequestLimits(sources=8, hypotheses=3, hypothesis_characters=50)) as served:
        assert served.refuse("/api/rank", body)[0] == told


def test_word_vectors_of_a_file_serve_lists(tmp_path: Path) -> None:
    file = tmp_path / "some.vec"
    file.write_text("4 2\nnoon 1 0\nmidday 1 0.1\nknow 0 9\nyes 0 1\n", encoding="utf-8")
    lists = [{**LISTS[0], "reverse": [{"text": "midday"}]}]
    with serve({}, vectors=file) as served:
        answer = served.post("/api/rank", {"lists": lists, "similarity": "wmd"})
        assert answer["replies"][0]["text"] == "at noon"


def test_explain_takes_a_source_or_a_list(served: Served) -> None:
    both = {"source": "red", "list": LISTS[0]}
    for body in ({}, both):
        told, param = served.refuse("/api/explain", body)
        assert (told, param) == ("Give source, a string, or list, an n-best object, and not both.", "source")
    told, _ = served.refuse("/api/explain", {"list": {"regular": [{"score": 1}]}})
    assert told.startswith('list, regular[0]: the fields "text" and "tokens" are both missing')


def test_half_a_surrogate_pair_comes_back_as_it_was_sent(served: Served) -> None:
    odd = r'{"lists": [{"id": "\ud83d", "regular": [{"text": "\ud83d a"}], "reverse": [{"text": "a"}]}]}'
    answer = served.client.post("/api/rank", content=odd, headers={"content-type": "application/json"})

    assert answer.status_code == 200
    assert answer.json()["replies"] == [{"id": "\ud83d", "text": "\ud83d a"}]


def test_true_is_not_1_whoever_asked_before(served: Served) -> None:
    body = {"lists": LISTS, "similarity": "bleu_t"}
    served.post("/api/rank", {**body, "similarity_options": {"max_length": 1}})

    told, _ = served.refuse("/api/rank", {**body, "similarity_options": {"max_length": True}})

    assert "max_length (T) must be a whole number" in told


def test_work_that_nobody_waits_for_stops_at_a_step(
    toy_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = Event()

    def search_for_ever(*_: object) -> None:
        begun.set()
        while True:
            count(projected_rows=1)

    with serve({"toy": toy_model}, timeout_s=0.5) as served:
        with monkeypatch.context() as patch:
            patch.setattr(type(toy_model), "n_best", search_for_ever)
            served.refuse("/api/decode", {"source": "red"}, 504)
            assert begun.is_set()

        for _ in range(20):  # the first may still wait for the step
            if served.client.post("/api/decode", json={"source": "red"}).status_code == 200:
                return
    raise AssertionError("The worker never came back.")


@pytest.fixture
def slow(toy_model: Model) -> Iterator[Served]:
    with serve({"toy": toy_model}, timeout_s=0.2, max_wait_ms=60_000) as served:
        yield served


def test_a_request_that_takes_too_long_is_told_so(slow: Served) -> None:
    answer = slow.client.post("/api/decode", json={"source": "red"})

    assert answer.status_code == 504
    assert answer.json()["error"]["message"] == (
        "The answer took longer than 0.2 s, the most on this server: ask for less at once, or a smaller beam."
    )
