"""Folders of file systems that pyarrow knows: a local path, a file:// address, and one that is in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bidibeam.distributed.storage import PARTIAL, Storage
from bidibeam.errors import InputError

pytest.importorskip("pyarrow")

SHARDS = {"a.txt": 1, "deep/er/b.txt": 2}


@pytest.fixture(params=["path", "relative", "file://", "mock://"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A folder that is not there yet."""
    if request.param == "mock://":
        from pyarrow import fs

        memory, _ = fs.FileSystem.from_uri("mock:///")

        def from_uri(_: str) -> tuple[Any, str]:
            return memory, "bucket/out"

        monkeypatch.setattr(fs, "FileSystem", type("FileSystem", (), {"from_uri": staticmethod(from_uri)}))
    monkeypatch.chdir(tmp_path)
    places = {"path": str(tmp_path / "out"), "relative": "out", "file://": f"file://{tmp_path}/out"}
    return Storage(places.get(request.param, "mock://bucket/out"))


def write(storage: Storage, name: str, content: bytes) -> None:
    with storage.write(name) as stream:
        stream.write(content)


def read(storage: Storage, name: str) -> bytes:
    with storage.open(name) as file:
        return file.read()


def test_what_is_written_is_listed_and_read_by_its_name_in_folders_too(storage: Storage) -> None:
    assert storage.list() == {}
    assert not storage.has("a.txt")
    for name, size in SHARDS.items():
        write(storage, name, b"x" * size)

    assert storage.list() == SHARDS
    assert read(storage, "deep/er/b.txt") == b"xx"
    assert storage.has("a.txt")
    assert not storage.has("deep")
    assert not storage.is_file()


def test_a_name_is_there_once_its_content_is_whole(storage: Storage) -> None:
    write(storage, "a", b"old")
    with storage.write("a") as stream:
        stream.write(b"new")
        assert read(storage, "a") == b"old"
        (partial,) = storage.list().keys() - {"a"}
        assert partial.endswith(PARTIAL)

    assert read(storage, "a") == b"new"
    assert storage.list() == {"a": 3}


def fail_to_write(storage: Storage, error: type[BaseException]) -> None:
    with storage.write("a") as stream:
        stream.write(b"half")
        raise error


def test_a_failure_leaves_what_was_there_and_nothing_else(storage: Storage) -> None:
    write(storage, "a", b"old")
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            fail_to_write(storage, error)

    assert read(storage, "a") == b"old"
    assert storage.list() == {"a": 3}


def test_files_and_folders_are_removed(storage: Storage) -> None:
    for name in SHARDS:
        write(storage, name, b"x")
    storage.remove("a.txt")
    storage.remove_folder("deep")
    storage.remove_folder("never there")

    assert storage.list() == {}


def test_lines_are_read_one_by_one(storage: Storage) -> None:
    write(storage, "a", b"x\n" * 3)
    with storage.open("a") as file:
        assert [*file] == [b"x\n"] * 3


def test_a_single_file_holds_itself(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"xyz")
    storage = Storage(str(tmp_path / "a.txt"))

    assert storage.is_file()
    assert storage.list() == {"a.txt": 3}
    assert storage.has("a.txt")
    assert read(storage, "a.txt") == b"xyz"


@pytest.mark.parametrize("place", ["nosuch://bucket/in", "s3:///"])
def test_an_address_that_leads_nowhere_is_told_in_a_sentence(place: str) -> None:
    with pytest.raises(InputError, match=r"cannot be reached: .*\.$"):
        Storage(place).list()


def test_what_the_system_refuses_names_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(OSError, match=r"File exists|Not a directory") as raised,
        Storage(str(tmp_path / "file")).write("a"),
    ):
        pass

    assert str(tmp_path / "file") in raised.value.filename
    with pytest.raises(FileNotFoundError) as missing:
        Storage(str(tmp_path)).open("gone.txt")
    assert missing.value.filename == str(tmp_path / "gone.txt")
