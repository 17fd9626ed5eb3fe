"""Output that grows: killed at any byte and resumed, it is what it would have been."""

from __future__ import annotations

import gzip
import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked, Ranking
from bidibeam.interchange import nbest, resumable
from tests.unit.interchange.outputs import (
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


@pytest.mark.parametrize("resume", [False, True])
def test_with_nothing_to_resume_all_is_written_line_by_line(path: Path, resume: bool) -> None:
    with resumable.open_output(path, SOURCES, signature=SIGNATURE, resume=resume) as output:
        for number, source in enumerate(output.rest, start=1):
            output.write(*answered(source))
            assert partial(path).read_bytes() == "".join(LINES[:number]).encode()
            assert not path.exists()

    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert list(nbest.read(path, allow_empty=True)) == [answered(source)[0] for source in SOURCES]


@pytest.mark.parametrize("resume", [False, True])
def test_an_error_leaves_the_file_as_it_was_and_what_is_done_beside_it(path: Path, resume: bool) -> None:
    interrupt(path, "1", resume=resume)
    assert list(path.parent.iterdir()) == []
    path.write_text("before", encoding="utf-8")

    interrupt(path)

    assert path.read_text(encoding="utf-8") == "before"
    assert partial(path).read_bytes() == "".join(LINES[:3]).encode()


def test_what_was_done_is_told_again_and_done_again_only_without_resume(path: Path) -> None:
    interrupt(path)
    assert call(path) == (REPLIES, 5)
    path.unlink()
    interrupt(path, "2")
    interrupt(path, "5", resume=True)

    assert call(path, resume=True) == (REPLIES, 1)
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]


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


def answered_in_batches(sources: Iterable[Beams], size: int) -> Iterator[tuple[Beams, Ranking]]:
    """Numbers that tell in which batch a source was answered, and where in it."""
    rest = iter(sources)
    while batch := list(islice(rest, size)):
        for place, source in enumerate(batch):
            found = Hypothesis(source.id, (source.id,), -len(batch) - place / 10, 2, -1.0)
            entries = (Ranked(found, Direction.REGULAR, 0, -1.0),)
            yield source.with_hypotheses(Direction.REGULAR, NBest((found,))), Ranking(entries)


def call_in_batches(path: Path, size: int, *, count: int = 5, resume: bool = False) -> tuple[list[str], int]:
    """What a command prints that answers in batches, and how many answers it had to find."""
    options: Any = {"signature": SIGNATURE, "resume": resume, "batch_size": size}
    with resumable.open_output(path, SOURCES[:count], **options) as output:
        printed = list(output.replies)
        for beams, ranking in answered_in_batches(output.rest, size):
            output.write(beams, ranking)
            printed.append(ranking.text)
    return printed, len(printed) - len(output.replies)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_cut_off_anywhere_and_resumed_in_batches_it_is_byte_for_byte_what_it_would_have_been(
    tmp_path: Path, size: int
) -> None:
    whole, path = tmp_path / "whole.jsonl", tmp_path / "best.jsonl"
    printed, _ = call_in_batches(whole, size)
    content = whole.read_bytes()
    lines = content.splitlines(keepends=True)

    for done in range(6):
        for torn in (b"", b"".join(lines[done:])[:9]):
            path.unlink(missing_ok=True)
            partial(path).write_bytes(b"".join(lines[:done]) + torn)

            left = 0 if done == 5 else 5 - done // size * size
            assert call_in_batches(path, size, resume=True) == (printed, left)
            assert path.read_bytes() == content
    assert call_in_batches(path, size, resume=True) == (printed, 0)
    path.unlink()
    call_in_batches(path, size, count=4)  # and then the input grows
    assert call_in_batches(path, size, resume=True)[0] == printed
    assert path.read_bytes() == content


def test_lines_of_another_batch_size_are_refused(path: Path) -> None:
    call_in_batches(path, 2)

    told = r"line 1: it was searched with batch_size 2, and numbers .* Give it in place of 3\. Remove "
    with pytest.raises(InputError, match=told):
        call_in_batches(path, 3, resume=True)


@pytest.mark.parametrize(
    ("ending", "unpack"), [("", bytes), (".gz", gzip.decompress), (".xz", lzma.decompress)]
)
def test_a_file_is_packed_in_the_end_left_alone_once_whole_and_grows_with_its_input(
    tmp_path: Path, ending: str, unpack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"best.jsonl{ending}"
    interrupt(path)
    assert partial(path).read_bytes() == "".join(LINES[:3]).encode()
    assert call(path, SOURCES[:4], resume=True) == (REPLIES[:4], 1)
    before, changed = path.read_bytes(), path.stat().st_mtime_ns

    assert call(path, SOURCES[:4], resume=True) == (REPLIES[:4], 0)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, changed)
    assert call(path, resume=True) == (REPLIES, 1)
    assert unpack(path.read_bytes()) == CONTENT
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_begun_anew_goes_before_a_file_that_is_whole(path: Path) -> None:
    call(path, signature=SIGNATURE.extended(seed=1))
    interrupt(path)

    assert call(path, resume=True) == (REPLIES, 2)
    assert path.read_bytes() == CONTENT


def test_a_last_line_without_its_end_and_blank_lines_are_no_obstacle(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes("".join(LINES[:3]).encode().removesuffix(b"\n"))

    assert call(path, resume=True) == (REPLIES, 2)
    assert path.read_bytes() == CONTENT
    partial(path).write_text(f"\n{LINES[0]}\n", encoding="utf-8")
    assert call(path, resume=True) == (REPLIES, 4)


def test_no_more_sources_are_read_than_are_done(path: Path) -> None:
    interrupt(path)

    def sources() -> Iterator[Beams]:
        yield from SOURCES[:3]
        pytest.fail("a fourth source was read")

    with resumable.open_output(path, sources(), signature=SIGNATURE, resume=True) as output:
        assert len(output.replies) == 3


def test_no_path_is_nowhere_and_a_file_system_without_locks_will_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    assert call(None, resume=True) == (REPLIES, 5)
    monkeypatch.setattr("fcntl.flock", refuse)
    assert call(path) == (REPLIES, 5)


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
