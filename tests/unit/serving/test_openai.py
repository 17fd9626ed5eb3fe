"""OpenAI's shapes, as OpenAI's own client reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

import bidibeam
from bidibeam import SearchSettings, load_decoder
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.base import Model
from bidibeam.serving.openai import token_log_probs
from tests.unit.models.huggingface.folders import write_joint
from tests.unit.serving.conftest import Served, serve

KEY = "secret"
SAID: Any = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "blue dog"},
    {"role": "assistant", "content": "blue dog !"},
    {"role": "user", "content": [{"type": "text", "text": "red "}, {"type": "text", "text": "cat"}]},
]
OURS: Any = {"strategy": "bidis", "beam_size": 6}


@pytest.fixture(scope="module")
def keyed(toy_model: Model) -> Iterator[Served]:
    with serve({"toy": toy_model}, api_key=KEY) as served:
        yield served


@pytest.fixture
def client(keyed: Served) -> openai.OpenAI:
    return openai.OpenAI(api_key=KEY, base_url="http://localhost/v1", http_client=keyed.client, max_retries=0)


def expected_texts(model: Model, source: str = "red cat") -> list[str]:
    decoder = load_decoder(model, OURS["strategy"], settings=SearchSettings(beam_size=6, max_length=9))
    return [each.text for each in decoder.decode([source])[0]]


def test_the_last_message_of_the_user_is_answered(client: openai.OpenAI, toy_model: Model) -> None:
    answer = client.chat.completions.create(model="toy", messages=SAID, n=3, max_tokens=9, extra_body=OURS)

    assert [choice.message.content for choice in answer.choices] == expected_texts(toy_model)[:3]
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert {choice.message.role for choice in answer.choices} == {"assistant"}
    assert answer.object == "chat.completion"
    assert answer.model == "toy"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 2
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert "strategy:bidis" in (answer.system_fingerprint or "")
    assert answer.choices[0].to_dict()["bidibeam"]["direction"] == "regular"  # type: ignore[index]


def test_log_probabilities_of_tokens_add_up_to_that_of_the_reply(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="toy", messages=SAID, logprobs=True, n=4, extra_body=OURS)

    for choice in answer.choices:
        assert choice.logprobs is not None
        content = choice.logprobs.content
        assert content is not None
        assert "".join(each.token for each in content) == choice.message.content
        assert b"".join(bytes(each.bytes or ()) for each in content).decode() == choice.message.content
        whole = choice.to_dict()["bidibeam"]["log_prob"]  # type: ignore[index]
        missing = whole - sum(each.logprob for each in content)  # the end token's
        assert -8 < missing <= 1e-4


def test_a_reply_that_is_cut_off_says_so(client: openai.OpenAI) -> None:
    long = client.chat.completions.create(
        model="toy", messages=SAID, max_tokens=2, n=2, extra_body={"strategy": "vbs", "beam_size": 2}
    )
    assert {choice.finish_reason for choice in long.choices} == {"length"}


def test_a_stream_is_the_whole_answer_in_one_chunk(client: openai.OpenAI, toy_model: Model) -> None:
    chunks = [
        *client.chat.completions.create(
            model="toy",
            messages=SAID,
            n=2,
            max_tokens=9,
            stream=True,
            stream_options={"include_usage": True},
            extra_body=OURS,
        )
    ]

    texts = ["", ""]
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == expected_texts(toy_model)[:2]
    reasons = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
    assert reasons == [None, None, "stop", None, None, "stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_stream_ends_with_done(keyed: Served) -> None:
    body = {"model": "toy", "prompt": "red cat", "stream": True}
    answer = keyed.client.post("/v1/completions", json=body, headers={"authorization": f"Bearer {KEY}"})

    events = answer.text.split("\n\n")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(json.loads(event.removeprefix("data: ")) for event in events[:-2])


def test_prompts_are_sources(client: openai.OpenAI, toy_model: Model) -> None:
    sources = ["red cat", "blue dog"]
    answer = client.completions.create(
        model="toy", prompt=sources, n=2, max_tokens=9, logprobs=0, extra_body=OURS
    )

    expected = [text for source in sources for text in expected_texts(toy_model, source)[:2]]
    assert [choice.text for choice in answer.choices] == expected
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    for choice in answer.choices:
        found = choice.logprobs
        assert found is not None
        assert found.tokens is not None
        assert found.text_offset is not None
        assert "".join(found.tokens) == choice.text
        pairs = zip(found.text_offset, found.tokens, strict=True)
        assert all(choice.text[at:].startswith(token) for at, token in pairs)
        assert len(found.token_logprobs or ()) == len(found.tokens)
    streamed = client.completions.create(
        model="toy", prompt="red cat", stream=True, max_tokens=9, extra_body=OURS
    )
    assert "".join(chunk.choices[0].text for chunk in streamed) == expected[0]


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["toy"]
    assert client.models.retrieve("toy").owned_by == "bidibeam"
    with pytest.raises(openai.NotFoundError, match="There is no model 'other'"):
        client.models.retrieve("other")


@pytest.mark.parametrize(
    ("options", "told", "param"),
    [
        ({"messages": [{"role": "system", "content": "x"}]}, "messages has none of the user", "messages"),
        (
            {"messages": [{"role": "user", "content": ""}]},
            "The last message of the user is empty.",
            "messages",
        ),
        ({"n": 9, "extra_body": {"beam_size": 2}}, "n is 9, and ", "n"),
        ({"n": 101}, "n must be at most 100 on this server, not 101.", "n"),
        ({"max_tokens": 1000}, "max_tokens must be at most 256 on this server, not 1,000.", "max_tokens"),
        ({"max_completion_tokens": 1000}, "must be at most 256 on this server", "max_completion_tokens"),
        ({"top_logprobs": 2}, "top_logprobs needs logprobs to be true.", "top_logprobs"),
        (
            {"tools": [{"type": "function", "function": {"name": "f"}}]},
            "A beam search calls no tools",
            "tools",
        ),
        (
            {"response_format": {"type": "json_object"}},
            "Replies are texts as the model writes them",
            "response_format",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "The last message of the user may hold texts alone.",
            "messages",
        ),
    ],
)
def test_what_a_beam_search_cannot_do_is_refused(
    client: openai.OpenAI, options: dict[str, Any], told: str, param: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{"model": "toy", "messages": SAID, **options})

    assert told in str(refused.value)
    assert refused.value.type == "invalid_request_error"
    assert param is None or refused.value.param == param


def test_a_wrong_key_and_an_unknown_model_are_what_the_client_expects(keyed: Served) -> None:
    wrong = openai.OpenAI(api_key="wrong", base_url="http://localhost/v1", http_client=keyed.client)
    with pytest.raises(openai.AuthenticationError, match="The API key is not the server's"):
        wrong.models.list()
    right = openai.OpenAI(api_key=KEY, base_url="http://localhost/v1", http_client=keyed.client)
    with pytest.raises(openai.NotFoundError) as refused:
        right.chat.completions.create(model="gpt", messages=SAID)
    assert refused.value.code == "model_not_found"


def test_what_openai_lets_be_null_may_be_null(client: openai.OpenAI) -> None:
    nulls: Any = {
        "n": None,
        "stream": None,
        "max_tokens": None,
        "logprobs": None,
        "stop": None,
        "tools": None,
    }

    plain = client.chat.completions.create(model="toy", messages=SAID)
    answer = client.chat.completions.create(model="toy", messages=SAID, **nulls)

    assert answer.choices[0].message.content == plain.choices[0].message.content
    options: Any = {"include_usage": None}
    assert [*client.completions.create(model="toy", prompt="red", stream=True, stream_options=options)]


def test_earlier_messages_may_hold_anything(client: openai.OpenAI) -> None:
    image: Any = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}

    assert client.chat.completions.create(model="toy", messages=[image, *SAID]).choices


@pytest.mark.parametrize("name", ["echo", "suffix"])
def test_a_prompt_is_not_repeated_nor_filled(client: openai.OpenAI, name: str) -> None:
    options: Any = {name: True if name == "echo" else "x"}

    with pytest.raises(openai.BadRequestError, match=f"A reply is what the model writes: leave {name} out"):
        client.completions.create(model="toy", prompt="red", **options)


def test_sampling_is_not_read(client: openai.OpenAI) -> None:
    plain = client.chat.completions.create(model="toy", messages=SAID)
    sampled = client.chat.completions.create(
        model="toy", messages=SAID, temperature=1.5, top_p=0.1, seed=3, user="me", presence_penalty=1.0
    )

    assert plain.choices[0].message.content == sampled.choices[0].message.content


@pytest.fixture(scope="module")
def joint_model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return bidibeam.load(write_joint(tmp_path_factory.mktemp("joint")), device="cpu")


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("kind", ["toy", "joint"])
def test_token_log_probabilities_are_sums_of_prefixes(
    toy_model: Model, joint_model: Model, kind: str, direction: Direction
) -> None:
    model: Model = {"toy": toy_model, "joint": joint_model}[kind]
    name = "vbs" if direction is Direction.REGULAR else "reverse-vbs"
    decoder = load_decoder(model, name, settings=SearchSettings(beam_size=4, max_length=8))
    (answer,) = decoder.answers([Beams("1", "red cat")])

    for entry in answer.ranking:
        values = token_log_probs(model, "red cat", entry)

        ids = entry.hypothesis.ids
        assert len(values) == len(ids)
        assert sum(values) == pytest.approx(entry.hypothesis.log_prob, abs=1e-3)
        scorer = model.sequence_scorer(direction)
        is_ended = ids[-1] == scorer.end_id
        written = direction.arrange(ids[:-1] if is_ended else ids)
        (half,) = scorer.log_probs(["red cat"], [[direction.arrange(written[:2])]])
        in_order = values[: len(written)] if direction is Direction.REGULAR else values[: len(written)][::-1]
        assert sum(in_order[:2]) == pytest.approx(half[0], abs=1e-3)


def test_pieces_of_any_tokenizer_make_up_the_text(joint_model: Model) -> None:
    with serve({"joint": joint_model}) as served:
        body = {
            "model": "joint",
            "prompt": "red cat",
            "n": 3,
            "logprobs": 1,
            "strategy": "vbs",
            "max_tokens": 6,
        }
        for choice in served.post("/v1/completions", body)["choices"]:
            assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
