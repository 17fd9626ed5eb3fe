"""`bidibeam decode` without a run: the model that comes with the package answers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bidibeam.api import load_run
from tests.unit.cli.calls import called, refused

VBS = ("--strategy", "vbs", "--beam-size", "3")
NOTE = "No run was named: this is the small model that comes with bidibeam."


@pytest.fixture
def in_the_box(toy_run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The toy run in the place of the model that comes with the package."""
    monkeypatch.setattr("bidibeam.api.bundled.bundled_path", lambda: toy_run)
    return toy_run


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    path = tmp_path / "sources.txt"
    path.write_text("red cat\nblue dog fish\n", encoding="utf-8")
    return path


def test_a_file_alone_is_answered_by_it(in_the_box: Path, sources: Path) -> None:
    call = called("decode", sources, *VBS)

    assert call.replies == ["red cat!", "blue dog fish!"]
    assert call.err.startswith(NOTE)
    assert f"|model:{load_run(in_the_box).fingerprint}|" in call.signature


@pytest.mark.parametrize("named", [(), ("-",)])
@pytest.mark.usefixtures("in_the_box")
def test_so_is_stdin(named: tuple[str, ...]) -> None:
    call = called("decode", *named, *VBS, typed="red cat\n")

    assert call.replies == ["red cat!"]
    assert call.err.startswith(NOTE)


@pytest.mark.usefixtures("in_the_box")
def test_so_is_a_pipe(tmp_path: Path) -> None:
    """As a shell's <(...) gives one: a name of something that is neither a file nor a directory."""
    reader, writer = os.pipe()
    os.write(writer, b"red cat\n")
    os.close(writer)
    try:
        assert called("decode", f"/dev/fd/{reader}", *VBS).replies == ["red cat!"]
    finally:
        os.close(reader)
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_named_answers_instead(unsure_run: Path, toy_run: Path, sources: Path) -> None:
    for arguments, typed in (
        ((toy_run,), "red cat\n"),
        ((toy_run, sources), ""),
        ((toy_run, "-"), "white\n"),
    ):
        call = called("decode", *arguments, *VBS, typed=typed)
        assert call.replies[0] in ("red cat!", "white!")
        assert NOTE not in call.err
        assert f"|model:{load_run(toy_run).fingerprint}|" in call.signature
    assert load_run(unsure_run).fingerprint not in call.signature


def test_what_is_neither_run_nor_file_is_named(tmp_path: Path) -> None:
    assert refused("decode", tmp_path / "no.txt", typed="red\n") == (
        f"{tmp_path / 'no.txt'} is not a run directory: it has no config.json. Nor is it a file of sources: "
        "there is nothing by that name."
    )


def test_a_directory_alone_must_be_a_run(toy_run: Path, tmp_path: Path) -> None:
    assert refused("decode", tmp_path, typed="red\n") == (
        f"{tmp_path} is not a run directory: it has no config.json. Give the directory that `bidibeam train "
        "--out` wrote."
    )
    assert refused("decode", toy_run.parent, typed="red\n").endswith(f"Did you mean {toy_run}?")


def test_a_third_name_is_wrong_usage(toy_run: Path, sources: Path) -> None:
    call = called("decode", toy_run, sources, sources)

    assert (call.status, call.out) == (2, "")
    assert "unexpected extra argument" in call.err


def test_the_input_is_never_overwritten_when_it_stands_alone(sources: Path) -> None:
    assert refused("decode", sources, "--n-best", sources) == (
        f"--n-best would overwrite the input, {sources}. Name another file."
    )


def test_the_model_that_really_comes_along_answers(sources: Path) -> None:
    call = called("decode", sources, "--beam-size", "4", "--max-length", "8")

    assert len(call.replies) == 2
    assert all(call.replies)
    assert f"|model:{load_run(device='cpu').fingerprint}|" in call.signature
