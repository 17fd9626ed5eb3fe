"""Stages: what is done again, and what is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bidibeam.errors import RunError
from bidibeam.experiments.stages import (
    STAMPS,
    ExperimentObserver,
    Stage,
    describe_files,
    identify_content,
    run_stages,
)


class Listener(ExperimentObserver):
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.ends: list[str] = []

    def begin(self, name: str, *, number: int, total: int, resumed: bool, why: str) -> None:
        self.heard.append(f"{number}/{total} {name}{' again' if resumed else ''}")
        self.why = why

    def end(self, name: str, *, number: int, total: int, took_s: float) -> None:
        assert took_s >= 0
        self.ends.append(f"{number}/{total} {name}")

    def skip(self, name: str, *, number: int, total: int) -> None:
        self.heard.append(f"({number}/{total} {name})")


def writes(path: Path, text: str) -> Callable[[], None]:
    def work() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return work


def chain(folder: Path, **settings: Any) -> list[Stage]:
    """a, then b, then c which uses both; d stands alone. `a` writes its setting's first letter."""
    a = Stage(
        "a",
        {"x": settings.get("a", 1)},
        (folder / "a",),
        writes(folder / "a", str(settings.get("a", 1))[0]),
        identity=identify_content(folder / "a"),
    )
    b = Stage("b", {"x": settings.get("b", 1)}, (folder / "b",), writes(folder / "b", "b"), after=(a,))
    c = Stage("c", {"x": settings.get("c", 1)}, (folder / "c",), writes(folder / "c", "c"), after=(a, b))
    d = Stage("d", {"x": settings.get("d", 1)}, (folder / "d",), writes(folder / "d", "d"))
    return [a, b, c, d]


def run(folder: Path, stages: Sequence[Stage]) -> list[str]:
    return run_stages(folder, stages, Listener())


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ({"a": 2}, ["a", "b", "c"]),
        ({"b": 2}, ["b", "c"]),
        ({"c": 2}, ["c"]),
        ({"d": 2}, ["d"]),
        ({"a": 11}, ["a"]),  # another setting, but it makes the same thing
    ],
)
def test_changed_settings_repeat_exactly_what_depends_on_them(
    tmp_path: Path, changed: dict[str, int], again: list[str]
) -> None:
    assert run(tmp_path, chain(tmp_path)) == ["a", "b", "c", "d"]
    assert run(tmp_path, chain(tmp_path)) == []

    assert run(tmp_path, chain(tmp_path, **changed)) == again


def test_a_lost_output_is_made_again_and_sets_off_nothing(tmp_path: Path) -> None:
    run(tmp_path, chain(tmp_path))
    (tmp_path / "a").unlink()

    assert run(tmp_path, chain(tmp_path)) == ["a"]


def test_a_killed_stage_goes_on_with_what_it_left(tmp_path: Path) -> None:
    folder = tmp_path / "half"

    def dies() -> None:
        folder.mkdir()
        (folder / "left").write_text("half")
        raise KeyboardInterrupt

    def goes_on() -> None:
        assert (folder / "left").read_text() == "half"

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, [Stage("x", {"y": 1}, (folder,), dies)])

    listener = Listener()
    run_stages(tmp_path, [Stage("x", {"y": 1}, (folder,), goes_on)], listener)
    assert listener.heard == ["1/1 x again"]


def test_what_a_stage_left_under_other_settings_is_removed_before_it_runs(tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def work() -> None:
        folder.mkdir()  # fails if it is there

    for value in (1, 2):
        assert run(tmp_path, [Stage("x", {"y": value}, (folder,), work)]) == ["x"]


@pytest.mark.parametrize(
    "damage", ["{", "[]", '{"fingerprint": "x"}', '{"fingerprint": "x", "is_done": true}']
)
def test_a_damaged_stamp_means_that_the_stage_is_done_again(tmp_path: Path, damage: str) -> None:
    run(tmp_path, chain(tmp_path))
    (tmp_path / STAMPS / "d.json").write_text(damage)

    assert run(tmp_path, chain(tmp_path)) == ["d"]


def test_a_stage_that_makes_less_than_it_should_is_not_done(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"'x' ended without making .*nothing"):
        run(tmp_path, [Stage("x", {}, (tmp_path / "nothing",), lambda: None)])

    assert not json.loads((tmp_path / STAMPS / "x.json").read_text())["is_done"]


def test_whoever_watches_hears_of_every_stage(tmp_path: Path) -> None:
    first, second = Listener(), Listener()
    run_stages(tmp_path, chain(tmp_path), first)
    assert first.ends == first.heard == ["1/4 a", "2/4 b", "3/4 c", "4/4 d"]

    run_stages(tmp_path, chain(tmp_path, c=2), second)

    assert second.heard == ["(1/4 a)", "(2/4 b)", "3/4 c", "(4/4 d)"]
    assert second.ends == ["3/4 c"]
    assert second.why == "x: 1 -> 2"
    run_stages(tmp_path, chain(tmp_path, a=2, c=2), second)
    assert second.why == "what it is made from has changed"  # c, after a


def test_a_file_is_told_from_what_it_was_before(tmp_path: Path) -> None:
    file = tmp_path / "corpus" / "lines.txt"
    file.parent.mkdir()
    file.write_text("one")
    before = describe_files(file)

    assert describe_files(file) == describe_files(file.parent) == before
    file.write_text("two words")
    assert describe_files(file) == describe_files(file.parent) != before
    assert describe_files(None) == []
    assert describe_files(tmp_path / "gone") == ["gone"]


def test_a_folder_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    def inner() -> None:
        with pytest.raises(RunError, match=f"Another process is running the experiment in {tmp_path}"):
            run(tmp_path, [])

    inner_stage = Stage("x", {}, (), inner)

    assert run(tmp_path, [inner_stage]) == ["x"]
    assert run(tmp_path, []) == []  # and free again afterwards
