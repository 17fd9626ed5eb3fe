"""Replies and references, as files hold them."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from bidibeam.errors import InputError
from bidibeam.interchange.replies import is_nbest, model_of, read_references, read_replies, whole
from bidibeam.interchange.sources import read_sources

RANKED = {
    "id": "x",
    "source": "where?",
    "reference": "at home",
    "regular": [{"text": "no"}, {"text": "at work"}],
    "reverse": [{"text": "home"}],
    "ranking": {"signature": "strategy:bidia|T:20", "replies": [{"text": "at work", "score": 1.0}]},
}
PLAIN = {key: value for key, value in RANKED.items() if key != "ranking"}


def stream(path: Path, *lines: object) -> io.StringIO:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())
    return whole(path)


def texts(opened: io.StringIO) -> list[list[str]]:
    return [[hypothesis.text for hypothesis in reply.beams.regular] for reply in read_replies(opened)]


def test_a_line_of_text_is_a_reply_and_a_blank_one_an_empty_reply(tmp_path: Path) -> None:
    replies = list(read_replies(stream(tmp_path / "r.txt", "Not now.", "", "a\u2028b\r")))

    assert [reply.beams.regular.best.text for reply in replies] == ["Not now.", "", "a\u2028b"]
    assert [reply.beams.regular.best.tokens for reply in replies] == [("not", "now", "."), (), ("a", "b")]
    assert [(reply.number, reply.beams.id, reply.found) for reply in replies][1] == (2, "2", 0)
    assert {(reply.beams.reference, reply.signature) for reply in replies} == {(None, None)}


def test_of_lists_it_is_the_first_of_the_ranking(tmp_path: Path) -> None:
    (reply,) = read_replies(stream(tmp_path / "r.jsonl", "", RANKED))

    assert reply.beams.regular.best.text == "at work"
    assert (reply.number, reply.found, reply.signature) == (2, 3, "strategy:bidia|T:20")
    assert (reply.beams.id, reply.beams.source, reply.beams.reference) == ("x", "where?", "at home")


def test_or_of_the_regular_list_where_there_is_no_ranking(tmp_path: Path) -> None:
    lines = [PLAIN, {"regular": [], "reverse": [{"text": "b"}]}, {**PLAIN, "id": 7, "ranking": None}]

    assert texts(stream(tmp_path / "r.jsonl", *lines)) == [["no"], [], ["no"]]


def test_nothing_found_is_no_reply(tmp_path: Path) -> None:
    line = {**RANKED, "ranking": {"signature": "s", "replies": []}}

    assert texts(stream(tmp_path / "r.jsonl", line)) == [[]]


def test_lists_are_told_from_text_by_name_or_by_what_is_in_them(tmp_path: Path) -> None:
    assert is_nbest(stream(tmp_path / "lists", "", RANKED))
    assert is_nbest(stream(tmp_path / "some.jsonl", "text"))
    assert not is_nbest(stream(tmp_path / "text", '{"no": "lists"}'))
    assert not is_nbest(stream(tmp_path / "text", '{"half'))
    assert not is_nbest(stream(tmp_path / "text"))
    (tmp_path / "p.jsonl.gz").write_bytes(gzip.compress(json.dumps(RANKED).encode()))
    assert texts(whole(tmp_path / "p.jsonl.gz")) == [["at work"]]
    assert texts(whole(io.BytesIO(json.dumps(RANKED).encode()))) == [["at work"]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({**RANKED, "ranking": []}, '"ranking" must be an object, received a list.'),
        ({**RANKED, "ranking": {"replies": 3}}, '"replies" must be a list, received the number 3.'),
        (
            {**RANKED, "ranking": {"replies": [{"score": 1}]}},
            'the first of "replies" in its "ranking" has no "text".',
        ),
        (
            {**RANKED, "ranking": {"replies": ["hello"]}},
            'the first of "replies" in its "ranking" has no "text".',
        ),
        ({**PLAIN, "regular": "no"}, '"regular" must be a list, received the string "no".'),
        ({**PLAIN, "regular": [{}]}, None),
        (
            PLAIN,
            (
                "its replies were ranked by nothing, but those of line 1 by strategy:bidia|T:20. Give each "
                "system a file of its own."
            ),
        ),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, line: dict[str, Any], message: str | None) -> None:
    with pytest.raises(InputError) as error:
        list(read_replies(stream(tmp_path / "r.jsonl", RANKED, line)))

    place = f"{tmp_path / 'r.jsonl'}, line 2"
    if message is None:
        message = 'the fields "text" and "tokens" are both missing; one of them must be there.'
        place = f"{place}, regular[0]"
    assert str(error.value) == f"{place}: {message}"


def test_references_are_lines_of_text_or_fields_of_objects(tmp_path: Path) -> None:
    assert read_references(stream(tmp_path / "r.txt", "a b", "", "c")) == ["a b", "", "c"]
    objects = [{"reference": "a"}, "", {"source": "x", "response": "b"}, {**RANKED, "response": "no"}]
    assert read_references(stream(tmp_path / "r.jsonl", *objects)) == ["a", "b", "at home"]
    assert read_references(stream(tmp_path / "without-ending", RANKED)) == ["at home"]
    assert read_references(stream(tmp_path / "empty")) == []


def test_an_object_without_a_reference_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'r\.jsonl, line 2: there is no "reference"\.$'):
        read_references(stream(tmp_path / "r.jsonl", {"reference": "a"}, {"source": "b"}))


@pytest.mark.parametrize("name", ["r.tsv", "r.tsv.gz"])
def test_of_a_table_the_second_column_is_the_reference_as_when_sources_are_read(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    content = "Tea?\tPlease.\nWhere?\tAt home.\tby hand\nSo?\t\n"
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())

    assert read_references(whole(path)) == ["Please.", "At home.", ""]
    sources = [beams.reference or "" for beams in read_sources(path)]
    assert read_references(whole(path)) == sources


def test_a_line_of_a_table_without_a_second_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"r\.tsv, line 2: there is no tab, .* second column"):
        read_references(stream(tmp_path / "r.tsv", "Tea?\tPlease.", "Please."))


def test_a_tab_in_references_that_are_plain_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"r\.txt, line 2 holds a tab.*\.tsv") as error:
        read_references(stream(tmp_path / "r.txt", "Please.", "Tea?\tPlease."))

    assert "cut -f2" in str(error.value)


def test_the_first_line_that_names_its_model_tells_which_it_is(tmp_path: Path) -> None:
    ranking = {"signature": "strategy:vbs|model:ab12|bidibeam:1", "replies": []}
    named = {**PLAIN, "ranking": ranking}

    assert model_of(stream(tmp_path / "a.jsonl", "", named)) == "ab12"
    assert model_of(stream(tmp_path / "b.jsonl", RANKED)) is None
    assert model_of(stream(tmp_path / "c.jsonl", PLAIN)) is None
    assert model_of(stream(tmp_path / "d.txt", "no JSON")) is None
    assert model_of(stream(tmp_path / "e.jsonl", {**PLAIN, "ranking": {"signature": 3}})) is None
    assert model_of(stream(tmp_path / "f.jsonl")) is None
