"""Our own format among the others, and the order that a ranking gives its lists."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.interchange import nbest
from bidibeam.interchange.formats import FORMATS
from bidibeam.interchange.nbest import Jsonl
from tests.unit.interchange.formats.lists import beams_of, hypotheses, read, refusal, written


@given(beams_of(hypotheses, max_size=3))
def test_everything_is_read_back(beams: list[Beams]) -> None:
    content = written(Jsonl(), beams)

    assert content == "".join(f"{nbest.to_json(each)}\n" for each in beams)
    assert read(Jsonl(), content, allow_empty=True) == beams


def ranked_line(*replies: Any, **fields: Any) -> str:
    lists = {
        "id": "x",
        "source": "who?",
        "regular": [{"text": "a", "log_prob": -1, "score": -0.5}, {"text": "b"}],
        "reverse": [{"text": "c", "log_prob": -2, "other_log_prob": -3}],
    }
    return json.dumps({**lists, "ranking": {"signature": "s", "replies": list(replies)}, **fields})


def reply(direction: str, place: int, score: float = 0.25) -> dict[str, Any]:
    return {"text": "?", "score": score, "direction": direction, "place": place, "partner": None}


def test_a_ranking_is_read_as_one_list_in_its_order_with_its_scores() -> None:
    content = ranked_line(reply("reverse", 0, 0.5), reply("regular", 0), reply("regular", 1, 0.0))

    assert read(Jsonl(ranked=True), content) == [
        Beams(
            "x",
            "who?",
            regular=NBest(
                (
                    Hypothesis("c", ("c",), -3.0, 2, 0.5, other_log_prob=-2.0),
                    Hypothesis("a", ("a",), -1.0, 2, 0.25),
                    Hypothesis("b", ("b",), None, 2, 0.0),
                )
            ),
        )
    ]
    assert [found.text for found in read(Jsonl(), content)[0].regular] == ["a", "b"]
    assert read(Jsonl(ranked=True), f"\n{ranked_line()}", allow_empty=True) == [Beams("x", "who?")]


LINES = {
    ranked_line(ranking=None): 'line 1: there is no "ranking"; `bidibeam rerank --n-best FILE` writes one.',
    ranked_line(ranking={"replies": 3}): (
        'line 1: there is no "ranking"; `bidibeam rerank --n-best FILE` writes one.'
    ),
    ranked_line(3): "line 1, replies[0]: expected an object, received the number 3.",
    ranked_line(reply("regular", 2)): "line 1, replies[0]: there is no hypothesis regular[2] on this line.",
    ranked_line(reply("up", 0)): "line 1, replies[0]: there is no hypothesis up[0] on this line.",
    ranked_line({"direction": "regular", "place": 0}): (
        'line 1, replies[0]: the field "score" is missing; it must be a finite number.'
    ),
    ranked_line(): (
        "line 1: the source with the id 'x' has no hypotheses. Give it at least one, or leave it out."
    ),
    f"{ranked_line(reply('regular', 0))}\n{ranked_line(reply('regular', 0))}": (
        "line 2: the id 'x' stands on line 1 already."
    ),
}


@pytest.mark.parametrize(("content", "message"), LINES.items())
def test_a_ranking_that_does_not_fit_is_named(content: str, message: str) -> None:
    assert refusal(Jsonl(ranked=True), content) == f"in, {message}"


def test_the_formats_have_their_names() -> None:
    assert FORMATS.names() == ["jsonl", "moses", "fairseq", "mbrs", "openai"]
    with pytest.raises(Exception, match=r"^Unknown n-best format 'mose'\. Did you mean 'moses'\?"):
        FORMATS.get("mose")
