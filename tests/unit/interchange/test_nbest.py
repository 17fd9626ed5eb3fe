"""The n-best format: what is written can be read, and what cannot be read is named by line."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.interchange import nbest

any_text = st.text(st.characters() | st.just("\udc80"))  # half a surrogate pair too
numbers = st.floats(allow_nan=False, allow_infinity=False)
hypotheses = st.builds(
    Hypothesis,
    text=any_text,
    tokens=st.lists(any_text, max_size=3).map(tuple),
    log_prob=numbers,
    length=st.integers(0, 10**6),
    score=numbers,
    finished=st.booleans(),
    other_log_prob=st.none() | numbers,
    multiplicity=st.just(1),
)
beam = st.lists(hypotheses, max_size=2).map(lambda found: NBest(tuple(found)))
all_beams = st.lists(
    st.builds(Beams, any_text, any_text, st.none() | any_text, regular=beam, reverse=beam), max_size=3
)

HELLO = Hypothesis("hello there.", ("hello", "there", "."), -2.5, 4, -1.25, True, other_log_prob=-3.0)
LINE: dict[str, Any] = {
    "id": "7",
    "source": "hi",
    "reference": None,
    "regular": [
        {
            "text": "hello there.",
            "tokens": ["hello", "there", "."],
            "log_prob": -2.5,
            "other_log_prob": -3.0,
            "length": 4,
            "score": -1.25,
            "finished": True,
        }
    ],
    "reverse": [],
}


def test_a_line_is_exactly_the_documented_object() -> None:
    line = nbest.to_json(Beams("7", "hi", regular=NBest((HELLO,))))

    assert json.loads(line) == LINE
    assert list(json.loads(line)) == list(LINE)
    assert list(json.loads(line)["regular"][0]) == list(LINE["regular"][0])


@given(all_beams)
def test_what_is_written_is_read_again(written: list[Beams]) -> None:
    lines = "".join(nbest.to_json(beams) + "\n" for beams in written)

    assert list(nbest.read(io.BytesIO(lines.encode("utf-8")))) == written


@pytest.mark.parametrize("name", ["best.jsonl", "best.jsonl.gz", "best.jsonl.xz"])
def test_a_path_is_written_whole_and_read_plain_or_packed(tmp_path: Path, name: str) -> None:
    beams = [Beams("1", "hi\u2028you", "été", NBest((HELLO,)), NBest()), Beams("2", "")]
    path = tmp_path / name

    nbest.write(beams, path)

    assert list(nbest.read(path)) == beams
    content = path.read_bytes()
    unpacked = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix, bytes)(content)
    assert "été".encode() in unpacked


def test_a_file_is_left_as_it_was_if_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "best.jsonl"
    path.write_text("before", encoding="utf-8")

    with pytest.raises(InputError):
        nbest.write(
            [Beams("1", "hi"), Beams("2", "hi", regular=NBest((replace(HELLO, score=math.nan),)))], path
        )

    assert path.read_text(encoding="utf-8") == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["log_prob", "other_log_prob", "score"])
def test_a_number_that_is_not_finite_is_never_written(field: str, value: float) -> None:
    changes: dict[str, Any] = {field: value}
    beams = Beams("7", "hi", reverse=NBest((replace(HELLO, **changes),)))

    with pytest.raises(
        InputError, match=r"^The hypotheses for source '7' hold a number that is not finite; an"
    ):
        nbest.to_json(beams)


def test_half_a_surrogate_pair_is_written_as_an_escape() -> None:
    line = nbest.to_json(Beams("7", "\udc80"))

    assert "\\udc80" in line
    assert line.isascii()
    assert nbest.from_json(line).source == "\udc80"


def test_reading_streams() -> None:
    lines = iter([json.dumps(LINE), "broken"])
    beams = nbest.read(io.BytesIO("\n".join(lines).encode()))

    assert next(beams).id == "7"
    with pytest.raises(InputError, match="line 2"):
        next(beams)


def test_blank_lines_and_unknown_fields_are_passed_over() -> None:
    text = "\n" + json.dumps(LINE | {"rank": 3}) + "\r\n\n"

    assert [beams.id for beams in nbest.read(io.StringIO(text))] == ["7"]


def test_a_null_field_may_be_left_out() -> None:
    line = json.loads(json.dumps(LINE))
    del line["reference"], line["regular"][0]["other_log_prob"]

    beams = nbest.from_json(json.dumps(line))

    assert beams.reference is None
    assert beams.regular.best.other_log_prob is None


def test_a_whole_number_serves_as_a_log_probability() -> None:
    text = json.dumps(LINE).replace("-2.5", "-2")

    log_prob = nbest.from_json(text).regular.best.log_prob

    assert isinstance(log_prob, float)
    assert log_prob == -2.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": 7}, '"id" must be a string, received the number 7.'),
        ({"source": None}, '"source" must be a string, received null.'),
        ({"reference": ["a"]}, '"reference" must be a string, received a list.'),
        ({"regular": {}}, '"regular" must be a list, received an object.'),
        ({"regular": ["hi"]}, 'regular[0]: expected a hypothesis object, received the string "hi".'),
    ],
)
def test_a_field_of_another_type_is_named_with_its_line(changes: dict[str, Any], message: str) -> None:
    check_message(json.dumps(LINE | changes), message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text": True}, '"text" must be a string, received the boolean true.'),
        ({"tokens": ["a", 1]}, 'every one of "tokens" must be a string, received the number 1.'),
        ({"log_prob": "-1"}, '"log_prob" must be a finite number, received the string "-1".'),
        ({"log_prob": True}, '"log_prob" must be a finite number, received the boolean true.'),
        ({"log_prob": 10**400}, f'"log_prob" must be a finite number, received the number 1{"0" * 36}....'),
        ({"length": 1.5}, '"length" must be a whole number, received the number 1.5.'),
        ({"length": True}, '"length" must be a whole number, received the boolean true.'),
        ({"length": -1}, '"length" must not be negative, received the number -1.'),
        ({"finished": 1}, '"finished" must be true or false, received the number 1.'),
    ],
)
def test_a_hypothesis_field_of_another_type_is_named(changes: dict[str, Any], message: str) -> None:
    line = LINE | {"regular": [LINE["regular"][0], LINE["regular"][0] | changes]}

    check_message(json.dumps(line), f"regular[1]: {message}")


@pytest.mark.parametrize("key", ["id", "source", "regular", "reverse"])
def test_a_missing_field_is_named(key: str) -> None:
    line = {name: value for name, value in LINE.items() if name != key}

    check_message(json.dumps(line), f'the field "{key}" is missing; it must be a')


@pytest.mark.parametrize("key", ["text", "tokens", "log_prob", "length", "score", "finished"])
def test_a_missing_field_of_a_hypothesis_is_named(key: str) -> None:
    hypothesis = {name: value for name, value in LINE["regular"][0].items() if name != key}

    check_message(json.dumps(LINE | {"reverse": [hypothesis]}), f'reverse[0]: the field "{key}" is missing')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "7", ', "this is not JSON: Expecting property name enclosed in double quotes at column"),
        ("[1]", "expected a JSON object, received a list."),
        ('{"id": NaN}', "this is not usable JSON: NaN is not a number in JSON."),
        ('{"id": -Infinity}', "this is not usable JSON: -Infinity is not a number in JSON."),
        (json.dumps(LINE).replace("-2.5", "-1e999"), "received the number -Infinity."),
        ("[" * 100_000, "this is not usable JSON: maximum recursion depth exceeded"),
        ("9" * 5_000, "this is not usable JSON: Exceeds the limit"),
    ],
)
def test_a_line_that_is_no_such_json_is_named(text: str, message: str) -> None:
    check_message(text, message)


def check_message(second_line: str, message: str) -> None:
    stream = io.BytesIO(f"{json.dumps(LINE)}\n{second_line}\n".encode())
    with pytest.raises(InputError) as caught:
        list(nbest.read(stream))
    assert str(caught.value).startswith("<stream>, line 2")
    assert message in str(caught.value)
