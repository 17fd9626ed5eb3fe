"""Progress and tables go to stderr."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from bidibeam.cli import console as module


def test_the_console_writes_to_stderr_alone(capsys: pytest.CaptureFixture[str]) -> None:
    module.console.print("hello 3")

    assert capsys.readouterr() == ("", "hello 3\n")


def test_progress_shows_description_counts_times_and_note(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(module, "console", terminal)

    with module.progress() as progress:
        task = progress.add_task("training [x]", total=8, note="loss 4.2")
        progress.update(task, completed=2)
        progress.add_task("reading", total=None)
    assert isinstance(terminal.file, io.StringIO)
    text = terminal.file.getvalue()

    for part in ("training [x]", "2/8", "0:00:00", "left", "loss 4.2", "reading", "0/?"):
        assert part in text


def test_progress_that_is_transient_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(module, "console", Console(file=file, width=80, color_system=None))

    with module.progress(transient=True) as progress:
        progress.advance(progress.add_task("reading", total=1))

    assert file.getvalue() == ""  # a log has no line to take back
