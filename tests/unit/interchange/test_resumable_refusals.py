"""Output that grows is only taken up where it answers the same input, with the same settings, alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, NBest
from bidibeam.interchange import nbest, resumable
from bidibeam.scores import Signature
from tests.unit.interchange.answers import (
    CONTENT,
    LINES,
    SIGNATURE,
    SOURCES,
    answered,
    call,
    interrupt,
    message_of,
    partial,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "best.jsonl"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "x"}, 'its "id" is the string "2", but the input has the string "x" there.'),
        ({"source": "who?"}, 'its "source" is the string "où 2?", but the input has the string "who?"'),
        ({"reference": None}, 'its "reference" is the string "là.", but the input has null there.'),
    ],
)
def test_another_input_is_refused_with_the_line_that_differs(
    path: Path, change: dict[str, str | None], message: str
) -> None:
    interrupt(path)
    before = partial(path).read_bytes()
    sources = [SOURCES[0], replace(SOURCES[1], **change), *SOURCES[2:]]  # type: ignore[arg-type]

    found = message_of(path, sources)

    assert found.startswith(f"{partial(path)}, line 2: {message}")
    assert found.endswith(f" Remove {partial(path)}, or do not resume, to start over.")
    assert partial(path).read_bytes() == before
    assert not path.exists()


def test_an_input_that_ends_too_early_is_refused(path: Path) -> None:
    interrupt(path)

    assert message_of(path, SOURCES[:2]) == (
        f"{partial(path)}, line 3: the input ends before it. "
        f"Remove {partial(path)}, or do not resume, to start over."
    )


def reread(beams: Iterable[Beams]) -> list[Beams]:
    """What a file of them says."""
    return [nbest.from_json(nbest.to_json(each)) for each in beams]


def test_an_input_with_the_same_hypotheses_is_resumed(path: Path) -> None:
    beams = [answered(source)[0] for source in SOURCES]
    found = beams[1].regular.best._replace(multiplicity=3)  # which no line says
    beams[1] = beams[1].with_hypotheses(Direction.REGULAR, NBest((found,)))
    interrupt(path)

    assert call(path, beams, resume=True)[1] == 2
    assert call(path, reread(beams), resume=True)[1] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"text": "hers"},
        {"tokens": ("4h", "ere")},
        {"log_prob": -1.0000000000000002},
        {"log_prob": None},
        {"length": 4},
        {"score": -0.7},
        {"finished": False},
        {"other_log_prob": -2.0},
    ],
)
def test_an_input_with_other_hypotheses_is_refused(path: Path, change: dict[str, object]) -> None:
    beams = [answered(source)[0] for source in SOURCES]
    call(path)
    changed = NBest((beams[3].regular.best._replace(**change),))  # type: ignore[arg-type]
    others = [*beams[:3], beams[3].with_hypotheses(Direction.REGULAR, changed), beams[4]]

    assert message_of(path, others) == (
        f'{path}, line 4: the "{next(iter(change))}" of its "regular" hypotheses is not what the input has '
        f"there. Remove {path}, or do not resume, to start over."
    )


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("count", [0, 2])
def test_an_input_with_more_or_fewer_hypotheses_is_refused(
    path: Path, direction: Direction, count: int
) -> None:
    regular, ranking = answered(SOURCES[0])
    beams = regular.with_hypotheses(Direction.REVERSE, regular.regular)
    path.parent.mkdir()
    path.write_text(nbest.to_json(beams, ranking, SIGNATURE) + "\n", encoding="utf-8")
    other = beams.with_hypotheses(direction, NBest((regular.regular.best,) * count))

    assert message_of(path, [other]).startswith(
        f'{path}, line 1: the "text" of its "{direction}" hypotheses is not what the input has there.'
    )


def test_other_settings_are_refused_by_what_differs(path: Path) -> None:
    interrupt(path)
    other = Signature((("strategy", "vbs"), ("beam_size", "50"), ("seed", "1")))

    assert message_of(path, signature=other) == (
        f"{partial(path)}, line 1: it was written with other settings: beam_size:2, "
        f"where now there is beam_size:50, seed:1. "
        f"Remove {partial(path)}, or do not resume, to start over."
    )


def test_a_setting_that_is_new_is_told(path: Path) -> None:
    interrupt(path)

    found = message_of(path, signature=SIGNATURE.extended(seed=1))

    assert "other settings: nothing, where now there is seed:1." in found


@pytest.mark.parametrize("ranking", [None, {}, {"signature": None, "replies": []}, [1], {"signature": "a"}])
def test_a_file_from_elsewhere_is_refused_and_stays(path: Path, ranking: object) -> None:
    path.parent.mkdir()
    line = json.dumps({"id": "1", "regular": [], "ranking": ranking})
    path.write_text(line, encoding="utf-8")

    assert message_of(path) == (
        f"{path}, line 1: it has no ranking that says how it was made. "
        f"Remove {path}, or do not resume, to start over."
    )
    assert path.read_text(encoding="utf-8") == line
    assert list(path.parent.iterdir()) == [path]


def test_a_line_that_is_broken_in_the_middle_is_named(path: Path) -> None:
    path.parent.mkdir()
    partial(path).write_text(LINES[0] + LINES[1][:20] + "\n" + LINES[2], encoding="utf-8")

    found = message_of(path)

    assert found.startswith(f"{partial(path)}, line 2: this is not JSON: ")
    assert found.endswith(" to start over.")


def test_an_error_of_the_input_is_told_as_it_is(path: Path) -> None:
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
        with pytest.raises(InputError) as caught:
            call(path, resume=resume)
        for source in output.rest:
            output.write(*answered(source))

    assert str(caught.value) == (
        f"Another process is writing to {partial(path)}. Wait until it is done, or name another file."
    )
    assert path.read_bytes() == CONTENT


def test_a_writer_that_comes_as_another_ends_does_not_touch_its_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    lock = resumable._lock

    def lock_late(stream: object, locked: Path) -> None:
        monkeypatch.undo()  # once
        partial(path).write_bytes(CONTENT)
        partial(path).replace(path)  # so the file that is open already has another name
        lock(stream, locked)  # type: ignore[arg-type]

    monkeypatch.setattr(resumable, "_lock", lock_late)
    with pytest.raises(RuntimeError):
        call(path, fail_at="2")

    assert path.read_bytes() == CONTENT
    assert partial(path).read_bytes() == LINES[0].encode()
