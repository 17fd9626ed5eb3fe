"""What the commands are called on: runs, vectors, n-best lists, and similarities that somebody wrote."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bidibeam.cli import console
from bidibeam.data.prepared import PreparedData
from bidibeam.reporting import plots
from bidibeam.training.settings import RunSettings, TrainingSettings
from bidibeam.training.train import train
from tests.conftest import TINY_MODEL, WORDS, copied
from tests.unit.cli.calls import write_lines, write_vectors
from tests.unit.cli.evaluations import written_beams, written_texts
from tests.unit.models.huggingface.folders import SOURCES, write_pair

SIMILARITIES = """
def same(hypotheses, references):
    return [[float(one.text == other.text) for other in references] for one in hypotheses]

class Same:
    def pairwise(self, hypotheses, references):
        return same(hypotheses, references)

class Box:
    inner = Same

def fails(hypotheses, references):
    raise KeyError("x")

calls = 0

def fails_second(hypotheses, references):
    global calls
    calls += 1
    if calls == 2:
        raise RuntimeError("enough")
    return same(hypotheses, references)
"""


@pytest.fixture
def copied_regular_run(regular_run: Path, tmp_path: Path) -> Path:
    """The run without a reverse decoder, to write into."""
    return copied(regular_run, tmp_path / "run")


@pytest.fixture(scope="session")
def regular_run(toy_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without a reverse decoder, which has learnt next to nothing."""
    run = tmp_path_factory.mktemp("regular-run") / "run"
    settings = TrainingSettings(max_steps=2, batch_size=32, tensorboard=False)
    train(toy_data, run, RunSettings(replace(TINY_MODEL, directions=("regular",)), settings))
    return run


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random vectors for all words of the toy corpus but one."""
    return write_vectors(tmp_path_factory.mktemp("vectors") / "toy.vec", [*WORDS[:-1], "!"])


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of a regular and of a reverse Hugging Face model."""
    return write_pair(tmp_path_factory.mktemp("pair"), "bart")


@pytest.fixture
def hf_sources(tmp_path: Path) -> Path:
    """What the models of a pair are asked."""
    return write_lines(tmp_path / "hf-sources.txt", *SOURCES)


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    """Two sources with texts alone: what `docs/nbest.md` says is enough."""
    return write_lines(
        tmp_path / "lists.jsonl",
        {
            "regular": [{"text": "I don't know."}, {"text": "At work."}, {"text": "No, I am at home now."}],
            "reverse": [{"text": "I'm at home now."}, {"text": "At work."}],
        },
        {"regular": [{"text": "Yes."}, {"text": "Not now."}], "reverse": [{"text": "Not now!"}]},
    )


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Path]:
    """Replies and references as text: "good", "poor", "references"."""
    return written_texts(tmp_path)


@pytest.fixture
def beams(tmp_path: Path) -> Path:
    """Four sources with lists, scores and references."""
    return written_beams(tmp_path)


@pytest.fixture
def drawn() -> None:
    """Whoever tunes gets a picture of the curves."""


@pytest.fixture(autouse=True)
def _undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tunes, and does not ask for `drawn`, gets an empty picture: it takes most of the time."""

    def empty(path: Path, *_: object, **__: object) -> bool:
        path.write_text("<svg></svg>")
        return True

    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(plots, "draw_tuning_curves", empty)


@pytest.fixture
def similarities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A module in the current directory, and the name on the command line of what is in it."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "my_similarities.py").write_text(SIMILARITIES)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_similarities", raising=False)
    return "my_similarities:{}".format


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A log file where stderr would be."""
    return replace_console(monkeypatch, is_terminal=False)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal where stderr would be."""
    return replace_console(monkeypatch, is_terminal=True)


def replace_console(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> io.StringIO:
    file = io.StringIO()
    looks: dict[str, Any] = dict.fromkeys(("force_terminal", "force_interactive"), is_terminal)
    shown = Console(file=file, width=80, color_system=None, **looks)
    monkeypatch.setattr(console, "get_console", lambda: shown)
    return file
