"""Sources: text by lines, JSON lines, and whatever else a user may hand in."""

from __future__ import annotations

import gzip
import io
import lzma
from pathlib import Path

import pytest

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams
from bidibeam.interchange.sources import read_sources, with_distinct_ids


def read_bytes(tmp_path: Path, name: str, content: bytes) -> list[Beams]:
    path = tmp_path / name
    path.write_bytes(content)
    return list(read_sources(path))


def test_each_line_is_a_source_with_its_number_for_an_id(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, "in.txt", b"hi\nhow are you ?\n") == [
        Beams("1", "hi"),
        Beams("2", "how are you ?"),
    ]


def test_blank_lines_are_empty_sources(tmp_path: Path) -> None:
    assert [each.source for each in read_bytes(tmp_path, "in.txt", b"\nhi\n\n")] == ["", "hi", ""]


def test_an_empty_file_has_no_sources(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, "in.txt", b"") == []


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    text = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g\r\nlast"

    assert [each.source for each in read_bytes(tmp_path, "in.txt", text.encode())] == [text[:-6], "last"]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, "in.txt", "\ufeffhi".encode())[0].source == "hi"


def test_json_lines_bring_ids_and_references(tmp_path: Path) -> None:
    content = (
        b'{"source": "hi"}\n\n{"id": "x", "source": "ho", "reference": "hey"}\n{"id": 5, "source": ""}\n'
    )

    assert read_bytes(tmp_path, "in.jsonl", content) == [
        Beams("1", "hi"),
        Beams("x", "ho", "hey"),
        Beams("5", ""),
    ]


@pytest.mark.parametrize("name", ["in.txt.gz", "in.txt.xz", "in.jsonl.gz", "in.jsonl.xz"])
def test_packed_files_are_unpacked(tmp_path: Path, name: str) -> None:
    content = b'{"source": "hi"}\n' if "jsonl" in name else b"hi\n"
    packed = gzip.compress(content) if name.endswith("gz") else lzma.compress(content)

    assert read_bytes(tmp_path, name, packed) == [Beams("1", "hi")]


@pytest.mark.parametrize("stream", [io.BytesIO(b"hi\r\nho"), io.StringIO("hi\nho")], ids=["bytes", "text"])
def test_a_stream_is_text_by_lines(stream: io.BytesIO | io.StringIO) -> None:
    assert [each.source for each in read_sources(stream)] == ["hi", "ho"]


def test_a_stream_is_read_no_further_than_asked() -> None:
    stream = io.BytesIO(b"hi\nho\n")
    sources = read_sources(stream)

    assert next(sources).source == "hi"
    assert stream.read() == b"ho\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"reference": "hey"}', 'line 1: the field "source" is missing; it must be a string.'),
        (b'{"source": 3}', 'line 1: "source" must be a string, received the number 3.'),
        (b'{"source": null}', 'line 1: "source" must be a string, received null.'),
        (b'{"source": "hi", "reference": 3}', 'line 1: "reference" must be a string, received the number 3.'),
        (b'{"source": "hi", "response": 3}', 'line 1: "response" must be a string, received the number 3.'),
        (
            b'{"source": "hi", "id": 1.5}',
            'line 1: "id" must be a string or a whole number, received the number 1.5.',
        ),
        (b'{"source": "hi"}\nho', "line 2: this is not JSON: Expecting value at column 1."),
        (b'"hi"', 'line 1: expected a JSON object, received the string "hi".'),
    ],
)
def test_an_object_that_does_not_fit_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_bytes(tmp_path, "in.jsonl", content)

    assert str(caught.value) == f"{tmp_path / 'in.jsonl'}, {message}"


def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"in\.txt, line 2: byte 3 \(0xe9\) is not UTF-8\. Convert the file first"
    ):
        read_bytes(tmp_path, "in.txt", b"hi\nca\xe9\n")


@pytest.mark.parametrize(
    ("content", "encoding"), [("\ufeffhi\n".encode("utf-16-le"), "utf-16"), (b"\xe9", "latin1")]
)
def test_the_encoding_that_the_bytes_look_like_is_named(
    tmp_path: Path, content: bytes, encoding: str
) -> None:
    with pytest.raises(InputError, match=f"iconv -f {encoding} -t utf-8"):
        read_bytes(tmp_path, "in.txt", content)


def test_a_text_stream_that_is_not_utf8_is_refused() -> None:
    stream = io.TextIOWrapper(io.BytesIO(b"ca\xe9\n"), encoding="utf-8")

    with pytest.raises(InputError, match=r"^<stream>: somewhere after line 0 the text is not utf-8\.$"):
        list(read_sources(stream))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt cannot be read: No such file or directory\.$"):
        list(read_sources(tmp_path / "none.txt"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("in.txt.gz", gzip.compress(b"hi\n" * 100)[:-12]),
        ("in.txt.xz", lzma.compress(b"hi\n" * 100)[:-12]),
        ("in.txt.xz", b"not packed"),
        ("in.txt.gz", gzip.compress(b"hi")[:10] + b"\xff" * 20),
    ],
    ids=["gz cut off", "xz cut off", "not packed", "gz with rubbish"],
)
def test_a_damaged_archive_is_one_sentence(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(InputError, match=r"cannot be unpacked after line \d+: "):
        read_bytes(tmp_path, name, content)


def test_a_file_that_only_claims_to_be_packed_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"in\.txt\.gz cannot be read: Not a gzipped file"):
        read_bytes(tmp_path, "in.txt.gz", b"hi")


def test_a_tsv_file_has_sources_and_references(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("tea?\tplease.\tconversation 1\nalone\n", encoding="utf-8")

    assert list(read_sources(path)) == [Beams("1", "tea?", "please."), Beams("2", "alone")]


def test_training_pairs_have_their_response_for_a_reference(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"source": "tea?", "response": "please."}\n', encoding="utf-8")

    assert list(read_sources(path)) == [Beams("1", "tea?", "please.")]


def test_an_id_that_two_sources_have_is_refused_where_they_must_be_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "sources.jsonl"
    path.write_text('{"id": 1, "source": "a"}\n{"id": 2, "source": "b"}\n{"id": "1", "source": "c"}\n')

    assert len(list(read_sources(path))) == 3
    with pytest.raises(InputError, match=r"^The id '1' is that of two sources, and an n-best file must"):
        list(with_distinct_ids(read_sources(path)))


@pytest.mark.parametrize(
    ("content", "sources"),
    [
        (b'{"source": "hi", "id": "a"}\n{"source": "ho"}\n', ["hi", "ho"]),
        (b'{"text": "hi"}\n', ['{"text": "hi"}']),
        (b"hi\n", ["hi"]),
        (b'hi\n{"source": "ho"}\n', ["hi", '{"source": "ho"}']),
    ],
)
def test_a_stream_of_objects_is_known_by_its_first_line(content: bytes, sources: list[str]) -> None:
    assert [beams.source for beams in read_sources(io.BytesIO(content))] == sources
