"""Output that grows: killed at any byte and resumed, it is what it would have been, or refused."""

from __future__ import annotations

import fcntl
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked, Ranking
from bidibeam.interchange import nbest, resumable
from bidibeam.scores import Signature

SIGNATURE = Signature((("strategy", "vbs"), ("beam_size", "2")))
SOURCES = [Beams(str(number), f"où {number}?", "là.") for number in range(1, 6)]


def answered(source: Beams) -> tuple[Beams, Ranking]:
    """Source n is answered with "n here"; the third finds nothing."""
    if source.id == "3":
        return source, Ranking()
    found = Hypothesis(f"{source.id} here", (source.id, "here"), -1.0, 3, -0.5)
    beams = source.with_hypotheses(Direction.REGULAR, NBest((found,)))
    return beams, Ranking((Ranked(found, Direction.REGULAR, 0, -0.5),))


REPLIES = ["1 here", "2 here", "", "4 here", "5 here"]
LINES = [nbest.to_json(*answered(source), SIGNATURE) + "\n" for source in SOURCES]
CONTENT = "".join(LINES).encode()


def call(
    path: Path | None,
    sources: Iterable[Beams] = SOURCES,
    *,
    signature: Signature = SIGNATURE,
    resume: bool = False,
    fail_at: str | None = None,
) -> tuple[list[str], int]:
    """What a command does: all the replies that it prints, and how many of them it had to find."""
    found = 0
    with resumable.open_output(path, sources, signature=signature, resume=resume) as output:
        printed = list(output.replies)
        for source in output.rest:
            if source.id == fail_at:
                raise RuntimeError
            found += 1
            beams, ranking = answered(source)
            output.write(beams, ranking)
            printed.append(ranking.text)
    return printed, found


def interrupt(path: Path, fail_at: str = "4", *, resume: bool = False) -> None:
    with pytest.raises(RuntimeError):
        call(path, fail_at=fail_at, resume=resume)


def message_of(path: Path, sources: Iterable[Beams] = SOURCES, signature: Signature = SIGNATURE) -> str:
    with pytest.raises(InputError) as caught:
        call(path, sources, signature=signature, resume=True)
    return str(caught.value)


def partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "best.jsonl"


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "x"}, 'its "id" is the string "2", but the input has the string "x" there.'),
        ({"source": "who?"}, 'its "source" is the string "où 2?", but the input has the string "who?"'),
        ({"reference": None}, 'its "reference" is the string "là.", but the input has null there.'),
    ],
)
def test_another_input_is_refused_with_the_line_that_differs(
    path: Path, change: dict[str, Any], message: str
) -> None:
    interrupt(path)
    before = partial(path).read_bytes()
    sources = [SOURCES[0], replace(SOURCES[1], **change), *SOURCES[2:]]

    found = message_of(path, sources)

    assert found.startswith(f"{partial(path)}, line 2: {message}")
    assert found.endswith(f" Remove {partial(path)}, or do not resume, to start over.")
    assert message_of(path, SOURCES[:2]).startswith(f"{partial(path)}, line 3: the input ends before it.")
    assert partial(path).read_bytes() == before
    assert not path.exists()


def test_an_input_with_the_same_hypotheses_is_resumed(path: Path) -> None:
    beams = [answered(source)[0] for source in SOURCES]
    found = beams[1].regular.best._replace(multiplicity=3, ids=(7, 2))  # which no line says
    beams[1] = beams[1].with_hypotheses(Direction.REGULAR, NBest((found,)))
    interrupt(path)

    assert call(path, beams, resume=True)[1] == 2
    assert call(path, list(nbest.read(path, allow_empty=True)), resume=True)[1] == 0


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("count", "change"),
    [
        (1, {"text": "hers"}),
        (1, {"tokens": ("4h", "ere")}),
        (1, {"log_prob": -1.0000000000000002}),
        (1, {"log_prob": None}),
        (1, {"length": 4}),
        (1, {"score": -0.7}),
        (1, {"finished": False}),
        (1, {"other_log_prob": -2.0}),
        (0, {"text": "1 here"}),
        (2, {"text": "1 here"}),
    ],
)
def test_an_input_with_other_more_or_fewer_hypotheses_is_refused(
    path: Path, direction: Direction, count: int, change: dict[str, Any]
) -> None:
    regular, ranking = answered(SOURCES[0])
    beams = regular.with_hypotheses(Direction.REVERSE, regular.regular)
    path.parent.mkdir()
    path.write_text(nbest.to_json(beams, ranking, SIGNATURE) + "\n", encoding="utf-8")
    assert call(path, [beams], resume=True)[1] == 0
    other = beams.with_hypotheses(direction, NBest((regular.regular.best._replace(**change),) * count))

    told = f'the "{next(iter(change))}" of its "{direction}" hypotheses is not what the input has there.'
    assert message_of(path, [other]).startswith(f"{path}, line 1: {told}")


def test_other_settings_are_refused_by_what_differs(path: Path) -> None:
    interrupt(path)
    other = Signature((("strategy", "vbs"), ("beam_size", "50"), ("seed", "1")))

    assert message_of(path, signature=other).startswith(
        f"{partial(path)}, line 1: it was written with other settings: beam_size:2, "
        "where now there is beam_size:50, seed:1. "
    )
    found = message_of(path, signature=SIGNATURE.extended(seed=1))
    assert "other settings: nothing, where now there is seed:1." in found


@pytest.mark.parametrize("ranking", [None, {}, {"signature": None, "replies": []}, [1], {"signature": "a"}])
def test_a_file_from_elsewhere_is_refused_and_stays(path: Path, ranking: object) -> None:
    path.parent.mkdir()
    line = json.dumps({"id": "1", "regular": [], "ranking": ranking})
    path.write_text(line, encoding="utf-8")

    assert message_of(path).startswith(f"{path}, line 1: it has no ranking that says how it was made.")
    assert path.read_text(encoding="utf-8") == line
    assert list(path.parent.iterdir()) == [path]


def test_a_broken_line_is_named_and_an_error_of_the_input_told_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    partial(path).write_text(LINES[0] + LINES[1][:20] + "\n" + LINES[2], encoding="utf-8")
    assert message_of(path).startswith(f"{partial(path)}, line 2: this is not JSON: ")
    interrupt(path)

    def broken() -> Iterator[Beams]:
        yield SOURCES[0]
        raise InputError("in.jsonl, line 2: broken.")

    assert message_of(path, broken()) == "in.jsonl, line 2: broken."
    assert partial(path).read_bytes() == "".join(LINES[:3]).encode()


@pytest.mark.parametrize("resume", [False, True])
def test_two_writers_of_one_file_are_one_too_many(path: Path, resume: bool) -> None:
    with resumable.open_output(path, SOURCES, signature=SIGNATURE) as output:
        output.write(*answered(next(output.rest)))
        with pytest.raises(InputError, match=r"^Another process is writing to .*partial\. Wait until"):
            call(path, resume=resume)
        for source in output.rest:
            output.write(*answered(source))

    assert path.read_bytes() == CONTENT


def test_a_writer_that_comes_as_another_ends_does_not_touch_its_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    lock = fcntl.flock

    def lock_late(*arguments: object) -> None:
        monkeypatch.undo()  # once
        partial(path).write_bytes(CONTENT)
        partial(path).replace(path)  # so the file that is open already has another name
        lock(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("fcntl.flock", lock_late)
    interrupt(path, "2")

    assert path.read_bytes() == CONTENT
    assert partial(path).read_bytes() == LINES[0].encode()
