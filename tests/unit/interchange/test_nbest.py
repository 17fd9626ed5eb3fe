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
from bidibeam.scores import Signature

any_text = st.text(st.characters() | st.just("\udc80"))  # half a surrogate pair too
numbers = st.floats(allow_nan=False, allow_infinity=False)
maybe_numbers = st.none() | numbers
hypotheses = st.builds(
    Hypothesis,
    text=any_text,
    tokens=st.lists(any_text, max_size=3).map(tuple),
    log_prob=maybe_numbers,
    length=st.integers(0, 10**6),
    score=maybe_numbers,
    finished=st.booleans(),
    other_log_prob=maybe_numbers,
    multiplicity=st.just(1),
    ids=st.just(()),
)
beam = st.lists(hypotheses, max_size=2).map(lambda found: NBest(tuple(found)))
all_beams = st.lists(
    st.builds(Beams, any_text, any_text, st.none() | any_text, regular=beam, reverse=beam),
    max_size=3,
    unique_by=lambda beams: beams.id,
)
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


def test_a_ranking_names_hypotheses_by_direction_and_place() -> None:
    beams = Beams("7", "hi", regular=NBest((HELLO,)))
    ranking = Ranking((Ranked(HELLO, Direction.REGULAR, 0, -0.5, partner=3),))

    line = json.loads(nbest.to_json(beams, ranking, Signature((("strategy", "bidia"), ("n", "4")))))

    expected = {
        "signature": "strategy:bidia|n:4",
        "replies": [
            {"text": "hello there.", "score": -0.5, "direction": "regular", "place": 0, "partner": 3}
        ],
    }
    assert line == LINE | {"ranking": expected}
    assert list(line) == [*LINE, "ranking"]
    assert list(line["ranking"]) == list(expected)
    assert list(line["ranking"]["replies"][0]) == ["text", "score", "direction", "place", "partner"]


def test_an_empty_ranking_of_unknown_origin_can_be_written() -> None:
    line = json.loads(nbest.to_json(Beams("7", "hi"), Ranking()))

    assert line["ranking"] == {"signature": None, "replies": []}


@given(all_beams, st.none() | rankings)
def test_what_is_written_is_read_again(written: list[Beams], ranking: Ranking | None) -> None:
    lines = "".join(nbest.to_json(beams, ranking) + "\n" for beams in written)

    assert list(nbest.read(io.BytesIO(lines.encode("utf-8")), allow_empty=True)) == written


@pytest.mark.parametrize("name", ["best.jsonl", "best.jsonl.gz", "best.jsonl.xz"])
def test_a_path_is_written_whole_and_read_plain_or_packed(tmp_path: Path, name: str) -> None:
    beams = [Beams("1", "hi\u2028you", "été", NBest((HELLO,)), NBest()), Beams("2", "")]
    path = tmp_path / name

    nbest.write(beams, path)

    assert list(nbest.read(path, allow_empty=True)) == beams
    content = path.read_bytes()
    unpacked = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix, bytes)(content)
    assert "été".encode() in unpacked


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

    with pytest.raises(
        InputError, match=r"^The hypotheses for source '7' hold a number that is not finite; an"
    ):
        nbest.to_json(beams)


def test_half_a_surrogate_pair_is_written_as_an_escape() -> None:
    line = nbest.to_json(Beams("7", "\udc80"))

    assert "\\udc80" in line
    assert line.isascii()
    assert nbest.from_json(line).source == "\udc80"


def test_the_documented_examples_are_read() -> None:
    page = (Path(__file__).parents[3] / "docs" / "nbest.md").read_text(encoding="utf-8")

    minimal, full = re.findall(r"^```json\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)

    texts_only = list(nbest.read(io.StringIO(minimal)))
    assert [len(beams.reverse) for beams in texts_only] == [1, 2]
    (beams,) = nbest.read(io.StringIO(full))
    ranking = Ranking((Ranked(beams.regular.best, Direction.REGULAR, 0, -1.96),))
    assert nbest.to_json(beams, ranking, Signature((("strategy", "vbs"),))) + "\n" == full


def test_reading_streams() -> None:
    lines = iter([json.dumps(LINE), "broken"])
    beams = nbest.read(io.BytesIO("\n".join(lines).encode()))

    assert next(beams).id == "7"
    with pytest.raises(InputError, match="line 2"):
        next(beams)


def test_blank_lines_and_unknown_fields_are_passed_over() -> None:
    text = "\n" + json.dumps(LINE | {"rank": 3}) + "\r\n\n"

    assert [beams.id for beams in nbest.read(io.StringIO(text))] == ["7"]


def read_lines(*lines: object) -> list[Beams]:
    return list(nbest.read(io.StringIO("".join(json.dumps(line) + "\n" for line in lines))))


def test_texts_are_enough() -> None:
    (beams,) = read_lines({"regular": [{"text": "I don't know."}]})

    words = ("i", "do", "n't", "know", ".")
    assert beams == Beams("1", "", regular=NBest((Hypothesis("I don't know.", words, None, 6, None),)))


def test_a_line_by_itself_is_the_first() -> None:
    assert nbest.from_json('{"reverse": []}') == Beams("1", "")


def test_tokens_are_enough() -> None:
    (beams,) = read_lines({"id": 12, "reverse": [{"tokens": ["▁I", "▁do", "n't"]}]})

    found = Hypothesis("▁I ▁do n't", ("▁I", "▁do", "n't"), None, 4, None)
    assert beams == Beams("12", "", reverse=NBest((found,)))


def test_a_reply_that_was_cut_off_has_no_end_to_count() -> None:
    (beams,) = read_lines({"regular": [{"text": "and so on", "finished": False}]})

    assert beams.regular.best.length == 3
    assert not beams.regular.best.finished


def test_a_length_that_is_given_stays() -> None:
    (beams,) = read_lines({"regular": [{"text": "hi", "length": 9}]})

    assert beams.regular.best.length == 9


OPTIONAL = ("tokens", "log_prob", "other_log_prob", "length", "score", "finished")


@given(st.sets(st.sampled_from(OPTIONAL)), st.sets(st.sampled_from(["id", "source", "reverse"])))
def test_null_and_missing_are_the_same(of_hypothesis: set[str], of_source: set[str]) -> None:
    nulled = LINE["regular"][0] | dict.fromkeys(of_hypothesis)
    dropped = {key: value for key, value in LINE["regular"][0].items() if key not in of_hypothesis}
    line = {key: value for key, value in LINE.items() if key not in of_source}

    one = nbest.from_json(json.dumps(LINE | dict.fromkeys(of_source) | {"regular": [nulled]}))
    other = nbest.from_json(json.dumps(line | {"regular": [dropped]}))

    assert one == other
    assert one.regular.best.text == "hello there."
    for key in ("log_prob", "other_log_prob", "score"):
        assert (getattr(one.regular.best, key) is None) == (key in of_hypothesis)


def test_line_numbers_come_along() -> None:
    text = "\n" + json.dumps(LINE) + "\n\n" + json.dumps(LINE | {"id": None})

    assert [(number, beams.id) for number, beams in nbest.read_numbered(io.StringIO(text))] == [
        (2, "7"),
        (4, "4"),
    ]


def test_a_whole_number_serves_as_a_log_probability() -> None:
    text = json.dumps(LINE).replace("-2.5", "-2")

    log_prob = nbest.from_json(text).regular.best.log_prob

    assert isinstance(log_prob, float)
    assert log_prob == -2.0


NO_LISTS = (
    ': the fields "regular" and "reverse" are both missing; one of them must be there, a list of hypotheses.'
)
SAME_ID = ': the id "7" stands on line 1 already. Give every source an id of its own, or leave all ids out.'


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
        (
            {"regular": [], "id": None},
            ': the source with the id "2" has no hypotheses. Give it at least one, or leave the line out.',
        ),
        ({"id": "7"}, SAME_ID),
        ({"id": 7}, SAME_ID),
    ],
)
def test_a_source_that_does_not_fit_is_named_with_its_line(changes: dict[str, Any], message: str) -> None:
    assert message_of(json.dumps(LINE | {"id": "8"} | changes)) == f"<stream>, line 2{message}"


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
    line = LINE | {"id": "8", "regular": [LINE["regular"][0], LINE["regular"][0] | changes]}

    assert message_of(json.dumps(line)) == f"<stream>, line 2, regular[1]: {message}"


def test_tokens_on_one_line_and_none_on_another_are_refused_with_both_places() -> None:
    line = LINE | {"id": "8", "regular": [], "reverse": [{"text": "hi"}]}

    assert message_of(json.dumps(line)) == (
        '<stream>, line 2, reverse[0]: this hypothesis has no "tokens", unlike that of line 1, regular[0]. '
        "Give tokens to every hypothesis of a file, or to none."
    )


def test_tokens_in_one_hypothesis_and_none_in_another_are_refused_with_both_places() -> None:
    line = {"regular": [{"text": "a"}, {"text": "b"}], "reverse": [{"text": "c"}, {"tokens": []}]}

    with pytest.raises(InputError) as caught:
        read_lines(line)

    assert str(caught.value) == (
        '<stream>, line 1, reverse[1]: this hypothesis has "tokens", unlike that of line 1, regular[0]. '
        "Give tokens to every hypothesis of a file, or to none."
    )


def test_a_line_number_that_serves_as_an_id_is_no_other_sources_id() -> None:
    with pytest.raises(InputError, match=r'line 2: the id "2" stands on line 1 already\.'):
        read_lines(LINE | {"id": "2"}, LINE | {"id": None})


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
    found = message_of(text)

    assert found.startswith("<stream>, line 2")
    assert message in found


def message_of(second_line: str) -> str:
    """What is said of a line that follows a good one."""
    stream = io.BytesIO(f"{json.dumps(LINE)}\n{second_line}\n".encode())
    with pytest.raises(InputError) as caught:
        list(nbest.read(stream))
    return str(caught.value)
