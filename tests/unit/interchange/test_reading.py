"""Sources, references and replies as files and pipes hold them, each read once."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams
from bidibeam.interchange.reading import (
    Replies,
    model_of,
    read_references,
    read_replies,
    read_sources,
    with_distinct_ids,
    with_references,
)
from bidibeam.interchange.text_lines import Lines

RANKED = {
    "id": "x",
    "source": "where?",
    "reference": "at home",
    "regular": [{"text": "no"}, {"text": "at work"}],
    "reverse": [{"text": "home"}],
    "ranking": {"signature": "strategy:bidia|T:20", "replies": [{"text": "at work", "score": 1.0}]},
}
PLAIN = {key: value for key, value in RANKED.items() if key != "ranking"}


def written(path: Path, *lines: object) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())
    return path


def sources_of(tmp_path: Path, name: str, content: bytes) -> list[Beams]:
    (tmp_path / name).write_bytes(content)
    return list(read_sources(tmp_path / name))


def test_each_line_is_a_source_with_its_number_for_an_id(tmp_path: Path) -> None:
    assert sources_of(tmp_path, "in.txt", b"\xef\xbb\xbfhi\nhow are you ?\n\n") == [
        Beams("1", "hi"),
        Beams("2", "how are you ?"),
        Beams("3", ""),
    ]
    assert sources_of(tmp_path, "in.txt", b"") == []


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    text = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g\r\nlast"

    assert [each.source for each in sources_of(tmp_path, "in.txt", text.encode())] == [text[:-6], "last"]


def test_json_lines_and_tables_bring_ids_and_references(tmp_path: Path) -> None:
    lines = b'{"source": "hi"}\n\n{"id": "x", "source": "ho", "reference": "hey"}\n{"id": 5, "source": ""}\n'
    pairs = b'{"source": "tea?", "response": "please."}\n'
    table = b"tea?\tplease.\tconversation 1\nalone\n"

    assert sources_of(tmp_path, "in.jsonl", lines) == [
        Beams("1", "hi"),
        Beams("x", "ho", "hey"),
        Beams("5", ""),
    ]
    assert sources_of(tmp_path, "in.jsonl", pairs) == [Beams("1", "tea?", "please.")]
    assert sources_of(tmp_path, "in.tsv", table) == [Beams("1", "tea?", "please."), Beams("2", "alone")]


@pytest.mark.parametrize("name", ["in.txt.gz", "in.txt.xz", "in.jsonl.gz", "in.jsonl.xz"])
def test_packed_files_are_unpacked(tmp_path: Path, name: str) -> None:
    content = b'{"source": "hi"}\n' if "jsonl" in name else b"hi\n"
    packed = gzip.compress(content, mtime=0) if name.endswith("gz") else lzma.compress(content)

    assert sources_of(tmp_path, name, packed) == [Beams("1", "hi")]


@pytest.mark.parametrize(
    ("content", "sources"),
    [
        (b"hi\r\nho", ["hi", "ho"]),
        (b'{"source": "hi", "id": "a"}\n{"source": "ho"}\n', ["hi", "ho"]),
        (b'{"text": "hi"}\n', ['{"text": "hi"}']),
        (b'hi\n{"source": "ho"}\n', ["hi", '{"source": "ho"}']),
    ],
)
def test_a_stream_holds_text_or_objects_as_its_first_line_tells(content: bytes, sources: list[str]) -> None:
    assert [beams.source for beams in read_sources(io.BytesIO(content))] == sources
    assert [beams.source for beams in read_sources(io.StringIO(content.decode(), newline="\n"))] == sources


def test_a_stream_is_read_no_further_than_asked() -> None:
    stream = io.BytesIO(b"hi\nho\n")
    sources = read_sources(stream)

    assert next(sources).source == "hi"
    assert stream.read() == b"ho\n"


def test_lines_that_were_looked_at_are_read_all_the_same(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(b"\na\n\nb\nc\n")).start()
    lines = Lines(pipe)

    assert lines.peek(2) == ["a", "b"]
    assert lines.peek() == ["a"]
    assert list(lines) == [(1, ""), (2, "a"), (3, ""), (4, "b"), (5, "c")]
    assert lines.peek() == []


@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz"])
def test_the_position_is_counted_in_bytes_of_the_file(tmp_path: Path, name: str) -> None:
    content = "".join(f"{number}\n" for number in range(50_000)).encode()
    (tmp_path / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    lines = Lines(tmp_path / name)
    positions = [lines.position, *(lines.position for _ in lines), lines.position]

    assert lines.size == (tmp_path / name).stat().st_size
    assert positions == sorted(positions)
    assert (positions[0], positions[-1]) == (0, lines.size)
    assert Lines(io.BytesIO(content)).size is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"reference": "hey"}', 'line 1: the field "source" is missing; it must be a string.'),
        (b'{"source": null}', 'line 1: "source" must be a string, received null.'),
        (b'{"source": "hi", "reference": 3}', 'line 1: "reference" must be a string, received the number 3.'),
        (b'{"source": "hi", "response": 3}', 'line 1: "response" must be a string, received the number 3.'),
        (b'{"source": "hi", "id": 1.5}', '"id" must be a string or a whole number, received the number 1.5.'),
        (b'{"source": "hi"}\nho', "line 2: this is not JSON: Expecting value at column 1."),
        (b'"hi"', 'line 1: expected a JSON object, received the string "hi".'),
        (b'{"source": "hi"}\nca\xe9', "line 2: byte 3 (0xe9) is not UTF-8. Convert the file first"),
    ],
)
def test_an_object_that_does_not_fit_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        sources_of(tmp_path, "in.jsonl", content)

    assert str(caught.value).startswith(f"{tmp_path / 'in.jsonl'}, line ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.txt", "\ufeffhi\n".encode("utf-16-le"), "iconv -f utf-16 -t utf-8"),
        ("in.txt", b"\xe9", "iconv -f latin1 -t utf-8"),
        ("in.txt.gz", b"hi", "in.txt.gz cannot be read: Not a gzipped file"),
        ("in.txt.gz", gzip.compress(b"hi\n" * 100, mtime=0)[:-12], "cannot be unpacked after line "),
        ("in.txt.xz", lzma.compress(b"hi\n" * 100)[:-12], "cannot be unpacked after line "),
        ("in.txt.xz", b"not packed", "cannot be unpacked after line 0: "),
        ("in.txt.gz", gzip.compress(b"hi", mtime=0)[:10] + b"\xff" * 20, "cannot be unpacked after line 0: "),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        sources_of(tmp_path, name, content)

    assert message in str(caught.value)


def test_a_missing_file_and_a_stream_of_other_text_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt cannot be read: No such file or directory\.$"):
        list(read_sources(tmp_path / "none.txt"))
    stream = io.TextIOWrapper(io.BytesIO(b"ca\xe9\n"), encoding="utf-8")
    with pytest.raises(InputError, match=r"^<stream>: somewhere after line 0 the text is not utf-8\.$"):
        list(read_sources(stream))


def test_an_id_that_two_sources_have_is_refused_where_they_must_be_told_apart(tmp_path: Path) -> None:
    path = written(tmp_path / "s.jsonl", *({"id": id_, "source": "a"} for id_ in (1, 2, "1")))

    assert len(list(read_sources(path))) == 3
    with pytest.raises(InputError, match=r"^The id '1' is that of two sources, and an n-best file must"):
        list(with_distinct_ids(read_sources(path)))


def texts(replies: Replies) -> list[list[str]]:
    return [[hypothesis.text for hypothesis in beams.regular] for beams in replies.beams]


def test_a_line_of_text_is_a_reply_and_a_blank_one_an_empty_reply(tmp_path: Path) -> None:
    replies = read_replies(str(written(tmp_path / "r.txt", "Not now.", "", "a\u2028b\r")))

    assert texts(replies) == [["Not now."], [""], ["a\u2028b"]]
    assert [beams.regular.best.tokens for beams in replies.beams] == [("not", "now", "."), (), ("a", "b")]
    assert (replies.numbers, [beams.id for beams in replies.beams]) == ([1, 2, 3], ["1", "2", "3"])
    assert (replies.has_lists, replies.beam_size, replies.model) == (False, 0, None)


def test_of_lists_it_is_the_first_of_the_ranking(tmp_path: Path) -> None:
    replies = read_replies(str(written(tmp_path / "r.jsonl", "", RANKED)))

    assert texts(replies) == [["at work"]]
    assert (replies.has_lists, replies.beam_size, replies.place(0)) == (
        True,
        3,
        f"{tmp_path}/r.jsonl, line 2",
    )
    assert str(replies.signature).startswith("strategy:bidia|T:20|file:r.jsonl@")
    (beams,) = replies.beams
    assert (beams.id, beams.source, beams.reference) == ("x", "where?", "at home")


def test_or_of_the_regular_list_where_there_is_no_ranking_and_nothing_found_is_no_reply(
    tmp_path: Path,
) -> None:
    lines = [PLAIN, {"regular": [], "reverse": [{"text": "b"}]}, {**PLAIN, "id": 7, "ranking": None}]
    nothing = {**RANKED, "ranking": {"signature": "s", "replies": []}}

    assert texts(read_replies(str(written(tmp_path / "r.jsonl", *lines)))) == [["no"], [], ["no"]]
    assert texts(read_replies(str(written(tmp_path / "n.jsonl", nothing)))) == [[]]


def test_whole_lists_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    replies = read_replies(str(written(tmp_path / "lists", "", RANKED)), whole_lists=True)

    assert texts(replies) == [["no", "at work"]]
    assert [len(beams.reverse) for beams in replies.beams] == [1]


@pytest.mark.parametrize(
    ("name", "line", "has_lists"),
    [("lists", RANKED, True), ("text", '{"no": "lists"}', False), ("text", '{"half', False)],
)
def test_lists_are_told_from_text_by_what_is_in_them(
    tmp_path: Path, name: str, line: object, has_lists: bool
) -> None:
    assert read_replies(str(written(tmp_path / name, line))).has_lists == has_lists


def test_or_by_the_ending(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl.gz").write_bytes(gzip.compress(json.dumps(RANKED).encode()))

    assert texts(read_replies(str(tmp_path / "p.jsonl.gz"))) == [["at work"]]
    with pytest.raises(InputError, match="this is not JSON"):
        read_replies(str(written(tmp_path / "some.jsonl", "text")))
    with pytest.raises(InputError, match=r"is empty; it must hold one reply a line, or n-best lists\.$"):
        read_replies(str(written(tmp_path / "some.jsonl")))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({**RANKED, "ranking": []}, ': "ranking" must be an object, received a list.'),
        ({**RANKED, "ranking": {"replies": 3}}, ': "replies" must be a list, received the number 3.'),
        (
            {**RANKED, "ranking": {"replies": [{}]}},
            ': the first of "replies" in its "ranking" has no "text".',
        ),
        ({**RANKED, "ranking": {"replies": ["hello"]}}, ': the first of "replies" in its "ranking" has no'),
        ({**PLAIN, "regular": "no"}, ': "regular" must be a list, received the string "no".'),
        ({**PLAIN, "regular": [{}]}, ', regular[0]: the fields "text" and "tokens" are both missing;'),
        (
            PLAIN,
            ": its replies were ranked by nothing, but those of line 1 by strategy:bidia|T:20. Give each",
        ),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        read_replies(str(written(tmp_path / "r.jsonl", RANKED, line)))

    assert str(error.value).startswith(f"{tmp_path / 'r.jsonl'}, line 2{message}")


def test_the_first_line_that_names_its_model_tells_which_it_is(tmp_path: Path) -> None:
    named = {**PLAIN, "ranking": {"signature": "strategy:vbs|model:ab12|bidibeam:1", "replies": []}}
    others = [RANKED, PLAIN, "no JSON", {**PLAIN, "ranking": {"signature": 3}}]

    assert model_of(Lines(written(tmp_path / "a.jsonl", "", named))) == "ab12"
    assert read_replies(str(tmp_path / "a.jsonl")).model == "ab12"
    for line in others:
        assert model_of(Lines(written(tmp_path / "b.jsonl", line))) is None
    assert model_of(Lines(written(tmp_path / "c.jsonl"))) is None


def test_references_are_lines_of_text_or_fields_of_objects(tmp_path: Path) -> None:
    assert read_references(written(tmp_path / "r.txt", "a b", "", "c")) == ["a b", "", "c"]
    objects = [{"reference": "a"}, "", {"source": "x", "response": "b"}, {**RANKED, "response": "no"}]
    assert read_references(written(tmp_path / "r.jsonl", *objects)) == ["a", "b", "at home"]
    assert read_references(written(tmp_path / "without-ending", RANKED)) == ["at home"]
    assert read_references(written(tmp_path / "empty")) == []


@pytest.mark.parametrize("name", ["r.tsv", "r.tsv.gz"])
def test_of_a_table_the_second_column_is_the_reference_as_when_sources_are_read(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    content = "Tea?\tPlease.\nWhere?\tAt home.\tby hand\nSo?\t\n"
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())

    assert read_references(path) == ["Please.", "At home.", ""]
    assert read_references(path) == [beams.reference or "" for beams in read_sources(path)]


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("r.jsonl", [{"reference": "a"}, {"source": "b"}], r'r\.jsonl, line 2: there is no "reference"\.$'),
        ("r.tsv", ["Tea?\tPlease.", "Please."], r"r\.tsv, line 2: there is no tab, .* second column"),
        ("r.txt", ["Please.", "Tea?\tPlease."], r"r\.txt, line 2 holds a tab.*\.tsv.*cut -f2"),
    ],
)
def test_a_line_without_one_clear_reference_is_named(
    tmp_path: Path, name: str, lines: list[object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_references(written(tmp_path / name, *lines))


def test_a_reference_comes_from_a_file_or_from_whichever_lists_have_it(tmp_path: Path) -> None:
    without = {**PLAIN, "reference": None}
    one, other = (
        read_replies(str(written(tmp_path / name, line)))
        for name, line in (("a.jsonl", without), ("b.jsonl", PLAIN))
    )

    assert [each.beams[0].reference for each in with_references([one, other])] == ["at home"] * 2
    references = written(tmp_path / "r.txt", "here")
    assert with_references([one], str(references))[0].beams[0].reference == "here"
    with pytest.raises(InputError, match=r"a\.jsonl, line 1: source 'x' has no \"reference\""):
        with_references([one])
