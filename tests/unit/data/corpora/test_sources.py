from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from bidibeam.data.corpora.sources import find, opened, required
from bidibeam.errors import CorpusError

FILES = {"b/two.txt": b"two", "a/one.txt": b"one", "__MACOSX/a/._one.txt": b"junk", "a/.hidden": b"junk"}


def folder(path: Path) -> Path:
    for name, content in FILES.items():
        (path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (path / "folder" / name).write_bytes(content)
    return path / "folder"


def zipped(path: Path) -> Path:
    with zipfile.ZipFile(path / "files.zip", "w") as archive:
        archive.writestr("a/", b"")
        for name, content in FILES.items():
            archive.writestr(name, content)
    return path / "files.zip"


def tarred(path: Path) -> Path:
    with tarfile.open(path / "files.tar.xz", "w:xz") as tape:
        for name, content in FILES.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            tape.addfile(member, io.BytesIO(content))
    return path / "files.tar.xz"


@pytest.mark.parametrize("make", [folder, zipped, tarred])
def test_the_same_files_are_found_wherever_they_lie(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with opened(make(tmp_path)) as files:
        contents = []
        for file in files:
            with file.open() as stream:
                contents.append((file.name, stream.read()))

    assert contents == [("one.txt", b"one"), ("two.txt", b"two")]


@pytest.mark.parametrize(
    ("ending", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_endings_decide_how_to_decompress(ending: str, compress, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / f"deep.txt{ending}").write_bytes(compress(b"text"))

    with opened(tmp_path / f"deep.txt{ending}") as files:
        found = find(files, "deep.txt")
        assert found is not None
        with found.open() as stream:
            assert stream.read() == b"text"


def test_the_outermost_of_several_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").touch()
    (tmp_path / "x.txt").touch()

    with opened(tmp_path) as files:
        found = find(files, "x.txt")
        assert found is not None
        assert found.path == "x.txt"
        assert find(files, "y.txt") is None


def test_a_source_that_is_not_given_or_not_there() -> None:
    with pytest.raises(CorpusError, match=r"^The corpus 'x' needs a source: a file\.$"):
        required(None, "x", "a file")
    with pytest.raises(CorpusError, match=r"^There is no nowhere: the corpus 'x' is read from a file\.$"):
        required(Path("nowhere"), "x", "a file")


def test_a_damaged_archive_says_so(tmp_path: Path) -> None:
    path = zipped(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"one", b"eno", 1).replace(b"two", b"owt", 1))

    with (
        pytest.raises(CorpusError, match=r"files.zip cannot be unpacked \(.+\): fetch it again\.$"),
        opened(path) as files,
        files[0].open() as stream,
    ):
        stream.read()
