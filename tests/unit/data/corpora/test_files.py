"""Files of a corpus wherever they lie, and their lines."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data.corpora.files import LineErrors, find_file, hash_texts, open_source
from bidibeam.errors import CorpusError

FILES = {"b/two.txt": b"two", "a/one.txt": b"one", "__MACOSX/a/._one.txt": b"junk", "a/.hidden": b"junk"}


def make_folder(path: Path) -> Path:
    for name, content in FILES.items():
        (path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (path / "folder" / name).write_bytes(content)
    return path / "folder"


def make_zip(path: Path) -> Path:
    with zipfile.ZipFile(path / "files.zip", "w") as archive:
        archive.writestr("a/", b"")
        for name, content in FILES.items():
            archive.writestr(name, content)
    return path / "files.zip"


def make_tar(path: Path) -> Path:
    with tarfile.open(path / "files.tar.xz", "w:xz") as tape:
        for name, content in FILES.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            tape.addfile(member, io.BytesIO(content))
    return path / "files.tar.xz"


@pytest.mark.parametrize("make", [make_folder, make_zip, make_tar])
def test_the_same_files_are_found_wherever_they_lie(make: Callable[[Path], Path], tmp_path: Path) -> None:
    contents = []
    with open_source(make(tmp_path), "x", "files") as files:
        for file in files:
            with file.open() as stream:
                contents.append((file.name, stream.read()))

    assert contents == [("one.txt", b"one"), ("two.txt", b"two")]


@pytest.mark.parametrize(
    ("ending", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_endings_decide_how_to_decompress(
    ending: str, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / f"deep.txt{ending}"
    path.write_bytes(compress(b"text"))

    with open_source(path, "x", "files") as files:
        assert files[0] is find_file(files, "deep.txt")
        with files[0].open() as stream:
            assert stream.read() == b"text"


def test_the_outermost_of_several_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").touch()
    (tmp_path / "x.txt").touch()

    with open_source(tmp_path, "x", "files") as files:
        outermost = find_file(files, "x.txt")
        assert outermost is not None
        assert outermost.path == "x.txt"
        assert find_file(files, "y.txt") is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, r"^The corpus 'x' needs a source: a file\.$"),
        (Path("nowhere"), r"^There is no nowhere: the corpus 'x' is read from a file\.$"),
    ],
)
def test_a_source_that_is_not_given_or_not_there(source: Path | None, message: str) -> None:
    with pytest.raises(CorpusError, match=message), open_source(source, "x", "a file"):
        pass


def test_a_damaged_archive_says_so(tmp_path: Path) -> None:
    path = make_zip(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"one", b"eno", 1).replace(b"two", b"owt", 1))

    with (
        pytest.raises(CorpusError, match=r"files.zip cannot be unpacked \(.+\): fetch it again\.$"),
        open_source(path, "x", "files") as files,
        files[0].open() as stream,
    ):
        stream.read()


def read(raw: bytes, errors: LineErrors) -> list[str]:
    return [line.text for line in errors.read("file.txt", io.BytesIO(raw))]


def test_only_a_line_feed_ends_a_line_and_a_byte_order_mark_is_not_text() -> None:
    errors = LineErrors()

    assert read("\ufeffa\u0085b\x0cc\u2028d\r\n\nlast".encode(), errors) == ["a\u0085b\x0cc\u2028d", "last"]
    assert (errors.total, errors.bad) == (2, 0)


def test_too_many_bad_lines_stop_with_the_first_of_them() -> None:
    errors = LineErrors()

    assert read(b"good\n" * 97 + b"b\xe9d\nw\xf6rse\n" + b"good\n", errors) == ["good"] * 98
    with pytest.raises(CorpusError) as caught:
        errors.check()

    assert str(caught.value) == (
        r"2 of 100 lines (2.0 %) are malformed; 1 % may be. The first is line 98 of file.txt "
        r"(not utf-8 at byte 2): 'b\\xe9d'. Is this the right corpus for the file?"
    )


def test_a_long_bad_line_is_shown_in_part() -> None:
    errors = LineErrors()
    read(b"\xff" + b"x" * 1_000_000, errors)

    assert len(errors.first) < 200
    assert errors.first.endswith("x…'")


def test_truncated_compression_names_the_file() -> None:
    cut_off = lzma.compress(b"line\n" * 1000)[:-9]

    with (
        pytest.raises(CorpusError, match=r"^file.xz cannot be read to its end \(.+\): fetch or unpack"),
        lzma.LZMAFile(io.BytesIO(cut_off)) as damaged,
    ):
        list(LineErrors().read("file.xz", damaged))


@given(st.lists(st.sampled_from([b"good", b"\xff\xff", b""]), max_size=300))
def test_every_line_is_either_read_bad_or_blank_and_one_bad_in_a_hundred_is_allowed(
    lines: list[bytes],
) -> None:
    errors = LineErrors()

    kept = read(b"\n".join(lines), errors)

    assert len(kept) == lines.count(b"good")
    assert errors.bad == lines.count(b"\xff\xff")
    assert errors.total == len(lines) - lines.count(b"")
    if errors.bad > errors.total / 100:
        with pytest.raises(CorpusError, match=rf"^{errors.bad} of {errors.total} lines"):
            errors.check()
    else:
        errors.check()


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_hashes_differ_exactly_as_the_texts_do(one: list[str], other: list[str]) -> None:
    one, other = [[text.replace("\0", "") for text in texts] for texts in (one, other)]

    assert (hash_texts(one) == hash_texts(other)) == (one == other)
