"""The n-best format: what is written can be read, and what cannot be read is named by line."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked, Ranking
from bidibeam.interchange import nbest
from bidibeam.interchange.formats import FORMATS
from bidibeam.interchange.nbest import Jsonl
from bidibeam.scores import Signature
from tests.unit.interchange.formats.lists import beams_of, hypotheses_of, read, refusal, written

any_text = st.text(st.characters() | st.just("\udc80"))  # half a surrogate pair too
numbers = st.floats(allow_nan=False, allow_infinity=False)
hypotheses = hypotheses_of(any_text, any_text, numbers, 10**6)
rankings = st.lists(
    st.builds(
        Ranked,
        hypotheses,
        direction=st.sampled_from(Direction),
        place=st.integers(0, 9),
        score=numbers,
        partner=st.none() | st.integers(0, 9),
    ),
    max_size=2,
).map(lambda entries: Ranking(tuple(entries)))

HELLO = Hypothesis("hello there.", ("hello", "there", "."), -2.5, 4, -1.25, True, other_log_prob=-3.0)
FOUND: dict[str, Any] = {
    "text": "hello there.",
    "tokens": ["hello", "there", "."],
    "log_prob": -2.5,
    "other_log_prob": -3.0,
    "length": 4,
    "score": -1.25,
    "finished": True,
}
LINE: dict[str, Any] = {"id": "7", "source": "hi", "reference": None, "regular": [FOUND], "reverse": []}


def read_lines(*lines: object) -> list[Beams]:
    return list(nbest.read(io.StringIO("".join(json.dumps(line) + "\n" for line in lines)), allow_empty=True))


def test_a_line_is_exactly_the_documented_object_and_a_ranking_names_direction_and_place() -> None:
    beams = Beams("7", "hi", regular=NBest((HELLO,)))
    ranking = Ranking((Ranked(HELLO, Direction.REGULAR, 0, -0.5, partner=3),))

    assert nbest.to_json(beams) == json.dumps(LINE)  # in this order
    line = nbest.to_json(beams, ranking, Signature((("strategy", "bidia"), ("n", "4"))))
    reply = {"text": "hello there.", "score": -0.5, "direction": "regular", "place": 0, "partner": 3}
    expected = {"signature": "strategy:bidia|n:4", "replies": [reply]}
    assert line == json.dumps({**LINE, "ranking": expected})
    empty = json.loads(nbest.to_json(Beams("7", "hi"), Ranking()))
    assert empty["ranking"] == {"signature": None, "replies": []}


@given(beams_of(hypotheses, max_size=2, text=any_text), st.none() | rankings)
def test_what_is_written_is_read_again(written: list[Beams], ranking: Ranking | None) -> None:
    lines = "".join(nbest.to_json(beams, ranking) + "\n" for beams in written)

    assert list(nbest.read(io.BytesIO(lines.encode("utf-8")), allow_empty=True)) == written


@pytest.mark.parametrize("name", ["best.jsonl", "best.jsonl.gz", "best.jsonl.xz"])
def test_a_path_is_written_whole_and_read_plain_or_packed(tmp_path: Path, name: str) -> None:
    beams = [Beams("1", "hi\u2028you", "été", NBest((HELLO,)), NBest()), Beams("2", "")]
    path = tmp_path / name

    nbest.write(beams, path)

    assert list(nbest.read(path, allow_empty=True)) == beams
    unpacked = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix, bytes)(path.read_bytes())
    assert (
        unpacked.decode() == written(Jsonl(), beams) == "".join(f"{nbest.to_json(each)}\n" for each in beams)
    )
    assert "été".encode() in unpacked
    with pytest.raises(InputError):  # the file is left as it was if writing fails
        nbest.write([*beams, Beams("3", "", regular=NBest((HELLO._replace(score=math.nan),)))], path)
    assert list(nbest.read(path, allow_empty=True)) == beams
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_left_as_it_was_if_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "best.jsonl"
    path.write_text("before", encoding="utf-8")

    with pytest.raises(InputError):
        nbest.write(
            [Beams("1", "hi"), Beams("2", "hi", regular=NBest((HELLO._replace(score=math.nan),)))], path
        )

    assert path.read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["log_prob", "other_log_prob", "score"])
def test_a_number_that_is_not_finite_is_never_written(field: str, value: float) -> None:
    changes: dict[str, Any] = {field: value}
    beams = Beams("7", "hi", reverse=NBest((HELLO._replace(**changes),)))

    with pytest.raises(InputError, match=r"^The hypotheses for source '7' hold a number that is not finite;"):
        nbest.to_json(beams)


def test_half_a_surrogate_pair_is_written_as_an_escape() -> None:
    line = nbest.to_json(Beams("7", "\udc80"))

    assert "\\udc80" in line
    assert line.isascii()
    assert read(Jsonl(), line, allow_empty=True) == [Beams("7", "\udc80")]


def test_the_documented_examples_are_read() -> None:
    page = (Path(__file__).parents[3] / "docs" / "nbest.md").read_text(encoding="utf-8")

    minimal, full = re.findall(r"^```json\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)

    assert [len(beams.reverse) for beams in nbest.read(io.StringIO(minimal))] == [1, 2]
    (beams,) = nbest.read(io.StringIO(full))
    ranking = Ranking((Ranked(beams.regular.best, Direction.REGULAR, 0, -1.96),))
    assert nbest.to_json(beams, ranking, Signature((("strategy", "vbs"),))) + "\n" == full


def test_one_line_is_read_at_a_time_blank_ones_and_unknown_fields_are_passed_over() -> None:
    text = f"\n{json.dumps(LINE | {'rank': 3})}\r\n\nbroken"
    beams = nbest.read(io.BytesIO(text.encode()))

    assert next(beams).id == "7"
    with pytest.raises(InputError, match="line 4"):
        next(beams)


def test_texts_or_tokens_are_enough() -> None:
    (texts,) = read_lines(
        {"regular": [{"text": "I don't know."}, {"text": "so", "finished": False, "length": 9}]}
    )
    tokens, nothing = read_lines(
        {"id": 12, "reverse": [{"tokens": ["▁I", "▁do", "n't"]}, {"tokens": [], "finished": False}]},
        {"reverse": []},
    )

    words = ("i", "do", "n't", "know", ".")
    assert list(texts.regular) == [
        Hypothesis("I don't know.", words, None, 6, None),
        Hypothesis("so", ("so",), None, 9, None, finished=False),
    ]
    assert (texts.id, texts.source) == ("1", "")
    assert list(tokens.reverse) == [
        Hypothesis("▁I ▁do n't", ("▁I", "▁do", "n't"), None, 4, None),
        Hypothesis("", (), None, 0, None, finished=False),
    ]
    assert (tokens.id, nothing) == ("12", Beams("2", ""))


OPTIONAL = ("tokens", "log_prob", "other_log_prob", "length", "score", "finished")


@given(st.sets(st.sampled_from(OPTIONAL)), st.sets(st.sampled_from(["id", "source", "reverse"])))
def test_null_and_missing_are_the_same(of_hypothesis: set[str], of_source: set[str]) -> None:
    nulled = FOUND | dict.fromkeys(of_hypothesis)
    dropped = {key: value for key, value in FOUND.items() if key not in of_hypothesis}
    line = {key: value for key, value in LINE.items() if key not in of_source}

    (one,) = read_lines(LINE | dict.fromkeys(of_source) | {"regular": [nulled]})
    (other,) = read_lines(line | {"regular": [dropped]})

    assert one == other
    assert one.regular.best.text == "hello there."
    for key in ("log_prob", "other_log_prob", "score"):
        assert (getattr(one.regular.best, key) is None) == (key in of_hypothesis)


def test_line_numbers_come_along_and_a_whole_number_serves_as_a_log_probability() -> None:
    text = "\n" + json.dumps(LINE).replace("-2.5", "-2") + "\n\n" + json.dumps(LINE | {"id": None})

    found = list(Jsonl().read_numbered(io.StringIO(text)))

    assert [(number, beams.id) for number, beams in found] == [(2, "7"), (4, "4")]
    assert repr(found[0][1].regular.best.log_prob) == "-2.0"


NO_LISTS = (
    ': the fields "regular" and "reverse" are both missing; one of them must be there, a list of hypotheses.'
)
NOTHING = ': the source with the id "{}" has no hypotheses. Give it at least one, or leave the line out.'
SAME_ID = ': the id "{}" stands on line 1 already. Give every source an id of its own, or leave all ids out.'


def message_of(second_line: str) -> str:
    """What is said of a line that follows a good one."""
    stream = io.BytesIO(f"{json.dumps(LINE)}\n{second_line}\n".encode())
    with pytest.raises(InputError) as caught:
        list(nbest.read(stream))
    assert str(caught.value).startswith("<stream>, line 2")
    return str(caught.value).removeprefix("<stream>, line 2")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": 7.5}, ': "id" must be a string or a whole number, received the number 7.5.'),
        ({"id": True}, ': "id" must be a string or a whole number, received the boolean true.'),
        ({"source": 3}, ': "source" must be a string, received the number 3.'),
        ({"reference": ["a"]}, ': "reference" must be a string, received a list.'),
        ({"regular": {}}, ': "regular" must be a list, received an object.'),
        ({"regular": "hi"}, ': "regular" must be a list, received the string "hi".'),
        ({"regular": ["hi"]}, ', regular[0]: expected a hypothesis object, received the string "hi".'),
        ({"regular": None, "reverse": None}, NO_LISTS),
        ({"regular": [], "id": None}, NOTHING.format(2)),
        ({"id": "7"}, SAME_ID.format(7)),
        ({"id": 7}, SAME_ID.format(7)),
    ],
)
def test_a_source_that_does_not_fit_is_named_with_its_line(changes: dict[str, Any], message: str) -> None:
    assert message_of(json.dumps(LINE | {"id": "8"} | changes)) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": True}, '"text" must be a string, received the boolean true.'),
        ({"tokens": "hello"}, '"tokens" must be a list, received the string "hello".'),
        ({"tokens": ["a", 1]}, 'every one of "tokens" must be a string, received the number 1.'),
        (
            {"text": None, "tokens": None},
            'the fields "text" and "tokens" are both missing; one of them must be there.',
        ),
        ({"log_prob": "-1"}, '"log_prob" must be a finite number, received the string "-1".'),
        ({"log_prob": True}, '"log_prob" must be a finite number, received the boolean true.'),
        ({"log_prob": 10**400}, f'"log_prob" must be a finite number, received the number 1{"0" * 36}....'),
        ({"score": []}, '"score" must be a finite number, received a list.'),
        ({"other_log_prob": {}}, '"other_log_prob" must be a finite number, received an object.'),
        ({"length": 1.5}, '"length" must be a whole number, received the number 1.5.'),
        ({"length": True}, '"length" must be a whole number, received the boolean true.'),
        ({"length": -1}, '"length" must lie between 0 and 1,000,000, received the number -1.'),
        ({"finished": 1}, '"finished" must be true or false, received the number 1.'),
    ],
)
def test_a_hypothesis_that_does_not_fit_is_named(changes: dict[str, Any], message: str) -> None:
    line = LINE | {"id": "8", "regular": [FOUND, FOUND | changes]}

    assert message_of(json.dumps(line)) == f", regular[1]: {message}"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [LINE, LINE | {"id": "8", "regular": [], "reverse": [{"text": "hi"}]}],
            'line 2, reverse[0]: this hypothesis has no "tokens", unlike that of line 1, regular[0]. Give',
        ),
        (
            [{"regular": [{"text": "a"}, {"text": "b"}], "reverse": [{"text": "c"}, {"tokens": []}]}],
            'line 1, reverse[1]: this hypothesis has "tokens", unlike that of line 1, regular[0]. Give',
        ),
    ],
)
def test_tokens_here_and_none_there_are_refused_with_both_places(lines: list[object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_lines(*lines)

    assert str(caught.value).startswith(f"<stream>, {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"id": "7", ',
            "this is not JSON: Expecting property name enclosed in double quotes at column 13.",
        ),
        ("[1]", "expected a JSON object, received a list."),
        ('{"id": NaN}', "this is not usable JSON: NaN is not a number in JSON."),
        ('{"id": -Infinity}', "this is not usable JSON: -Infinity is not a number in JSON."),
        (json.dumps(LINE).replace("-2.5", "-1e999"), "received the number -Infinity."),
        ("[" * 100_000, "this is not usable JSON: maximum recursion depth exceeded"),
        ("9" * 5_000, "this is not usable JSON: Exceeds the limit"),
    ],
)
def test_a_line_that_is_no_such_json_is_named(text: str, message: str) -> None:
    assert message in message_of(text)


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

    order = (
        Hypothesis("c", ("c",), -3.0, 2, 0.5, other_log_prob=-2.0),
        Hypothesis("a", ("a",), -1.0, 2, 0.25),
        Hypothesis("b", ("b",), None, 2, 0.0),
    )
    assert read(Jsonl(ranked=True), content) == [Beams("x", "who?", regular=NBest(order))]
    assert [found.text for found in read(Jsonl(), content)[0].regular] == ["a", "b"]
    assert read(Jsonl(ranked=True), f"\n{ranked_line()}", allow_empty=True) == [Beams("x", "who?")]


UNRANKED = 'line 1: there is no "ranking"; `bidibeam rerank --n-best FILE` writes one.'
LINES = {
    ranked_line(ranking=None): UNRANKED,
    ranked_line(ranking={"replies": 3}): UNRANKED,
    ranked_line(3): "line 1, replies[0]: expected an object, received the number 3.",
    ranked_line(reply("regular", 2)): "line 1, replies[0]: there is no hypothesis regular[2] on this line.",
    ranked_line(reply("up", 0)): "line 1, replies[0]: there is no hypothesis up[0] on this line.",
    ranked_line({"direction": "regular", "place": 0}): (
        'line 1, replies[0]: the field "score" is missing; it must be a finite number.'
    ),
    ranked_line(): f"line 1{NOTHING.format('x')}",
    f"{ranked_line(reply('regular', 0))}\n{ranked_line(reply('regular', 0))}": f"line 2{SAME_ID.format('x')}",
}


@pytest.mark.parametrize(("content", "message"), LINES.items())
def test_a_ranking_that_does_not_fit_is_named(content: str, message: str) -> None:
    assert refusal(Jsonl(ranked=True), content) == f"in, {message}"


def test_the_formats_have_their_names() -> None:
    assert FORMATS.names() == ["jsonl", "moses", "fairseq", "mbrs", "openai"]
    with pytest.raises(Exception, match=r"^Unknown n-best format 'mose'\. Did you mean 'moses'\?"):
        FORMATS.get("mose")
