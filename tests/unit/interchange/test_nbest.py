"""The n-best format: what is written can be read, and what cannot be read is named by line."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked, Ranking
from bidibeam.interchange import nbest
from bidibeam.interchange.nbest import Jsonl
from bidibeam.scores import Signature
from tests.unit.interchange.formats.lists import (
    FOUND,
    LINE,
    beams_of,
    hypotheses_of,
    ranked_line,
    read,
    reply,
    written,
)

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
    beams = [Beams("1", "hi\u2028you", ("été",), NBest((HELLO,)), NBest()), Beams("2", "")]
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

    first, second = Jsonl().read(io.StringIO(text))

    assert [(beams.line, beams.id) for beams in (first, second)] == [(2, "7"), (4, "4")]
    assert repr(first.regular.best.log_prob) == "-2.0"


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
