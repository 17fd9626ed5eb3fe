"""The same search on a GPU, where there is one."""

from __future__ import annotations

import pytest
import torch

from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.search.tables import Row, TableScorer, random_rows, source_batch
from tests.unit.search.test_oracles import RULES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

ROLES = VocabularyRoles(start=0, end=1, forbidden=frozenset({0, 2}))


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
