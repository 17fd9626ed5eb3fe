"""Recorded searches: what is found is what a search without a recording finds.

A CPU records nothing, so a tape that does each part again, into the same memory, stands in for a GPU's; where
there is a GPU, its own is tested as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bidibeam.errors import ScorerError
from bidibeam.search import playing
from bidibeam.search.beam import beam_search
from bidibeam.search.found import FoundSequence
from bidibeam.search.recording import Recorder
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from bidibeam.work import counting
from tests.unit.search.tapes import Again

ROLES = VocabularyRoles(start=0, end=1, forbidden=frozenset({0, 2}))
RULES = ["shrinking", "constant", "patience", "heuristic", "optimal", "exhaust"]
SETTINGS = SearchSettings(beam_size=4, max_length=7, stopping="constant")
MEMORIES = 37
HAS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=HAS_GPU)]


@dataclass(frozen=True)
class Remembered:
    tables: Tensor  # (sources, memories, vocabulary)
    memories: Tensor  # (sources, beams)


class Mindful:
    """A model that remembers a number for what it read, and looks up what comes next: a table a source."""

    def __init__(self, tables: Tensor, recorder: Recorder[Any] | None) -> None:
        self.tables, self.version = tables, 0
        if recorder is not None:
            self.recorder = recorder

    def start(self, sources: Tensor) -> Remembered:
        return Remembered(self.tables[sources[:, 0]], torch.zeros_like(sources[:, :1]))

    def step(self, last_tokens: Tensor, state: Remembered) -> tuple[Tensor, Remembered]:
        memories = (state.memories * 7 + last_tokens.view(state.memories.shape) + 1) % MEMORIES
        each = torch.arange(len(memories), device=memories.device)[:, None]
        return state.tables[each, memories].flatten(0, 1), replace(state, memories=memories)

    def select(self, state: Remembered, rows: Tensor, kept: Sequence[int] | None = None) -> Remembered:
        tables = state.tables
        if kept is not None:
            tables = tables[torch.tensor(kept, device=rows.device)]
        return Remembered(tables, state.memories.flatten()[rows])

    def kind(self, state: Remembered) -> Hashable:
        return self.version, tuple(state.tables.shape), tuple(state.memories.shape)

    def tensors(self, state: Remembered) -> list[Tensor]:
        return [state.tables, state.memories]

    def cloned(self, state: Remembered, steps: int) -> Remembered:
        assert steps in {6, 7}
        return Remembered(state.tables.clone(), state.memories.clone())


def tables(seed: int, *, end: float = 0.0, vocabulary: int = 11) -> Tensor:
    """Eight sources'; `end` makes replies shorter."""
    made = torch.randn(8, MEMORIES, vocabulary, generator=torch.Generator().manual_seed(seed))
    made[:, :, 1] += end
    return made


def found(
    made: Tensor, recorder: Recorder[Any] | None, settings: SearchSettings = SETTINGS, device: str = "cpu"
) -> list[list[FoundSequence]]:
    sources = torch.arange(len(made), device=device)[:, None]
    return beam_search(Mindful(made.to(device), recorder), sources, settings, ROLES)


@pytest.fixture(autouse=True)
def tape(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> type[Again]:
    if "device" not in request.fixturenames or request.getfixturevalue("device") == "cpu":
        monkeypatch.setattr(playing, "Tape", Again)
    Again.made = 0
    return Again


@pytest.mark.parametrize("end", [-2.0, 0.0, 3.0])
@pytest.mark.parametrize("stopping", RULES)
@pytest.mark.parametrize("device", DEVICES)
def test_a_recording_finds_what_a_search_finds(device: str, stopping: str, end: float) -> None:
    for unfinished in ("keep", "drop", "rank"):
        settings = replace(SETTINGS, stopping=stopping, unfinished=unfinished)
        recorder: Recorder[Any] = Recorder()
        for seed in range(5):  # the first search is not recorded, the second is recorded and played
            made = tables(seed, end=end)

            assert found(made, recorder, settings, device) == found(made, None, settings, device)


def test_the_third_search_records_nothing_more(tape: type[Again]) -> None:
    recorder: Recorder[Any] = Recorder()
    made = []
    for seed in range(4):
        found(tables(seed), recorder)
        made.append(tape.made)

    assert made == [0, 1, 1, 1]


@pytest.mark.parametrize(
    "other",
    [
        lambda recorder: found(tables(0)[:3], recorder),
        lambda recorder: found(tables(0, vocabulary=12), recorder),
        lambda recorder: found(tables(0), recorder, replace(SETTINGS, beam_size=3)),
        lambda recorder: found(tables(0), recorder, replace(SETTINGS, max_length=8)),
        lambda recorder: found(tables(0), recorder, replace(SETTINGS, min_length=2)),
        lambda recorder: found(tables(0), recorder, replace(SETTINGS, length_penalty=0.1)),
    ],
)
def test_another_kind_of_search_is_another_recording(
    other: Callable[[Recorder[Any]], Any], tape: type[Again]
) -> None:
    recorder: Recorder[Any] = Recorder()
    for _ in range(2):
        found(tables(0), recorder)
    alone: Recorder[Any] = Recorder()
    expected = other(alone)

    assert [other(recorder) for _ in range(3)] == [expected] * 3
    assert tape.made == 2


def test_a_search_that_nobody_repeats_is_forgotten_in_the_end(tape: type[Again]) -> None:
    recorder: Recorder[Any] = Recorder(most=2)
    for sources in (1, 2, 3):
        for _ in range(2):
            found(tables(0)[:sources], recorder)
    assert tape.made == 3

    found(tables(0)[:3], recorder)
    assert tape.made == 3
    found(tables(0)[:1], recorder)
    assert tape.made == 4


def test_what_cannot_be_recorded_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    class Refusing(Again):
        def record(self, part: Callable[[], Any]) -> Any:
            tried.append(part)
            raise RuntimeError("not permitted when stream is capturing")

    monkeypatch.setattr(playing, "Tape", Refusing)
    recorder: Recorder[Any] = Recorder()

    for seed in range(4):
        assert found(tables(seed), recorder) == found(tables(seed), None)
    assert len(tried) == 1


def test_large_searches_are_not_recorded(monkeypatch: pytest.MonkeyPatch, tape: type[Again]) -> None:
    monkeypatch.setattr(playing, "MOST_LOGITS", 8 * 4 * 11 - 1)
    recorder: Recorder[Any] = Recorder()

    for seed in range(3):
        found(tables(seed), recorder)

    assert tape.made == 0


@pytest.mark.parametrize("end", [-2.0, 3.0])
@pytest.mark.parametrize("device", DEVICES)
def test_the_work_of_a_recording_is_counted_once_a_play(device: str, end: float) -> None:
    counted = []
    recorder: Recorder[Any] = Recorder()
    settings = replace(SETTINGS, stopping="exhaust")
    for seed in range(4):
        with counting() as done:
            found(tables(seed, end=end), recorder, settings, device)
        counted.append(done.projected_rows)

    assert counted == [0, 0, *counted[2:]]
    assert counted[2] == counted[3] == 8 * 4 * (settings.max_length - 1)


@pytest.mark.parametrize("device", DEVICES)
def test_broken_logits_are_noticed_in_a_recording_too(device: str) -> None:
    recorder: Recorder[Any] = Recorder()
    for seed in range(2):
        found(tables(seed), recorder, device=device)
    broken = tables(2)
    broken[5, 1:] = torch.nan  # not at the first step

    with pytest.raises(ScorerError, match="source 5"):
        found(broken, recorder, device=device)
    assert found(tables(3), recorder, device=device) == found(tables(3), None, device=device)
