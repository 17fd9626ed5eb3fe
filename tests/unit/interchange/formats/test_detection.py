"""Which format a file is in."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from bidibeam.errors import InputError
from bidibeam.interchange.formats import detect_format, format_for
from tests.unit.interchange.formats.lists import FILES, stream_of

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
        with pytest.raises(InputError) as caught:
            detect_format(stream_of("hello\n", name))
        assert str(caught.value) == (
            f"{name}: neither its name nor its first lines tell what format this is. Say it by from_format: "
            "jsonl, moses, fairseq, mbrs, openai; flat text, mbrs, needs per_source too."
        )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.moses cannot be read: No such file or directory\.$"):
        detect_format(tmp_path / "no.moses")


def test_the_ending_tells_how_to_write() -> None:
    names = {
        "a.jsonl": "jsonl",
        "a.jsonl.gz": "jsonl",
        "b/a.moses.xz": "moses",
        "a.nbest": "moses",
        "a.out": "fairseq",
        "a.txt": "mbrs",
    }
    assert {name: format_for(name) for name in names} == names
    with pytest.raises(InputError) as caught:
        format_for("a.csv")
    assert str(caught.value) == (
        "a.csv: its name does not tell in what format to write it. Say it by to_format: jsonl, moses, "
        "fairseq, mbrs, openai."
    )
