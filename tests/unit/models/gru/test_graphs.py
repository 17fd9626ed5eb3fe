"""Searches of the network replayed from a capture, with CUDA graphs emulated on a CPU."""

from __future__ import annotations

import pytest
import torch

from bidibeam.data.batching import pad_sources
from bidibeam.hypotheses import Direction
from bidibeam.models.gru.scorer import GRUScorer
from bidibeam.search.backpointers import ScoredSequence
from bidibeam.search.beam import beam_search
from bidibeam.search.graphs import GraphCache
from bidibeam.search.settings import SearchSettings
from bidibeam.work import counting
from tests.unit.models.gru.test_scorer import ROLES, VOCABULARY, network
from tests.unit.search.emulation import EmulatedCapture
from tests.unit.search.test_oracles import RULES


def random_sources(count: int, longest: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=generator).tolist()
    lengths[0] = longest
    return pad_sources([torch.randint(4, VOCABULARY, (n,), generator=generator).tolist() for n in lengths])


def assert_close(found: list[list[ScoredSequence]], expected: list[list[ScoredSequence]]) -> None:
    """The same lists; padding to a multiple of 8 positions changes the last bits of numbers."""
    assert [[one.tokens for one in line] for line in found] == [
        [one.tokens for one in line] for line in expected
    ]
    for line, other in zip(found, expected, strict=True):
        assert [one.score for one in line] == pytest.approx([one.score for one in other], abs=1e-4)


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("stopping", RULES)
def test_a_replayed_search_finds_what_an_eager_one_finds(stopping: str, direction: Direction) -> None:
    how = SearchSettings(beam_size=5, max_length=9, stopping=stopping)
    eager, static = GRUScorer(network(), direction), GRUScorer(network(), direction)
    capture = EmulatedCapture()
    static.graphs = GraphCache(capture)

    for seed, (count, longest) in enumerate([(6, 7), (6, 5), (7, 3), (5, 7), (8, 1)]):  # one shape
        sources = random_sources(count, longest, seed)
        assert_close(beam_search(static, sources, how, ROLES), beam_search(eager, sources, how, ROLES))
    assert capture.recorded == 2
    assert capture.replayed > 3

    beam_search(static, random_sources(6, 8, 9), how, ROLES)
    assert capture.recorded == 2, "a longer source is of another shape, which comes the first time"


def test_replayed_steps_are_counted() -> None:
    how = SearchSettings(beam_size=5, max_length=6, min_length=5)  # so that all five steps are replayed
    scorer = GRUScorer(network(), Direction.REGULAR)
    scorer.graphs = GraphCache(EmulatedCapture())
    for _ in range(2):
        beam_search(scorer, random_sources(4, 8, 0), how, ROLES)

    with counting() as work:
        beam_search(scorer, random_sources(4, 8, 0), how, ROLES)

    assert work.projected_rows == 4 + 5 * 4 * 5
