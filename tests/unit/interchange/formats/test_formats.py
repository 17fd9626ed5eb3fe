"""What every format keeps, whichever it is, and how a file's format is told."""

from __future__ import annotations

import gzip
import inspect
import io
import lzma
import re
from pathlib import Path

import pytest

from bidibeam.errors import InputError, UnknownNameError
from bidibeam.hypotheses import Beams, Direction, NBest
from bidibeam.interchange.formats import FORMATS, Format, detect_format, format_for
from bidibeam.interchange.text_lines import LineSource
from tests.unit.interchange.formats.lists import FILES, listed, read, said, stream_of, written

DOCS = Path(__file__).parents[4] / "docs" / "nbest.md"
TEXTS = [["At work.", "I don't know."], ["Ja, \u00fcberall \u6f22\u5b57!", ""]]
NAMES = ["jsonl", "moses", "fairseq", "mbrs", "openai"]


def formats(name: str, **settings: object) -> Format:
    taken = inspect.signature(FORMATS.get(name)).parameters
    return FORMATS.create(name, **{key: value for key, value in settings.items() if key in taken})


def lists(direction: Direction = Direction.REGULAR) -> list[Beams]:
    return [
        Beams(str(number), "").with_hypotheses(
            direction, NBest(tuple(said(text, -float(len(text))) for text in texts))
        )
        for number, texts in enumerate(TEXTS)
    ]


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("name", NAMES)
def test_texts_are_read_back_in_order_in_the_direction_they_were_written_in(
    name: str, direction: Direction
) -> None:
    format_ = formats(name, direction=direction, per_source=2)

    again = read(format_, written(format_, lists(direction)))

    assert [[found.text for found in beams.of(direction)] for beams in again] == TEXTS
    assert not any(beams.of(direction.other) for beams in again)


@pytest.mark.parametrize("name", NAMES)
def test_files_tell_their_format_may_be_packed_and_begin_with_a_byte_order_mark(
    tmp_path: Path, name: str
) -> None:
    format_ = formats(name, per_source=2)
    content = written(format_, lists()).encode()
    assert detect_format(stream_of(content.decode()), has_count=True) == name
    assert (read(format_, ""), written(format_, [])) == ([], "")
    plain = [(each.line, each) for each in format_.read(stream_of(content.decode()))]

    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf" + content)
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.xz").write_bytes(lzma.compress(content))
    (tmp_path / "crlf").write_bytes(content.replace(b"\n", b"\r\n"))
    sources: list[LineSource] = [*tmp_path.iterdir(), io.BytesIO(content)]
    for source in sources:
        assert [(each.line, each) for each in format_.read(source)] == plain
    (tmp_path / "latin").write_bytes(written(format_, lists()[:1]).encode() + b"caf\xe9\n")
    with pytest.raises(InputError, match=r"latin, line \d+: byte 4 \(0xe9\) is not UTF-8\."):
        list(format_.read(tmp_path / "latin"))


def test_formats_are_documented_with_their_endings_and_features() -> None:
    page = DOCS.read_text(encoding="utf-8")
    for name in NAMES:
        row, *_ = re.findall(rf"^\| `{name}` \|.*", page, flags=re.MULTILINE)
        assert name == "openai" or all(f"`{ending}`" in row for ending in formats(name).endings)
    found = said("a b c", -1.0)._replace(log_prob=-2.5, other_log_prob=-3.0)

    (features,) = re.findall(r"`(LogProb= [^`]*)`", page)
    assert written(formats("moses"), [listed("x", found)]) == f"0 ||| a b c ||| {features} ||| -1.0\n"


OURS = '{"regular": [{"text": "a"}]}\n'
THEIRS = '{"choices": [{"text": "a"}]}\n'


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fairseq-generate.txt", "fairseq"),
        ("fairseq-interactive.out", "fairseq"),
        ("moses.nbest", "moses"),
        ("moses-old.nbest", "moses"),
        ("marian.nbest", "moses"),
        ("mbrs-generate.txt", "mbrs"),
        ("mbrs-decode.txt", "mbrs"),
        ("openai-chat.jsonl", "openai"),
        ("openai-completions.jsonl", "openai"),
        ("openai-batch.jsonl", "openai"),
    ],
)
def test_the_files_of_other_tools_are_told_apart_by_name_and_without(
    tmp_path: Path, name: str, expected: str
) -> None:
    content = (FILES / name).read_bytes()
    (tmp_path / "no-ending").write_bytes(content)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    (tmp_path / f"{name}.xz").write_bytes(lzma.compress(content))

    for path in (FILES / name, *tmp_path.iterdir()):
        assert detect_format(path, has_count=True) == expected
    assert detect_format(stream_of(content.decode()), has_count=True) == expected


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", OURS, "jsonl"),
        ("<stdin>", OURS, "jsonl"),
        ("a.txt", OURS, "jsonl"),
        ("a.jsonl", f"\n{THEIRS}", "openai"),
        ("a.moses", THEIRS, "openai"),
        ("a.jsonl", "{oops", "jsonl"),
        ("<stdin>", "{oops", "jsonl"),
        ("a.jsonl", "oops", "jsonl"),
        ("a.moses", "oops", "moses"),
        ("a.nbest.gz", "oops", "moses"),
        ("a.fairseq", "oops", "fairseq"),
        ("a.out.xz", "2020 | INFO | fairseq_cli\n", "fairseq"),
        ("<stdin>", "", "jsonl"),
        ("a.moses", "\n\n", "moses"),
        ("<stdin>", "| INFO |\n" * 100 + "S-0\ta\n", "fairseq"),
        ("<stdin>", '{"regular": [], "choices": []}', "jsonl"),
    ],
)
def test_lines_decide_before_endings(name: str, content: str, expected: str) -> None:
    assert detect_format(stream_of(content, name)) == expected


def test_text_is_flat_text_only_where_its_count_is_known() -> None:
    for name in ("a.txt", "a", "<stdin>"):
        assert detect_format(stream_of("hello\n", name), has_count=True) == "mbrs"
        with pytest.raises(InputError, match=r"Say it by from_format: jsonl, .*needs per_source too\.$"):
            detect_format(stream_of("hello\n", name))


def test_names_are_known_and_the_ending_tells_how_to_write() -> None:
    assert FORMATS.names() == NAMES
    with pytest.raises(UnknownNameError, match=r"^Unknown n-best format 'mose'\. Did you mean 'moses'\?"):
        FORMATS.get("mose")
    names = {
        "a.jsonl": "jsonl",
        "a.jsonl.gz": "jsonl",
        "b/a.moses.xz": "moses",
        "a.nbest": "moses",
        "a.out": "fairseq",
        "a.txt": "mbrs",
    }
    assert {name: format_for(name) for name in names} == names
    with pytest.raises(InputError, match=r"^a\.csv: its name does not tell .* Say it by to_format: jsonl"):
        format_for("a.csv")
