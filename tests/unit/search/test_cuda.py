"""The same search on a GPU, where there is one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from bidibeam.search.beam import beam_search, find
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.search.tables import Row, TableScorer, random_rows, source_batch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

ROLES = VocabularyRoles(start=0, end=1, forbidden=frozenset({0, 2}))
RULES = ["shrinking", "constant", "patience", "heuristic", "optimal", "exhaust"]


def same_everywhere(row: Row, settings: SearchSettings) -> bool:
    on_cpu, on_gpu = (
        beam_search(TableScorer(row), source_batch(range(6)).to(device), settings, ROLES)
        for device in ("cpu", "cuda")
    )
    return [[(one.tokens, one.finished) for one in found] for found in on_cpu] == [
        [(one.tokens, one.finished) for one in found] for found in on_gpu
    ]


@pytest.mark.parametrize("stopping", RULES)
@pytest.mark.parametrize("vocabulary", [5, 70])
def test_a_gpu_finds_the_same(stopping: str, vocabulary: int) -> None:
    settings = SearchSettings(beam_size=4, max_length=8, stopping=stopping)

    for seed in range(5):
        assert same_everywhere(random_rows(seed, vocabulary, [k / 7 for k in range(-30, 9)]), settings)


@pytest.mark.parametrize("stopping", RULES)
def test_trap_7_a_gpu_breaks_ties_the_same_way(stopping: str) -> None:
    settings = SearchSettings(beam_size=9, max_length=6, stopping=stopping)

    assert same_everywhere(lambda *_: [0.0] * 300, settings)


class Constant:
    """Always the same logits, on the GPU; nothing for the host to wait for."""

    def __init__(self, vocabulary: int) -> None:
        self.row = torch.linspace(0, 3, vocabulary, device="cuda")

    def start(self, sources: Tensor) -> None:
        pass

    def step(self, last_tokens: Tensor, state: None) -> tuple[Tensor, None]:  # noqa: ARG002
        return self.row.expand(len(last_tokens), -1), None

    def select(self, state: None, rows: Tensor, kept: Sequence[int] | None = None) -> None:
        pass


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")  # it says that it is a prototype
def test_no_step_makes_the_host_wait() -> None:
    class Watched(Constant):
        steps = 0

        def step(self, last_tokens: Tensor, state: None) -> tuple[Tensor, None]:
            self.steps += 1
            if self.steps > 1:  # the first step sets up what all share
                torch.cuda.set_sync_debug_mode("error")
            if self.steps == 10:  # reading back waits
                torch.cuda.set_sync_debug_mode("default")
            return super().step(last_tokens, state)

    sources = torch.zeros(3, 2, dtype=torch.long, device="cuda")
    try:
        found = beam_search(Watched(500), sources, SearchSettings(beam_size=5, max_length=10), ROLES)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(found) == 3


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("unfinished", ["keep", "rank", "drop"])
def test_the_end_of_a_search_makes_the_host_wait_no_more_than_its_steps(unfinished: str) -> None:
    class Watched(Constant):
        steps = 0

        def step(self, last_tokens: Tensor, state: None) -> tuple[Tensor, None]:
            self.steps += 1
            if self.steps > 1:
                torch.cuda.set_sync_debug_mode("error")
            return super().step(last_tokens, state)

    sources = torch.zeros(3, 2, dtype=torch.long, device="cuda")
    settings = SearchSettings(beam_size=5, max_length=10, unfinished=unfinished)
    try:
        found = find(Watched(500), sources, settings, ROLES)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(found.columns().ends) == 3
