"""Responses of the OpenAI API: those that its Python package wrote are read; ours have the same fields."""

from __future__ import annotations

import json

from hypothesis import given

from bidibeam.data import words
from bidibeam.hypotheses import Beams, Direction, Hypothesis
from bidibeam.interchange.formats.openai import OpenAI
from tests.unit.interchange.formats import lists as made
from tests.unit.interchange.formats.lists import FILES, listed, read, said, written

CHAT = FILES / "openai-chat.jsonl"


def test_chat_completions_are_read_by_index_with_the_sum_of_their_log_probs() -> None:
    first, second = OpenAI().read(CHAT)

    assert (first.id, second.id) == ("chatcmpl-A1", "chatcmpl-B2")
    assert list(first.regular) == [
        Hypothesis("At home.", ("at", "home", "."), -1.75, 3, None),
        Hypothesis("I'm at work.", ("i", "'m", "at", "work", "."), -2.4375, 5, None),
        Hypothesis("Well,", ("well", ","), -2.5, 2, None, finished=False),
    ]
    assert [(found.text, found.log_prob, found.length) for found in second.regular] == [
        ("Yes.\n", None, 3),
        ("Café?", None, 3),
    ]


def test_completions_are_read() -> None:
    (beams,) = OpenAI(direction=Direction.REVERSE).read(FILES / "openai-completions.jsonl")

    assert beams.id == "cmpl-7"
    assert [(found.text, found.log_prob, found.length, found.finished) for found in beams.reverse] == [
        (" At home.", -1.75, 3, True),
        (" No", -2.5, 1, False),
    ]


def test_a_batch_is_read_under_the_ids_of_its_requests() -> None:
    second, first = OpenAI().read(FILES / "openai-batch.jsonl")
    alone = list(OpenAI().read(CHAT))

    assert (first.id, second.id) == ("request-1", "request-2")
    assert [first.regular, second.regular] == [each.regular for each in alone]


@given(made.beams_of(made.hypotheses))
def test_ids_texts_and_ends_are_read_back(beams: list[Beams]) -> None:
    beams = [each for each in beams if each.regular] + [listed("half", "a\udc80")]
    again = read(OpenAI(), written(OpenAI(), beams))

    assert [each.id for each in again] == [each.id for each in beams]
    for one, each in zip(again, beams, strict=True):
        assert [(found.text, found.finished) for found in one.regular] == [
            (found.text, found.finished) for found in each.regular
        ]
        for found in one.regular:
            assert found.tokens == tuple(words.split(found.text))
            assert found.length == len(found.tokens) + found.finished
            assert found.log_prob is found.score is None


def test_what_is_written_has_the_fields_that_the_package_writes() -> None:
    """Those that it requires: the others may be left out."""
    (line,) = written(OpenAI(), [listed("x", said("a", -1.0))]).splitlines()
    ours, theirs = json.loads(line), json.loads(CHAT.read_text().splitlines()[1])

    assert ours.keys() == {"id", "object", "created", "model", "choices"}
    assert ours["object"] == theirs["object"]
    assert ours["choices"][0].keys() == theirs["choices"][0].keys()
    assert ours["choices"][0]["message"] == {"role": "assistant", "content": "a", "refusal": None}
    for key, value in ours.items():
        assert type(value) is type(theirs[key])


def test_what_is_missing_is_not_made_up() -> None:
    echoed = {"text": "a b", "logprobs": {"token_logprobs": [None, -1.0]}}
    (beams,) = read(OpenAI(), json.dumps({"choices": [echoed, {"text": "", "logprobs": {"content": []}}]}))

    assert beams.id == "1"
    assert [(found.log_prob, found.length) for found in beams.regular] == [(None, 3), (None, 1)]
