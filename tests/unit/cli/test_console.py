"""Sentences, tables and progress go to stderr."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from bidibeam.cli import console as module
from bidibeam.cli.experiment import Terminal
from bidibeam.cli.training_progress import TrainingProgress
from bidibeam.interchange.text_lines import Lines


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    (tmp_path / "lines.txt").write_bytes(b"0123456\n" * 1000)
    return Lines(tmp_path / "lines.txt")


def test_the_console_writes_to_stderr_alone(capsys: pytest.CaptureFixture[str]) -> None:
    module.show("hello 3")

    assert capsys.readouterr() == ("", "hello 3\n")


def test_progress_shows_description_counts_times_and_note(terminal: io.StringIO) -> None:
    with module.create_progress() as bars:
        task = bars.add_task("training [x]", total=8, note="loss 4.2")
        bars.update(task, completed=2)
        bars.add_task("reading", total=None, note="")

    for part in ("training [x]", "2/8", "0:00:00", "left", "loss 4.2", "reading", "0/?"):
        assert part in terminal.getvalue()


@pytest.mark.parametrize(
    ("last", "stopped_by", "is_falling"),
    [(1.5, "epochs", True), (2.5, "epochs", False), (1.5, "max_steps", False)],
)
def test_a_training_that_ends_at_its_best_says_that_more_may_help(
    last: float, stopped_by: str, is_falling: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = TrainingProgress()
    for step, loss in enumerate((2.0, last), start=1):
        record = {"epoch": step, "loss": loss, "loss_regular": loss, "best_loss": min(2.0, loss)}
        progress.on_evaluation(step=step, record=record)

    progress.on_end(step=2, stopped_by=stopped_by, best_loss=min(2.0, last))

    assert ("more epochs may lower it" in capsys.readouterr().err.replace("\n", " ")) == is_falling


def test_progress_that_is_transient_or_never_began_leaves_no_line(log: io.StringIO) -> None:
    with module.create_progress(transient=True) as bars:
        bars.advance(bars.add_task("reading", total=1, note=""))
    with module.show_preparation():
        pass
    assert log.getvalue() == ""  # a log has no line to take back

    with module.show_preparation() as update:
        update("reading", 1, 1)
    assert log.getvalue().startswith("reading")


def take(count: int, seconds: float, total: int | None) -> Iterator[int]:
    """Items that take so many seconds each, by a clock of our own."""
    now = [0.0]

    def items() -> Iterator[int]:
        for number in range(count):
            now[0] += seconds
            yield number

    return module.log_progress(items(), total, "50 hypotheses, test", clock=lambda: now[0])


def test_in_a_log_a_long_loop_says_how_far_it_is_every_half_minute(log: io.StringIO) -> None:
    assert list(take(1000, 1.0, 1000)) == list(range(1000))

    lines = log.getvalue().splitlines()
    assert lines[0] == "50 hypotheses, test: 30 of 1,000 (3%) after 30 s"
    assert lines[-1] == "50 hypotheses, test: 990 of 1,000 (99%) after 16 min 30 s"
    assert len(lines) == 33


def test_or_at_every_tenth_if_that_comes_first(log: io.StringIO) -> None:
    assert len(list(take(100, 0.8, 100))) == 100

    assert log.getvalue().splitlines() == [
        f"50 hypotheses, test: {done} of 100 ({done}%) after {module.format_duration(0.8 * done)}"
        for done in range(10, 100, 10)
    ]


def test_a_short_loop_says_nothing_and_one_of_unknown_length_counts(log: io.StringIO) -> None:
    assert len(list(take(400, 0.01, 400))) == 400
    assert log.getvalue() == ""

    list(take(5, 20.0, None))
    assert log.getvalue().splitlines() == [
        "50 hypotheses, test: 2 after 40 s",
        "50 hypotheses, test: 4 after 1 min 20 s",
    ]


def test_a_log_tells_bytes_of_a_file_too(log: io.StringIO, lines: Lines) -> None:
    now = iter(range(10_000))

    list(module.log_progress(lines, None, "reading", lines=lines, clock=lambda: float(next(now))))

    assert "of 8,000 bytes (" in log.getvalue()
    assert "%) after 30 s" in log.getvalue()


def test_in_a_terminal_a_bar_counts_instead_items_or_bytes_of_a_file(
    terminal: io.StringIO, lines: Lines
) -> None:
    assert list(module.track(range(3), 3, "searching")) == [0, 1, 2]
    assert len(list(module.track(lines, None, "reading", lines=lines))) == 1000

    assert "3/3" in terminal.getvalue()
    assert "8.0/8.0 kB" in terminal.getvalue()


def test_an_experiment_in_a_log_says_when_stages_begin_and_end(
    log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 10_000, 10))
    monkeypatch.setattr(module.log_progress, "__kwdefaults__", {"clock": lambda: float(next(now))})
    watcher = Terminal()

    watcher.begin("search seed 0 test 50", number=3, total=9, resumed=False, why="")
    assert list(watcher.track(range(6), 6, "50 hypotheses, test")) == list(range(6))
    watcher.end("search seed 0 test 50", number=3, total=9, took_s=61.2)

    first, *lines, last = log.getvalue().splitlines()
    assert first.startswith("3/9  search seed 0 test 50 ─")
    assert lines[0] == "50 hypotheses, test: 1 of 6 (17%) after 10 s"
    assert len(lines) == 5
    assert last == "3/9  search seed 0 test 50: done in 1 min 1 s"


def test_times_and_counts_are_told_as_people_say_them() -> None:
    for seconds, told in (
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (42.4, "42 s"),
        (59.6, "1 min 0 s"),
        (185, "3 min 5 s"),
        (7800, "2 h 10 min"),
    ):
        assert module.format_duration(seconds) == told
    assert [module.format_count(number, "source") for number in (0, 1, 1234)] == [
        "0 sources",
        "1 source",
        "1,234 sources",
    ]
    assert [module.format_count(number, "reply", "replies") for number in (1, 2)] == ["1 reply", "2 replies"]
