"""Output that grows is not resumed with another input or other settings, nor by two writers at once."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, NBest
from bidibeam.interchange import nbest, resumable
from bidibeam.scores import Signature
from tests.unit.interchange.outputs import (
    CONTENT,
    LINES,
    SIGNATURE,
    SOURCES,
    answered,
    call,
    interrupt,
    partial,
)


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
