"""Pretrained vectors: streamed, only what is needed, and clear about what is wrong."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from bidibeam.data.vectors import read_vectors, read_words
from bidibeam.errors import InputError

CONTENT = "4 3\ncat 1 2 3\ndog -1 0.5 2e-1\n'\u2019s 7 7 7\ncat 9 9 9\n"
WRITERS: dict[str, Callable[[Path, bytes], object]] = {
    ".vec": Path.write_bytes,
    ".vec.gz": lambda path, data: path.write_bytes(gzip.compress(data, mtime=0)),
    ".vec.xz": lambda path, data: path.write_bytes(lzma.compress(data)),
}


@pytest.mark.parametrize("ending", WRITERS)
def test_only_the_words_asked_for_are_kept(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"vectors{ending}"
    WRITERS[ending](path, CONTENT.encode())

    vectors = read_vectors(path, {"<pad>": 0, "cat": 5, "dog": 4, "horse": 6})

    assert vectors.ids.tolist() == [4, 5]
    assert vectors.values.tolist() == [pytest.approx([-1, 0.5, 0.2]), [1, 2, 3]]
    assert vectors.coverage == 0.5
    for wanted, words in (
        (None, ["cat", "dog", "'\u2019s"]),
        ({"'\u2019s", "cat", "lone \ud83d surrogate"}, ["cat", "'\u2019s"]),
        ([], []),
    ):
        found, values = read_words(path, wanted)
        assert found == words
        assert values.shape == (len(words), 3)
        assert values.dtype == "float32"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cat 1 2 3\n", r"does not begin with a word count and a dimension.*'cat 1 2 3'"),
        ("", "does not begin with a word count"),
        (f"1 {'9' * 5000}\ncat 1 2\n", "does not begin with a word count and a dimension"),
        ("1 0\ncat\n", "line 2 has 0 numbers"),
        ("1 3\ncat 1 2\n", "line 2 has 2 numbers, but the first line promises 3"),
        ("1 3\ncat 1 2 x\n", "line 2 holds something that is not a number"),
        ("2 3\ndog 1 2\ncat 1 2 nan\n", "line 3 holds a number that is not finite"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.vec"
    path.write_text(content)

    with pytest.raises(InputError, match=message):
        read_vectors(path, {"cat": 4})


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        (".gz", CONTENT.encode()),
        (".xz", CONTENT.encode()),
        (".gz", gzip.compress(CONTENT.encode() * 99, mtime=0)[:50]),
    ],
)
def test_missing_truncated_and_misnamed_files_are_refused(
    tmp_path: Path, ending: str, content: bytes
) -> None:
    path = tmp_path / f"vectors.vec{ending}"
    with pytest.raises(InputError, match="There is no vector file"):
        read_vectors(path, {})
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read to its end"):
        read_words(path)
