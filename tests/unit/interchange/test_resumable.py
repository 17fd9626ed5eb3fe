"""Output that grows: killed at any byte and resumed, it is what it would have been, or refused."""

from __future__ import annotations

import fcntl
import gzip
import json
import lzma
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
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
SOURCES = [Beams(str(number), f"où {number}?", ("là.",)) for number in range(1, 6)]


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


def test_an_input_with_the_same_hypotheses_is_resumed(path: Path) -> None:
    beams = [answered(source)[0] for source in SOURCES]
    found = beams[1].regular.best._replace(multiplicity=3, ids=(7, 2))  # which no line says
    beams[1] = beams[1].with_hypotheses(Direction.REGULAR, NBest((found,)))
    interrupt(path)

    assert call(path, beams, resume=True)[1] == 2
    assert call(path, list(nbest.read(path, allow_empty=True)), resume=True)[1] == 0
    partial(path).write_text(BOTH, encoding="utf-8")
    assert call(path, [SAME], resume=True)[1] == 0


def with_second(**change: Any) -> list[Beams]:
    return [SOURCES[0], replace(SOURCES[1], **change), *SOURCES[2:]]


FIRST, RANKING = answered(SOURCES[0])
SAME = FIRST.with_hypotheses(Direction.REVERSE, FIRST.regular)
BOTH = f"{nbest.to_json(SAME, RANKING, SIGNATURE)}\n"
THREE = "".join(LINES[:3])
UNSIGNED: list[object] = [None, {}, {"signature": None, "replies": []}, [1], {"signature": "a"}]
CHANGES: list[tuple[int, dict[str, Any]]] = [
    *((1, {"text": "hers"}), (1, {"tokens": ("4h", "ere")}), (1, {"log_prob": -1.0000000000000002})),
    *((1, {"log_prob": None}), (1, {"length": 4}), (1, {"score": -0.7}), (1, {"finished": False})),
    *((1, {"other_log_prob": -2.0}), (0, {"text": "1 here"}), (2, {"text": "1 here"})),
]
SETTINGS = "1: it was written with other settings: {}, where now there is {}."
NOT_SIGNED = "1: it has no ranking that says how it was made."
NOT_SAME = '1: the "{}" of its "{}" hypotheses is not what the input has there.'


@pytest.mark.parametrize(
    ("content", "sources", "facts", "message"),
    [
        (THREE, with_second(id="x"), {}, '2: its "id" is the string "2", but the input has the string "x"'),
        (THREE, with_second(source="who?"), {}, '2: its "source" is the string "où 2?", but the input has'),
        (THREE, with_second(references=()), {}, '2: its "reference" is the string "là.", but the input'),
        (
            THREE,
            with_second(references=("là.", "ici.")),
            {},
            '2: its "references" are not those that the input',
        ),
        (THREE, SOURCES[:2], {}, "3: the input ends before it."),
        (
            THREE,
            SOURCES,
            {"beam_size": 50, "seed": 1},
            SETTINGS.format("beam_size:2", "beam_size:50, seed:1"),
        ),
        (THREE, SOURCES, {"beam_size": 2, "seed": 1}, SETTINGS.format("nothing", "seed:1")),
        (LINES[0] + LINES[1][:20] + "\n" + LINES[2], SOURCES, {}, "2: this is not JSON: "),
        *(
            (f"{json.dumps({'id': '1', 'regular': [], 'ranking': ranking})}\n", SOURCES, {}, NOT_SIGNED)
            for ranking in UNSIGNED
        ),
        *(
            (
                BOTH,
                [SAME.with_hypotheses(direction, NBest((FIRST.regular.best._replace(**change),) * count))],
                {},
                NOT_SAME.format(next(iter(change)), direction),
            )
            for direction in Direction
            for count, change in CHANGES
        ),
    ],
)
def test_lines_of_another_input_or_other_settings_are_refused_and_stay(
    path: Path, content: str, sources: list[Beams], facts: dict[str, Any], message: str
) -> None:
    signature = Signature((("strategy", "vbs"),)).extended(**(facts or {"beam_size": 2}))
    path.parent.mkdir()
    for file in (partial(path), path):
        file.write_text(content, encoding="utf-8")

        told = rf"^{re.escape(f'{file}, line {message}')}.* Remove {file}, or do not resume, to start over\.$"
        with pytest.raises(InputError, match=told):
            call(path, sources, signature=signature, resume=True)

        assert file.read_text(encoding="utf-8") == content
        assert list(path.parent.iterdir()) == [file]
        file.unlink()


def test_an_error_of_the_input_is_told_as_it_is(path: Path) -> None:
    interrupt(path)

    def broken() -> Iterator[Beams]:
        yield SOURCES[0]
        raise InputError("in.jsonl, line 2: broken.")

    with pytest.raises(InputError, match=r"^in\.jsonl, line 2: broken\.$"):
        call(path, broken(), resume=True)
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
