"""Files: packed ones are read, and none is ever left half written."""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bidibeam import files
from bidibeam.errors import RunError, SettingsError


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "x.txt"
    path.write_text("old", encoding="utf-8")
    return path


def write_then_fail(path: Path) -> None:
    with files.replacing(path) as partial:
        partial.write_text("half of the new", encoding="utf-8")
        raise RuntimeError


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "x.txt"

    with files.replacing(path) as partial:
        partial.write_text("new", encoding="utf-8")
        assert not path.exists()

    assert path.read_text(encoding="utf-8") == "new"
    assert os.listdir(path.parent) == ["x.txt"]  # noqa: PTH208


def test_a_file_stays_as_it_was_when_writing_fails_or_writes_nothing(old: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        write_then_fail(old)
    with pytest.raises(FileNotFoundError), files.replacing(old):
        pass

    assert old.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [old]


def test_a_file_stays_as_it_was_when_the_process_is_killed(old: Path, tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys; from bidibeam import files\n"
        "with files.replacing(pathlib.Path(sys.argv[1])) as partial:\n"
        "    partial.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )

    done = subprocess.run([sys.executable, "-c", code, str(old)], check=False)

    assert done.returncode == -9
    assert old.read_text(encoding="utf-8") == "old"
    assert files.leftovers(tmp_path, ["y.txt", "x"]) == []
    (left,) = files.leftovers(tmp_path, ["x.txt"])
    assert left.read_text(encoding="utf-8") == "half"
    assert files.names_in(tmp_path) == {"x.txt"}
    ours, others = (tmp_path / f".x.txt.{number}.partial" for number in (os.getpid(), "a"))
    for path in (ours, others):
        path.touch()
    files.write_text(old, "new")
    assert {*tmp_path.iterdir()} == {old, others}  # what is not ours stays


def test_what_people_call_partial_is_no_leftover(tmp_path: Path) -> None:
    for name in ("x.partial", ".x.partial", "x.7.partial", ".x.7.partial.txt"):
        (tmp_path / name).touch()
    (tmp_path / ".folder.7.partial").mkdir()

    assert files.leftovers(tmp_path, ["x", "folder"]) == []
    assert len(files.names_in(tmp_path)) == 5
    assert files.names_in(tmp_path / "nowhere") == set()


CONTENT = "été\r\n\u2028a\rb\n".encode()


@pytest.mark.parametrize(
    ("name", "packed"),
    [("x.txt", CONTENT), ("x.txt.gz", gzip.compress(CONTENT, mtime=0)), ("x.txt.xz", lzma.compress(CONTENT))],
    ids=["plain", "gz", "xz"],
)
def test_plain_and_packed_files_read_the_same(tmp_path: Path, name: str, packed: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(packed)

    with files.open_binary(path) as binary:
        assert binary.read() == CONTENT
    with path.open("rb") as raw, files.unpack(raw, name) as stream:
        assert stream.read() == CONTENT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "Expecting property name"),
        ("[1]", "an object is needed, not list"),
        ("[" * 100_000, "recursion"),
        ("9" * 5_000, "Exceeds the limit"),
    ],
)
def test_what_is_no_json_object_is_a_value_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}'))
    assert files.read_json(path) == {"a": 1}

    path.write_bytes(gzip.compress(content.encode()))
    with pytest.raises(ValueError, match=message):
        files.read_json(path)


def test_a_link_keeps_pointing_at_the_file_that_is_replaced(old: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to(old)

    files.write_text(link, "new")

    assert link.is_symlink()
    assert old.read_text(encoding="utf-8") == "new"


def test_a_link_that_leads_to_itself_is_no_place_to_write_to(tmp_path: Path) -> None:
    loop = tmp_path / "loop.txt"
    loop.symlink_to("loop.txt")

    with pytest.raises(OSError, match="symbolic links") as caught:
        files.write_text(loop, "new")

    assert caught.value.filename == str(loop)
    assert [path.name for path in tmp_path.iterdir()] == ["loop.txt"]


def test_half_a_surrogate_pair_is_written_as_an_escape(tmp_path: Path) -> None:
    files.write_json(tmp_path / "x.json", {"\ud800": "\udfff"})

    assert files.read_json(tmp_path / "x.json") == {"\ud800": "\udfff"}


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    files.write_text(pipe, "through")

    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


def test_dev_stdout_is_never_replaced() -> None:
    code = "import pathlib; from bidibeam import files; files.write_text(pathlib.Path('/dev/stdout'), 'out')"

    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert printed.stdout == "out"
    assert Path("/dev/stdout").is_symlink()


def test_a_new_file_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()

    with files.replacing(tmp_path / "ours") as partial:
        partial.touch(mode=0o600)

    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied"), "x cannot be read (Permission denied). Do this."),
        (gzip.BadGzipFile("Not a gzipped file"), "x is damaged (Not a gzipped file). Do this."),
        (KeyError("field"), "x is damaged (it has no 'field'). Do this."),
        (Exception(), "x is damaged (Exception). Do this."),
        (ValueError("a\nb" * 999), f"x is damaged ({('a b' * 999)[:300]} ...). Do this."),
        (SettingsError("Too much."), "x is damaged (Too much). Do this."),
        (RunError("It is said."), "It is said."),
    ],
)
def test_whatever_is_wrong_with_a_file_is_one_sentence(error: Exception, message: str) -> None:
    with pytest.raises(RunError) as caught, files.reading("x", "Do this."):
        raise error
    assert str(caught.value) == message


def test_a_process_that_dies_gives_its_folder_free(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    code = "import sys; from pathlib import Path; from bidibeam.files import alone_in\n"
    code += "with alone_in(Path(sys.argv[1]), 'at'): print('here', flush=True); sys.stdin.read()"
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], **pipes) as process:
        assert process.stdout.readline() == b"here\n"  # type: ignore[union-attr]
        with (
            pytest.raises(RunError, match=rf"^Another process is at {folder}\."),
            files.alone_in(folder, "at"),
        ):
            pass
        process.kill()
        process.communicate()

    with files.alone_in(folder, "at"):
        assert folder.is_dir()


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127])
def test_a_name_may_be_as_long_as_names_can_be(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with files.replacing(path) as partial:
        partial.touch()
    partial.with_name(partial.name.replace(f".{os.getpid()}.", ".999999999.")).touch()  # by one that died

    files.write_text(path, "whole")

    assert path.read_text() == "whole"
    assert [*tmp_path.iterdir()] == [path]
