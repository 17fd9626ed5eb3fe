"""Sources, references and replies as files and pipes hold them, each read once."""

from __future__ import annotations

import gc
import gzip
import io
import json
import lzma
import os
import re
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams
from bidibeam.interchange.lists import ListReader
from bidibeam.interchange.reading import (
    Replies,
    read_references,
    read_replies,
    read_signature,
    read_sources,
    read_weights,
    with_distinct_ids,
    with_references,
)
from bidibeam.interchange.text_lines import Lines

PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
RANKED = {
    "id": "x",
    "source": "where?",
    "reference": "at home",
    "regular": [{"text": "no"}, {"text": "at work"}],
    "reverse": [{"text": "home"}],
    "ranking": {"signature": "strategy:bidia|T:20", "replies": [{"text": "at work", "score": 1.0}]},
}
PLAIN = {key: value for key, value in RANKED.items() if key != "ranking"}


def ranked_by(signature: str) -> dict[str, object]:
    return {**PLAIN, "ranking": {"signature": signature, "replies": []}}


def written(path: Path, *lines: object) -> Path:
    """A file of these lines, texts or objects, packed as its ending says."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_bytes(PACK.get(path.suffix, bytes)("".join(f"{text}\n" for text in texts).encode()))
    return path


ODD = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g"


@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize(
    ("name", "content", "sources"),
    [
        ("in.txt", "\ufeffhi\nhow are you ?\n\n", [("1", "hi"), ("2", "how are you ?"), ("3", "")]),
        ("in.txt", "", []),
        ("in.txt", f"{ODD}\r\nlast", [("1", ODD), ("2", "last")]),  # only a newline ends a line
        (
            "in.jsonl",
            '{"source": "hi"}\n\n{"id": "x", "source": "ho", "reference": "hey"}\n{"id": 5, "source": ""}\n',
            [("1", "hi"), ("x", "ho", ("hey",)), ("5", "")],
        ),
        ("in.jsonl", '{"source": "tea?", "response": "please."}\n', [("1", "tea?", ("please.",))]),
        (
            "in.jsonl",
            '{"source": "tea?", "references": ["please.", "no."]}\n',
            [("1", "tea?", ("please.", "no."))],
        ),
        ("in.tsv", "tea?\tplease.\tconversation 1\nalone\n", [("1", "tea?", ("please.",)), ("2", "alone")]),
    ],
)
def test_sources_are_lines_of_text_objects_or_rows_plain_or_packed(
    tmp_path: Path, name: str, content: str, sources: list[tuple[str, ...]], ending: str
) -> None:
    path = tmp_path / f"{name}{ending}"
    path.write_bytes(PACK[ending](content.encode()))

    assert list(read_sources(path)) == [Beams(*each) for each in sources]  # type: ignore[arg-type]


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


def test_a_stream_is_read_no_further_than_asked_and_lines_that_were_looked_at_all_the_same(
    tmp_path: Path,
) -> None:
    stream = io.BytesIO(b"hi\nho\n")
    assert next(read_sources(stream)).source == "hi"
    assert stream.read() == b"ho\n"
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
    lines = Lines(written(tmp_path / name, *map(str, range(50_000))))
    positions = [lines.position, *(lines.position for _ in lines), lines.position]

    assert lines.size == (tmp_path / name).stat().st_size
    assert positions == sorted(positions)
    assert (positions[0], positions[-1]) == (0, lines.size)
    assert Lines(io.BytesIO(b"1\n")).size is None


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz", "in.jsonl.xz"])
@pytest.mark.parametrize(
    "read",
    [
        lambda path: list(read_sources(path)),
        lambda path: list(read_references(path)),
        lambda path: read_replies(str(path)),
        lambda path: list(ListReader(str(path))),
        lambda path: list(ListReader(str(path), reverse_file=str(path))),
        lambda path: next(Lines(path)),
    ],
)
def test_a_file_is_closed_however_its_reader_is_given_up(
    tmp_path: Path, name: str, read: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an error whose traceback stands in a cycle, wherever between its allocations a collection falls."""
    path = written(tmp_path / name, '"hi"')
    unraisable: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)
    thresholds = gc.get_threshold()
    gc.freeze()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        for threshold in range(1, 60):
            gc.set_threshold(threshold)
            try:
                read(path)
            except InputError as error:
                error.args = (error,)
            finally:
                gc.set_threshold(*thresholds)
            gc.collect()
    gc.unfreeze()

    assert unraisable == []


PACKED = gzip.compress(b"hi\n" * 100, mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("j", b'{"reference": "hey"}', ', line 1: the field "source" is missing; it must be a string.'),
        ("j", b'{"source": null}', ', line 1: "source" must be a string, received null.'),
        ("j", b'{"source": "", "reference": 3}', ', line 1: "reference" must be a string, received the num'),
        ("j", b'{"source": "", "response": 3}', ', line 1: "response" must be a string, received the number'),
        ("j", b'{"source": "", "id": 1.5}', ', line 1: "id" must be a string or a whole number, received'),
        ("j", b'{"source": "hi"}\nho', ", line 2: this is not JSON: Expecting value at column 1."),
        ("j", b'"hi"', ', line 1: expected a JSON object, received the string "hi".'),
        ("j", b'{"source": ""}\nca\xe9', ", line 2: byte 3 (0xe9) is not UTF-8. Convert the file first"),
        ("in.txt", "\ufeffhi\n".encode("utf-16-le"), "iconv -f utf-16 -t utf-8"),
        ("in.txt", b"\xe9", "iconv -f latin1 -t utf-8"),
        ("in.txt.gz", b"hi", " cannot be read: Not a gzipped file"),
        ("in.txt.gz", PACKED[:-12], " cannot be unpacked after line "),
        ("in.txt.xz", lzma.compress(b"hi\n" * 100)[:-12], " cannot be unpacked after line "),
        ("in.txt.xz", b"not packed", " cannot be unpacked after line 0: "),
        ("in.txt.gz", PACKED[:10] + b"\xff" * 20, " cannot be unpacked after line 0: "),
        ("none/in.txt", None, " cannot be read: No such file or directory."),
    ],
)
def test_what_cannot_be_read_is_one_sentence_that_names_the_place(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name.replace("j", "in.jsonl")
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InputError, match=rf"^{path}.*{re.escape(message)}"):
        list(read_sources(path))


def test_a_stream_of_other_text_is_one_sentence() -> None:
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
    assert [(beams.line, beams.id) for beams in replies.beams] == [(1, "1"), (2, "2"), (3, "3")]
    assert (replies.has_lists, replies.beam_size, replies.weights) == (False, 0, frozenset())


def test_of_lists_it_is_the_first_of_the_ranking_or_of_the_regular_list(tmp_path: Path) -> None:
    replies = read_replies(str(written(tmp_path / "r.jsonl", "", RANKED)))

    assert texts(replies) == [["at work"]]
    assert (replies.has_lists, replies.beam_size) == (True, 3)
    assert replies.place(0) == f"{tmp_path}/r.jsonl, line 2"
    assert str(replies.signature).startswith("strategy:bidia|T:20|file:r.jsonl@")
    (beams,) = replies.beams
    assert (beams.id, beams.source, beams.reference) == ("x", "where?", "at home")
    lines = [PLAIN, {"regular": [], "reverse": [{"text": "b"}]}, {**PLAIN, "id": 7, "ranking": None}]
    nothing = {**RANKED, "ranking": {"signature": "s", "replies": []}}
    assert texts(read_replies(str(written(tmp_path / "r.jsonl", *lines)))) == [["no"], [], ["no"]]
    assert texts(read_replies(str(written(tmp_path / "n.jsonl", nothing)))) == [[]]
    replies = read_replies(str(written(tmp_path / "lists", "", RANKED)), whole_lists=True)
    assert texts(replies) == [["no", "at work"]]
    assert [len(beams.reverse) for beams in replies.beams] == [1]


@pytest.mark.parametrize(
    ("name", "line", "has_lists"),
    [
        ("lists", RANKED, True),
        ("lists.jsonl.gz", RANKED, True),
        ("text", '{"no": "lists"}', False),
        ("text", '{"half', False),
    ],
)
def test_lists_are_told_from_text_by_what_is_in_them(
    tmp_path: Path, name: str, line: object, has_lists: bool
) -> None:
    replies = read_replies(str(written(tmp_path / name, line)))

    assert replies.has_lists == has_lists
    assert texts(replies) == [["at work" if has_lists else line]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("text", ": this is not JSON"),
        ({"ranking": []}, ': "ranking" must be an object, received a list.'),
        ({"ranking": {"replies": 3}}, ': "replies" must be a list, received the number 3.'),
        ({"ranking": {"replies": [{}]}}, ': the first of "replies" in its "ranking" has no "text".'),
        ({"ranking": {"replies": ["hello"]}}, ': the first of "replies" in its "ranking" has no'),
        ({"regular": "no"}, ': "regular" must be a list, received the string "no".'),
        ({"regular": [{}]}, ', regular[0]: the fields "text" and "tokens" are both missing;'),
        ({}, ": its replies were ranked by nothing, but those of line 1 by strategy:bidia|T:20. Give each"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, line: Any, message: str) -> None:
    second = line if isinstance(line, str) else PLAIN | line
    with pytest.raises(InputError, match=rf"^{tmp_path}/r\.jsonl, line 2{re.escape(message)}"):
        read_replies(str(written(tmp_path / "r.jsonl", RANKED, second)))
    with pytest.raises(InputError, match=r"is empty; it must hold one reply a line, or n-best lists\.$"):
        read_replies(str(written(tmp_path / "empty.jsonl")))


@pytest.mark.parametrize(
    ("lines", "weights"),
    [
        (["", {**PLAIN, "ranking": {"signature": "strategy:vbs|model:ab12|v:1", "replies": []}}], {"ab12"}),
        ([ranked_by("model:ab12+cd34")], {"ab12", "cd34"}),
        ([ranked_by("engine:ctranslate2-int8|model:fast@ab12")], {"ab12"}),
        ([ranked_by("regular:bart@ab12|reverse:my@bart@cd34")], {"ab12", "cd34"}),
        ([ranked_by("regular:bart")], set()),
        ([RANKED], set()),
        ([PLAIN], set()),
        (["no JSON"], set()),
        ([{**PLAIN, "ranking": {"signature": 3}}], set()),
        ([], set()),
    ],
)
def test_the_first_line_may_name_its_networks(tmp_path: Path, lines: list[object], weights: set[str]) -> None:
    path = written(tmp_path / "a.jsonl", *lines)

    assert read_weights(read_signature(Lines(path))) == weights
    if weights:
        assert read_replies(str(path)).weights == weights


@pytest.mark.parametrize(
    ("name", "lines", "references"),
    [
        ("r.txt", ["a b", "", "c"], ["a b", "", "c"]),
        (
            "r.jsonl",
            [{"reference": "a"}, "", {"source": "x", "response": "b"}, {**RANKED, "response": "no"}],
            ["a", "b", "at home"],
        ),
        ("without-ending", [RANKED], ["at home"]),
        ("empty", [], []),
        ("r.tsv", ["Tea?\tPlease.", "Where?\tAt home.\tby hand", "So?\t"], ["Please.", "At home.", ""]),
        ("r.tsv.gz", ["Tea?\tPlease.", "So?\t"], ["Please.", ""]),
    ],
)
def test_references_are_lines_of_text_fields_of_objects_or_second_columns(
    tmp_path: Path, name: str, lines: list[object], references: list[str]
) -> None:
    path = written(tmp_path / name, *lines)

    assert [*read_references(path)] == [(each,) for each in references]
    if ".tsv" in name:
        assert [beams.reference or "" for beams in read_sources(path)] == references


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
        list(read_references(written(tmp_path / name, *lines)))


def test_a_source_may_have_several_references(tmp_path: Path) -> None:
    path = written(
        tmp_path / "r.jsonl",
        {"references": ["a", "b"]},
        {"reference": "c"},
        {"references": ["d"], "reference": "e"},
    )

    assert [*read_references(path)] == [("a", "b"), ("c",), ("d",)]


def test_references_that_are_no_strings_or_none_are_refused(tmp_path: Path) -> None:
    for wrong, received in (([], "none"), (["a", 5], "the number 5"), ([None], "null")):
        path = written(tmp_path / "r.jsonl", {"references": wrong})
        message = f'r\\.jsonl, line 1: "references" must be at least one string, received {received}'
        with pytest.raises(InputError, match=message):
            list(read_references(path))


def test_lists_that_bring_other_references_are_not_compared(tmp_path: Path) -> None:
    lines = ({**PLAIN, "reference": "at home"}, {**PLAIN, "references": ["at home", "here"]})
    one, other = (read_replies(str(written(tmp_path / f"{at}.jsonl", line))) for at, line in enumerate(lines))

    message = (
        r"1\.jsonl, line 1: its references are 'at home', 'here', but .*0\.jsonl, line 1 has 'at home'\. Sys"
    )
    with pytest.raises(InputError, match=message):
        with_references([one, other])
    assert with_references([other])[0].beams[0].references == ("at home", "here")


def test_a_reference_comes_from_a_file_or_from_whichever_lists_have_it(tmp_path: Path) -> None:
    one = read_replies(str(written(tmp_path / "a.jsonl", {**PLAIN, "reference": None})))
    other = read_replies(str(written(tmp_path / "b.jsonl", PLAIN)))
    references = written(tmp_path / "r.txt", "here")

    assert [each.beams[0].reference for each in with_references([one, other])] == ["at home"] * 2
    assert with_references([one], str(references))[0].beams[0].reference == "here"
    with pytest.raises(InputError, match=r"a\.jsonl, line 1: source 'x' has no \"reference\""):
        with_references([one])
