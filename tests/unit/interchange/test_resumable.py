"""Output that grows: killed at any byte and resumed, it is what it would have been."""

from __future__ import annotations

import gzip
import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bidibeam.hypotheses import Beams
from bidibeam.interchange import nbest, resumable
from tests.unit.interchange.answers import (
    CONTENT,
    LINES,
    REPLIES,
    SIGNATURE,
    SOURCES,
    answered,
    call,
    interrupt,
    partial,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "best.jsonl"


@pytest.mark.parametrize("resume", [False, True])
def test_with_nothing_to_resume_all_is_written(path: Path, resume: bool) -> None:
    assert call(path, resume=resume) == (REPLIES, 5)

    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert list(nbest.read(path, allow_empty=True)) == [answered(source)[0] for source in SOURCES]


def test_every_line_is_there_as_soon_as_it_is_written(path: Path) -> None:
    with resumable.open_output(path, SOURCES, signature=SIGNATURE) as output:
        for number, source in enumerate(output.rest, start=1):
            output.write(*answered(source))
            assert partial(path).read_bytes() == "".join(LINES[:number]).encode()
            assert not path.exists()


def test_an_error_leaves_the_file_as_it_was_and_what_is_done_beside_it(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("before", encoding="utf-8")

    interrupt(path)

    assert path.read_text(encoding="utf-8") == "before"
    assert partial(path).read_bytes() == "".join(LINES[:3]).encode()


@pytest.mark.parametrize("resume", [False, True])
def test_an_error_before_the_first_line_leaves_nothing(path: Path, resume: bool) -> None:
    with pytest.raises(RuntimeError):
        call(path, resume=resume, fail_at="1")

    assert list(path.parent.iterdir()) == []


def test_what_was_done_is_told_again_and_not_done_again(path: Path) -> None:
    interrupt(path)

    assert call(path, resume=True) == (REPLIES, 2)

    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]


def test_without_resume_all_is_done_again(path: Path) -> None:
    interrupt(path)

    assert call(path) == (REPLIES, 5)

    assert path.read_bytes() == CONTENT


def test_several_interruptions_add_up(path: Path) -> None:
    interrupt(path, fail_at="2")
    with pytest.raises(RuntimeError):
        call(path, resume=True, fail_at="5")

    assert call(path, resume=True) == (REPLIES, 1)

    assert path.read_bytes() == CONTENT


@given(length=st.integers(0, len(CONTENT)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cut_off_at_any_byte_it_is_resumed(tmp_path: Path, length: int) -> None:
    path = tmp_path / "best.jsonl"
    path.unlink(missing_ok=True)
    partial(path).write_bytes(CONTENT[:length])

    printed, found = call(path, resume=True)

    assert printed == REPLIES
    assert found == 5 - CONTENT[:length].count(b"\n")
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(("ending", "unpack"), [(".gz", gzip.decompress), (".xz", lzma.decompress)])
def test_a_packed_file_is_packed_in_the_end(
    tmp_path: Path, ending: str, unpack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"best.jsonl{ending}"
    interrupt(path)
    assert partial(path).read_bytes() == "".join(LINES[:3]).encode()

    assert call(path, resume=True) == (REPLIES, 2)

    assert unpack(path.read_bytes()) == CONTENT
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["best.jsonl", "best.jsonl.gz"])
def test_a_file_that_is_whole_is_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    call(path)
    before, changed = path.read_bytes(), path.stat().st_mtime_ns

    assert call(path, resume=True) == (REPLIES, 0)

    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, changed)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["best.jsonl", "best.jsonl.gz"])
def test_a_file_that_was_whole_grows_with_its_input(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    call(path, SOURCES[:3])

    assert call(path, resume=True) == (REPLIES, 2)

    content = path.read_bytes()
    assert (gzip.decompress(content) if name.endswith(".gz") else content) == CONTENT
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_begun_anew_goes_before_a_file_that_is_whole(path: Path) -> None:
    call(path, signature=SIGNATURE.extended(seed=1))
    interrupt(path)

    assert call(path, resume=True) == (REPLIES, 2)

    assert path.read_bytes() == CONTENT


def test_a_file_whose_last_line_has_no_end_grows_too(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes("".join(LINES[:3]).encode().removesuffix(b"\n"))

    assert call(path, resume=True) == (REPLIES, 2)

    assert path.read_bytes() == CONTENT


def test_no_more_sources_are_read_than_are_done(path: Path) -> None:
    interrupt(path)

    def sources() -> Iterator[Beams]:
        yield from SOURCES[:3]
        pytest.fail("a fourth source was read")

    with resumable.open_output(path, sources(), signature=SIGNATURE, resume=True) as output:
        assert len(output.replies) == 3


def test_blank_lines_are_passed_over(path: Path) -> None:
    path.parent.mkdir()
    partial(path).write_text(f"\n{LINES[0]}\n", encoding="utf-8")

    assert call(path, resume=True) == (REPLIES, 4)


def test_a_file_system_without_locks_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)

    assert call(path) == (REPLIES, 5)


def test_no_path_is_nowhere() -> None:
    assert call(None, resume=True) == (REPLIES, 5)


def test_what_is_no_file_is_simply_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    with resumable.open_output(pipe, SOURCES, signature=SIGNATURE) as output:
        output.write(*answered(next(output.rest)))
        assert os.read(reader, 10_000) == LINES[0].encode()

    os.close(reader)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_keeps_pointing_at_the_file_that_is_replaced(tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    link.symlink_to(real)
    interrupt(link)
    assert partial(real).exists()

    assert call(link, resume=True) == (REPLIES, 2)

    assert link.is_symlink()
    assert real.read_bytes() == CONTENT


SLOWLY = """
import sys, time
from pathlib import Path
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked, Ranking
from bidibeam.interchange import resumable
from bidibeam.scores import Signature

sources = [Beams(str(number), "x" * 100) for number in range(400)]
with resumable.open_output(Path(sys.argv[1]), sources, signature=Signature(()), resume=True) as output:
    for reply in output.replies:
        print(reply)
    for source in output.rest:
        found = Hypothesis(source.id * 50, (source.id,) * 50, -1.0, 51, -0.5)
        entries = (Ranked(found, Direction.REGULAR, 0, -0.5),)
        output.write(source.with_hypotheses(Direction.REGULAR, NBest((found,) * 20)), Ranking(entries))
        print(found.text)
        time.sleep(float(sys.argv[2]))
"""


def start(path: Path, pause_s: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SLOWLY, path, str(pause_s)], stdout=subprocess.PIPE)


def kill_after(lines: int, path: Path) -> None:
    """SIGKILL once so many lines stand: at whatever it is doing just then."""
    with start(path, 0.001) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if partial(path).exists() and partial(path).read_bytes().count(b"\n") >= lines:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.001)
    assert process.returncode == -signal.SIGKILL, "it was over before it could be killed"


def test_killed_with_sigkill_and_resumed_it_is_what_it_would_have_been(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    with start(whole, 0) as process:
        printed = process.communicate()[0]

    for lines in (5, 60, 200):
        kill_after(lines, killed)
        assert not killed.exists()
        kept = partial(killed).read_bytes()
        assert whole.read_bytes().startswith(kept)
        assert kept.count(b"\n") >= lines
    with start(killed, 0) as process:
        printed_again = process.communicate()[0]

    assert killed.read_bytes() == whole.read_bytes()
    assert printed_again == printed
    assert printed.count(b"\n") == 400
    assert sorted(tmp_path.iterdir()) == [killed, whole]
